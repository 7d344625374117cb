package apply

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

const (
	// FieldManager is the one name under which every object is applied.
	FieldManager = "go-helm-operator"

	// OwnerLabel stands on every applied object, with the value LabelValue of
	// the owner's kind, so that one label selector finds all of them. It is never
	// part of a selector or a pod template.
	OwnerLabel = releasev1alpha1.OwnerLabel

	// primaryResource and primaryResourceType are the annotations by which
	// operator-sdk names the owner of an object that cannot carry an owner
	// reference: "namespace/name" and "Kind.group".
	primaryResource     = "operator-sdk/primary-resource"
	primaryResourceType = "operator-sdk/primary-resource-type"

	// Helm's own marks of a release.
	managedByLabel       = "app.kubernetes.io/managed-by"
	managedByHelm        = "Helm"
	releaseName          = "meta.helm.sh/release-name"
	releaseNamespace     = "meta.helm.sh/release-namespace"
	resourcePolicy       = "helm.sh/resource-policy"
	resourcePolicyKeep   = "keep"
	labelValueHashLength = 8
)

// Owner is the custom resource that a release belongs to.
type Owner struct {
	// GVK of the custom resource.
	GVK schema.GroupVersionKind
	// Namespace of the custom resource; empty for a cluster-scoped one.
	Namespace string
	// Name of the custom resource.
	Name string
	// UID of the custom resource. Objects get an owner reference only when it
	// is known.
	UID types.UID
	// ReleaseName is the name of the Helm release.
	ReleaseName string
	// ReleaseNamespace is where namespaced objects go that name no namespace.
	ReleaseNamespace string
}

// LabelValue returns the value of OwnerLabel for objects owned by a kind:
// "kind.group" in lower case, shortened with a hash where a label allows less.
func LabelValue(owner schema.GroupKind) string {
	value := strings.ToLower(owner.String())
	if len(value) <= validation.LabelValueMaxLength {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	cut := validation.LabelValueMaxLength - labelValueHashLength - 1
	return strings.TrimRight(value[:cut], "-.") + "-" + hex.EncodeToString(sum[:labelValueHashLength/2])
}

// Mark makes obj an object of the owner's release: it sets the default
// namespace, our label, Helm's label and annotations, the annotations that name
// the owner, and an owner reference where the garbage collector can follow one.
// It drops what only the server may set, and writes a Secret's stringData as
// data. namespaced says whether the kind of
// obj is. Marking twice is marking once.
func (o Owner) Mark(obj *unstructured.Unstructured, namespaced bool) {
	dropServerFields(obj)
	encodeStringData(obj)
	switch {
	case !namespaced:
		unstructured.RemoveNestedField(obj.Object, "metadata", "namespace")
	case obj.GetNamespace() == "":
		obj.SetNamespace(o.ReleaseNamespace)
	}
	setAll(obj.GetLabels, obj.SetLabels, map[string]string{
		OwnerLabel:     LabelValue(o.GVK.GroupKind()),
		managedByLabel: managedByHelm,
	})
	setAll(obj.GetAnnotations, obj.SetAnnotations, map[string]string{
		primaryResource:     o.namespacedName().String(),
		primaryResourceType: o.GVK.GroupKind().String(),
		releaseName:         o.ReleaseName,
		releaseNamespace:    o.ReleaseNamespace,
	})
	if o.mayReference(obj) {
		others := slices.DeleteFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == o.UID })
		obj.SetOwnerReferences(append(others, o.reference()))
	}
}

// Owns says whether an object in the cluster belongs to the owner: its
// annotations name the owner, or, where it has none, an owner reference does.
func (o Owner) Owns(m metav1.Object) bool {
	if kind, name, ok := OwnerOf(m); ok {
		return kind == o.GVK.GroupKind() && name == o.namespacedName()
	}
	for _, ref := range m.GetOwnerReferences() {
		if o.UID != "" && ref.UID == o.UID {
			return true
		}
	}
	return false
}

// OwnerOf reads from an object's annotations which custom resource owns it. It
// reports false when they name none.
func OwnerOf(m metav1.Object) (schema.GroupKind, types.NamespacedName, bool) {
	annotations := m.GetAnnotations()
	name, kind := annotations[primaryResource], annotations[primaryResourceType]
	if name == "" || kind == "" {
		return schema.GroupKind{}, types.NamespacedName{}, false
	}
	namespace, base, found := strings.Cut(name, "/")
	if !found {
		namespace, base = "", name
	}
	return schema.ParseGroupKind(kind), types.NamespacedName{Namespace: namespace, Name: base}, true
}

// Kept says whether an object stays in the cluster when it leaves the release
// or the release is removed (helm.sh/resource-policy: keep).
func Kept(m metav1.Object) bool {
	return strings.ToLower(strings.TrimSpace(m.GetAnnotations()[resourcePolicy])) == resourcePolicyKeep
}

func (o Owner) namespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// mayReference says whether the garbage collector may delete obj with the
// owner: it follows references only within a namespace or to cluster-scoped
// owners, and a kept object has to outlive its owner.
func (o Owner) mayReference(obj metav1.Object) bool {
	reachable := o.Namespace == "" || o.Namespace == obj.GetNamespace()
	return o.UID != "" && reachable && !Kept(obj)
}

// reference is not a controller reference: an object may have only one of
// those, so a leftover of an earlier owner with the same name (its own deleted,
// the garbage collector not yet done) could not be applied. It does not block
// the owner's deletion, which would need rights on the owner's finalizers.
func (o Owner) reference() metav1.OwnerReference {
	no := false
	return metav1.OwnerReference{
		APIVersion: o.GVK.GroupVersion().String(), Kind: o.GVK.Kind,
		Name: o.Name, UID: o.UID,
		Controller: &no, BlockOwnerDeletion: &no,
	}
}

func setAll(get func() map[string]string, set func(map[string]string), add map[string]string) {
	all := get()
	if all == nil {
		all = make(map[string]string, len(add))
	}
	for key, value := range add {
		all[key] = value
	}
	set(all)
}

// dropServerFields removes from metadata what a manifest cannot decide; a
// resourceVersion or uid in it would become a precondition.
func dropServerFields(obj *unstructured.Unstructured) {
	metadata, ok := obj.Object["metadata"].(map[string]any)
	if !ok {
		return
	}
	for _, field := range []string{"creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		delete(metadata, field)
	}
}

// encodeStringData writes a Secret's stringData as data, as the server would. An
// apply owns only what is written, and stringData is not stored: who changes
// the data would take nothing from us, and the drift would not be seen.
func encodeStringData(obj *unstructured.Unstructured) {
	if obj.GetKind() != "Secret" || obj.GetAPIVersion() != "v1" {
		return
	}
	plain, found, err := unstructured.NestedStringMap(obj.Object, "stringData")
	data, _ := obj.Object["data"].(map[string]any)
	if !found || err != nil || (data == nil && obj.Object["data"] != nil) {
		return // not what a Secret has: the server says so
	}
	if data == nil {
		data = make(map[string]any, len(plain))
	}
	for key, value := range plain {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	obj.Object["data"] = data
	delete(obj.Object, "stringData")
}
