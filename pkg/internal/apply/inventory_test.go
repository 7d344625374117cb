package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

func TestDiff(t *testing.T) {
	entry := func(group, version, kind, namespace, name string) releasev1alpha1.InventoryEntry {
		return releasev1alpha1.InventoryEntry{Group: group, Version: version, Kind: kind, Namespace: namespace, Name: name}
	}
	recorded := []releasev1alpha1.InventoryEntry{
		entry("", "v1", "Secret", "shop", "a"),
		entry("", "v1", "Secret", "other", "a"),
		entry("autoscaling", "v1", "HorizontalPodAutoscaler", "shop", "a"),
		entry("apps", "v1", "Deployment", "shop", "a"),
	}
	wanted := []releasev1alpha1.InventoryEntry{
		entry("autoscaling", "v2", "HorizontalPodAutoscaler", "shop", "a"),
		entry("apps", "v1", "StatefulSet", "shop", "a"),
		entry("", "v1", "Secret", "shop", "a"),
	}
	want := []releasev1alpha1.InventoryEntry{recorded[1], recorded[3]}
	if diff := cmp.Diff(want, Diff(recorded, wanted)); diff != "" {
		t.Errorf("to prune (-want +got):\n%s", diff)
	}
}

func TestEntry(t *testing.T) {
	obj := parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: shop, annotations: {helm.sh/resource-policy: Keep}}}")
	got := Entry(obj)
	want := releasev1alpha1.InventoryEntry{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "a", Keep: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	key := Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "shop", Name: "a"}
	if EntryKey(got) != key || key.String() != "Deployment shop/a" || EntryGVK(got) != obj.GroupVersionKind() {
		t.Errorf("EntryKey = %v, EntryGVK = %v", EntryKey(got), EntryGVK(got))
	}
}
