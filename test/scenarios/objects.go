package scenarios

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// userManager is the field manager of the scenario's user, who works with kubectl.
const userManager = "kubectl"

// objects is the administrator's access to objects of any kind.
type objects struct {
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface

	mu        sync.Mutex
	resources []metav1.APIResource // of all kinds, with group and version filled in
}

func newObjects(config *rest.Config) (*objects, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // of the deprecated kinds among all
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	disc, err := discovery.NewDiscoveryClientForConfig(config)
	return &objects{dynamic: client, discovery: disc}, err
}

// kinds returns the resources that the API server serves, asking it at the first call and when fresh.
func (o *objects) kinds(fresh bool) ([]metav1.APIResource, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.resources != nil && !fresh {
		return o.resources, nil
	}
	lists, err := o.discovery.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("asking for the kinds: %w", err)
	}
	o.resources = nil
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if strings.Contains(resource.Name, "/") {
				continue
			}
			resource.Group, resource.Version = gv.Group, gv.Version
			o.resources = append(o.resources, resource)
		}
	}
	return o.resources, nil
}

// kind finds the resource of Kind or Kind.group.
func (o *objects) kind(name string) (metav1.APIResource, error) {
	gk := schema.ParseGroupKind(name)
	for _, fresh := range []bool{false, true} { // it may have come meanwhile
		all, err := o.kinds(fresh)
		if err != nil {
			return metav1.APIResource{}, err
		}
		for _, resource := range all {
			// Events are in two groups; elsewhere a kind without a group is unique enough.
			if resource.Kind == gk.Kind && (gk.Group == "" || resource.Group == gk.Group) {
				return resource, nil
			}
		}
	}
	return metav1.APIResource{}, &meta.NoKindMatchError{GroupKind: gk}
}

// resource is the access to the objects of a kind in a namespace, if the kind has one.
func (o *objects) resource(kind metav1.APIResource, namespace string) dynamic.ResourceInterface {
	client := o.dynamic.Resource(gvr(kind))
	if kind.Namespaced {
		return client.Namespace(namespace)
	}
	return client
}

func gvr(kind metav1.APIResource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Name}
}

// at is the access to the object that ref names.
func (o *objects) at(ref Ref, namespace string) (dynamic.ResourceInterface, string, error) {
	kind, name, ok := strings.Cut(string(ref), "/")
	if !ok || name == "" {
		return nil, "", fmt.Errorf("object %q: want Kind/name", ref)
	}
	found, err := o.kind(kind)
	if err != nil {
		return nil, "", err
	}
	return o.resource(found, namespace), name, nil
}

// get reads the object that ref names; nil if there is none.
func (o *objects) get(ctx context.Context, ref Ref, namespace string) (*unstructured.Unstructured, error) {
	client, name, err := o.at(ref, namespace)
	if err != nil {
		return nil, err
	}
	obj, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

// list reads all objects of a kind that a selector chooses.
func (o *objects) list(ctx context.Context, kind, selector, namespace string) ([]unstructured.Unstructured, error) {
	found, err := o.kind(kind)
	if err != nil {
		return nil, err
	}
	list, err := o.resource(found, namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind, err)
	}
	return list.Items, nil
}

// apply applies all documents of a YAML text, with strict validation.
func (o *objects) apply(ctx context.Context, text []byte, namespace string) error {
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &obj.Object); err != nil {
			return err
		}
		if len(obj.Object) == 0 { // a document of comments
			continue
		}
		if err := o.applyOne(ctx, obj, namespace); err != nil {
			return err
		}
	}
}

func (o *objects) applyOne(ctx context.Context, obj *unstructured.Unstructured, namespace string) error {
	gvk := obj.GroupVersionKind()
	kind, err := o.kind(gvk.GroupKind().String())
	if err != nil {
		return err
	}
	kind.Version = gvk.Version
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return err
	}
	_, err = o.resource(kind, namespace).Patch(ctx, obj.GetName(), types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: userManager, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return fmt.Errorf("applying %s/%s: %w", gvk.Kind, obj.GetName(), err)
	}
	return nil
}

// await calls check with the object that ref names, nil while there is none, at once and after each change, until it
// returns "". The last thing it complained about is in the error.
func (o *objects) await(ctx context.Context, ref Ref, namespace string, check func(*unstructured.Unstructured) string) error {
	client, name, err := o.at(ref, namespace)
	if err != nil {
		return err
	}
	return awaitList(ctx, client, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()},
		func(all map[types.UID]*unstructured.Unstructured) string {
			for _, obj := range all {
				return check(obj)
			}
			return check(nil)
		})
}

// awaitList calls check with the objects that options choose, at once and after each change, until it returns "".
func awaitList(ctx context.Context, client dynamic.ResourceInterface, options metav1.ListOptions,
	check func(map[types.UID]*unstructured.Unstructured) string,
) error {
	for {
		complaint, err := followList(ctx, client, options, check)
		switch {
		case complaint == "" && err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %s", context.Cause(ctx), complaint)
		case err != nil:
			return err
		}
	}
}

// followList is awaitList until the watch ends, which the API server does at its pleasure.
func followList(ctx context.Context, client dynamic.ResourceInterface, options metav1.ListOptions,
	check func(map[types.UID]*unstructured.Unstructured) string,
) (complaint string, err error) {
	list, err := client.List(ctx, options)
	if err != nil {
		return "", err
	}
	all := map[types.UID]*unstructured.Unstructured{}
	for i := range list.Items {
		all[list.Items[i].GetUID()] = &list.Items[i]
	}
	if complaint = check(all); complaint == "" {
		return "", nil
	}
	options.ResourceVersion = list.GetResourceVersion()
	watcher, err := client.Watch(ctx, options)
	if err != nil {
		return complaint, err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return complaint, nil
		case event, open := <-watcher.ResultChan():
			obj, is := event.Object.(*unstructured.Unstructured)
			if !open || !is || event.Type == watch.Error {
				return complaint, nil
			}
			if event.Type == watch.Deleted {
				delete(all, obj.GetUID())
			} else {
				all[obj.GetUID()] = obj
			}
			if complaint = check(all); complaint == "" {
				return "", nil
			}
		}
	}
}
