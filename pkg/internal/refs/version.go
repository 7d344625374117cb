package refs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// ObjectVersion is the version of an object or list that was read, as
// Watcher.Version tells it of the same object from a watch.
func ObjectVersion(found map[string]any) string {
	if len(found) == 0 {
		return Absent
	}
	obj := unstructured.Unstructured{Object: found}
	if !obj.IsList() {
		return itemVersion(&obj)
	}
	versions := map[string]string{}
	_ = obj.EachListItem(func(item runtime.Object) error {
		if u, ok := item.(*unstructured.Unstructured); ok && !own(u) {
			versions[keyOf(u)] = itemVersion(u)
		}
		return nil
	})
	return listVersion(versions)
}

func keyOf(obj metav1.Object) string { return obj.GetNamespace() + "/" + obj.GetName() }

// listVersion is the version of a collection, from those of its items by
// namespace/name.
func listVersion(versions map[string]string) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(versions)) {
		h.Write([]byte(key + "=" + versions[key] + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// itemVersion is an object's resourceVersion. Of a resource with a release it
// leaves the status out: a chart that reads its own resource would otherwise be
// rendered again by each record of its last render.
func itemVersion(obj metav1.Object) string {
	if !slices.Contains(obj.GetFinalizers(), releasev1alpha1.Finalizer) {
		return obj.GetResourceVersion()
	}
	metadata, err := json.Marshal([]map[string]string{obj.GetLabels(), obj.GetAnnotations()})
	if err != nil {
		return obj.GetResourceVersion()
	}
	sum := sha256.Sum256(metadata)
	return string(obj.GetUID()) + "/" + strconv.FormatInt(obj.GetGeneration(), 10) + "/" + hex.EncodeToString(sum[:16])
}

// own says whether an item of a collection is of a release's making: an applied
// object or a stored revision. Each revision changes them, so none may be
// brought about by them.
func own(obj metav1.Object) bool {
	labels := obj.GetLabels()
	_, applied := labels[releasev1alpha1.OwnerLabel]
	return applied || labels["owner"] == "helm"
}
