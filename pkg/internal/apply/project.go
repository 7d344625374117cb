package apply

import (
	"fmt"
	"maps"
	"unique"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// ownerRef is what the cache knows of an owner: enough to enqueue it.
type ownerRef struct {
	schema.GroupKind
	types.NamespacedName
}

func (o Owner) ref() ownerRef { return ownerRef{o.GVK.GroupKind(), o.namespacedName()} }

// object is what is kept of one object in the cluster, a few hundred bytes.
type object struct {
	Observed
	// owner is told of changes: the holder, or the last one when the
	// annotations were taken away.
	owner unique.Handle[ownerRef]
	// version is the resourceVersion, to order what the watch tells and what
	// the client wrote.
	version string
	// leaving says that the client asked to delete it.
	leaving bool
}

// item is an object with its name, on its way into a store.
type item struct {
	name types.NamespacedName
	object
}

// GetObjectMeta lets the reflector key items while it collects a list.
func (i *item) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.name.Namespace, Name: i.name.Name, ResourceVersion: i.version}
}

// healthKinds are the built-in kinds whose health is more than existing.
var healthKinds = map[schema.GroupKind]bool{
	{Group: "apps", Kind: "Deployment"}:  true,
	{Group: "apps", Kind: "StatefulSet"}: true,
	{Group: "apps", Kind: "DaemonSet"}:   true,
	{Group: "apps", Kind: "ReplicaSet"}:  true,
	{Group: "batch", Kind: "Job"}:        true,
	{Kind: "Pod"}:                        true,
	{Kind: "PersistentVolumeClaim"}:      true,
	{Kind: "ReplicationController"}:      true,
}

// builtIn says that the kind comes with Kubernetes, not from a CRD or an
// aggregated API server.
func builtIn(gk schema.GroupKind) bool {
	return len(scheme.Scheme.VersionsForGroupKind(gk)) > 0
}

// hasHealth says whether objects of the kind are read whole for their status.
// Of kinds that do not come with Kubernetes nothing is known, so they are.
func hasHealth(gk schema.GroupKind) bool {
	return healthKinds[gk] || !builtIn(gk)
}

// project reduces an object from a list or watch to what is kept.
func project(obj any) (*item, error) {
	switch o := obj.(type) {
	case *item: // reduced while the list was collected
		return o, nil
	case *metav1.PartialObjectMetadata:
		out := newItem(o, observe(o))
		out.Status = status.CurrentStatus
		return out, nil
	case *unstructured.Unstructured:
		return newItem(o, observeWhole(o)), nil
	}
	return nil, fmt.Errorf("the API server sent a %T where an object was asked for", obj)
}

func newItem(m metav1.Object, observed Observed) *item {
	if kind, name, ok := OwnerOf(m); ok {
		observed.holder = unique.Make(ownerRef{kind, name})
	}
	return &item{
		name:   types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()},
		object: object{Observed: observed, owner: observed.holder, version: m.GetResourceVersion()},
	}
}

// observe reads what the metadata tells; Status stays open.
func observe(m *metav1.PartialObjectMetadata) Observed {
	return Observed{
		UID: m.UID, Generation: m.Generation, Deleting: m.DeletionTimestamp != nil,
		Managed: ManagedDigest(m.ManagedFields),
	}
}

func observeWhole(u *unstructured.Unstructured) Observed {
	out := Observed{
		UID: u.GetUID(), Generation: u.GetGeneration(), Deleting: u.GetDeletionTimestamp() != nil,
		Managed: unstructuredManagedDigest(u), Status: status.CurrentStatus,
		Completed: Expires(u) && finished(u),
	}
	if out.Completed && out.Deleting {
		u = undeleted(u) // it is how it ended that counts
	}
	// A status that kstatus cannot read (a CRD may call anything "conditions")
	// says nothing of health.
	if result, err := status.Compute(u); err == nil && result.Status != status.CurrentStatus {
		out.Status, out.Message = result.Status, shorten(result.Message)
	}
	out.Replicas, out.ReadyReplicas = replicas(u)
	return out
}

// undeleted returns an object as if nobody had deleted it, for reading only.
func undeleted(u *unstructured.Unstructured) *unstructured.Unstructured {
	content := maps.Clone(u.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "deletionTimestamp")
		content["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: content}
}

func replicas(u *unstructured.Unstructured) (all, ready int64) {
	total, up := "replicas", "readyReplicas"
	switch u.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		total, up = "desiredNumberScheduled", "numberReady"
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Kind: "ReplicationController"}:
	default:
		return 0, 0
	}
	all, _, _ = unstructured.NestedInt64(u.Object, "status", total)
	ready, _, _ = unstructured.NestedInt64(u.Object, "status", up)
	return all, ready
}
