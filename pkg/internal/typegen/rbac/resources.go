package rbac

import (
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// resource is what a kind is called in a role.
type resource struct {
	schema.GroupResource
	clusterScoped bool
	// guessed says that nothing confirms the name: the kind is neither built in
	// nor defined by the chart.
	guessed bool
}

// clusterKinds are the built-in kinds without a namespace.
var clusterKinds = map[string]bool{
	"APIService": true, "CertificateSigningRequest": true, "ClusterRole": true, "ClusterRoleBinding": true,
	"ClusterTrustBundle": true, "CSIDriver": true, "CSINode": true, "CustomResourceDefinition": true, "DeviceClass": true,
	"FlowSchema": true, "IngressClass": true, "IPAddress": true, "MutatingAdmissionPolicy": true,
	"MutatingAdmissionPolicyBinding": true, "MutatingWebhookConfiguration": true, "Namespace": true, "Node": true,
	"PersistentVolume": true, "PriorityClass": true, "PriorityLevelConfiguration": true, "ResourceSlice": true,
	"RuntimeClass": true, "ServiceCIDR": true, "StorageClass": true, "StorageVersion": true,
	"ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true, "ValidatingWebhookConfiguration": true,
	"VolumeAttachment": true, "VolumeAttributesClass": true,
}

// aggregated are groups that come with every cluster and are not in client-go.
var aggregated = map[string]bool{"apiextensions.k8s.io": true, "apiregistration.k8s.io": true}

// mapper knows the resources of kinds without asking a cluster.
type mapper map[schema.GroupKind]resource

func newMapper(definitions []*apiextensionsv1.CustomResourceDefinition) mapper {
	m := mapper{}
	for _, crd := range definitions {
		m[schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = resource{
			GroupResource: schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural},
			clusterScoped: crd.Spec.Scope == apiextensionsv1.ClusterScoped,
		}
	}
	return m
}

func (m mapper) resourceOf(gvk schema.GroupVersionKind) resource {
	if known, ok := m[gvk.GroupKind()]; ok {
		return known
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	builtIn := aggregated[gvk.Group] || clientgoscheme.Scheme.Recognizes(gvk)
	return resource{
		GroupResource: plural.GroupResource(),
		clusterScoped: builtIn && clusterKinds[gvk.Kind],
		guessed:       !builtIn,
	}
}

var (
	documentStart = regexp.MustCompile(`(?m)^---`)
	apiVersion    = regexp.MustCompile(`(?m)^apiVersion:[ \t]*["']?([a-z0-9./-]+)["']?[ \t]*$`)
	kindLine      = regexp.MustCompile(`(?m)^kind:[ \t]*["']?([A-Za-z0-9]+)["']?[ \t]*$`)
	testHook      = regexp.MustCompile(`helm\.sh/hook["']?:[ \t]*["']?test`)
)

// written finds the kinds that templates name in so many words. It finds those
// that no combination of switches renders, because they depend on a text or a
// list.
func written(templates []string) map[schema.GroupVersionKind]bool {
	kinds := map[schema.GroupVersionKind]bool{}
	for _, template := range templates {
		for _, document := range documentStart.Split(strings.ReplaceAll(template, "\r\n", "\n"), -1) {
			version, kind := apiVersion.FindStringSubmatch(document), kindLine.FindStringSubmatch(document)
			if version == nil || kind == nil || testHook.MatchString(document) {
				continue
			}
			kinds[schema.FromAPIVersionAndKind(version[1], kind[1])] = true
		}
	}
	return kinds
}
