package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// Key identifies an object whatever version it is applied in.
type Key struct {
	schema.GroupKind
	// Namespace of the object; empty for cluster-scoped ones.
	Namespace string
	// Name of the object.
	Name string
}

// String names the object for users: "Deployment web/app", "ClusterRole app".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

// EntryKey returns the identity of an inventory entry.
func EntryKey(entry releasev1alpha1.InventoryEntry) Key {
	return Key{
		GroupKind: schema.GroupKind{Group: entry.Group, Kind: entry.Kind},
		Namespace: entry.Namespace, Name: entry.Name,
	}
}

// EntryGVK returns the kind of an inventory entry, in the version it was
// applied in.
func EntryGVK(entry releasev1alpha1.InventoryEntry) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: entry.Group, Version: entry.Version, Kind: entry.Kind}
}

// Entry returns what the inventory says of an object before it is applied: its
// identity and whether it is kept, without uid and digests.
func Entry(obj *unstructured.Unstructured) releasev1alpha1.InventoryEntry {
	gvk := obj.GroupVersionKind()
	return releasev1alpha1.InventoryEntry{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(),
		Keep: Kept(obj),
	}
}

// Diff returns the recorded entries that are no longer wanted, in the recorded
// order; they are to be deleted in reverse. An object that only changes its
// version stays.
func Diff(recorded, wanted []releasev1alpha1.InventoryEntry) (prune []releasev1alpha1.InventoryEntry) {
	still := make(map[Key]struct{}, len(wanted))
	for _, entry := range wanted {
		still[EntryKey(entry)] = struct{}{}
	}
	for _, entry := range recorded {
		if _, ok := still[EntryKey(entry)]; !ok {
			prune = append(prune, entry)
		}
	}
	return prune
}
