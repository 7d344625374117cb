package refs

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// ObjectVersion is the version of an object or list that was read, as
// Watcher.Version tells it of the same object from a watch.
func ObjectVersion(found map[string]any) string {
	if len(found) == 0 {
		return Absent
	}
	obj := unstructured.Unstructured{Object: found}
	if !obj.IsList() {
		return obj.GetResourceVersion()
	}
	versions := map[string]string{}
	_ = obj.EachListItem(func(item runtime.Object) error {
		if u, ok := item.(*unstructured.Unstructured); ok {
			versions[u.GetNamespace()+"/"+u.GetName()] = u.GetResourceVersion()
		}
		return nil
	})
	return ListVersion(versions)
}

// ListVersion is the version of a collection, from the resourceVersions of its
// items by namespace/name.
func ListVersion(versions map[string]string) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(versions)) {
		h.Write([]byte(key + "=" + versions[key] + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
