package libertyapp

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// injection puts a pull secret into the pods and ServiceAccounts of a release;
// the zero value puts none.
type injection struct {
	name      string
	namespace string
}

// Digest is the name: nothing else changes what is injected.
func (i injection) Digest() string { return i.name }

// Resolve needs nothing.
func (injection) Resolve(context.Context, []*unstructured.Unstructured) error { return nil }

// Transform appends the pull secret to the lists that do not have it. Objects
// of other namespaces cannot use it.
func (i injection) Transform(obj *unstructured.Unstructured) error {
	if i.name == "" || obj.GetNamespace() != "" && obj.GetNamespace() != i.namespace {
		return nil
	}
	if obj.GetKind() == "ServiceAccount" && obj.GetAPIVersion() == "v1" {
		i.appendTo(obj.Object)
		return nil
	}
	if template := podTemplate(obj); template != nil {
		i.appendTo(podSpec(template))
	}
	return nil
}

func (i injection) appendTo(holder map[string]any) {
	list, _ := holder["imagePullSecrets"].([]any)
	for _, item := range list {
		if reference, ok := item.(map[string]any); ok && reference["name"] == i.name {
			return
		}
	}
	holder["imagePullSecrets"] = append(list, map[string]any{"name": i.name})
}

// Recorded needs nothing.
func (injection) Recorded() {}
