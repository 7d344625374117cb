package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Status is what the operator reports of a resource and its release. It is the
// release record: enough to decide, after any restart, whether something has
// to be done, and never more than a few KiB. It holds digests and identities,
// never values, manifests or notes.
type Status struct {
	// ObservedGeneration is the generation of the resource that the status
	// speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready says whether the release is as wanted and its workloads
	// are healthy; Initialized, Deployed, ReleaseFailed and Irreconcilable have
	// the meaning they have in operator-sdk; ImageResolved and PullSecretReady
	// speak of the images and the pull secret.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Release is the record of the current revision.
	// +optional
	Release *Record `json:"release,omitempty"`

	// History of the last revisions, newest first, without the current one.
	// +optional
	// +listType=atomic
	History []HistoryEntry `json:"history,omitempty"`

	// Inventory of the objects the release owns, in the order they are applied.
	// +optional
	// +listType=atomic
	Inventory []InventoryEntry `json:"inventory,omitempty"`

	// Images that the operator follows.
	// +optional
	// +listType=map
	// +listMapKey=image
	Images []ImageStatus `json:"images,omitempty"`

	// PullSecret records what the operator added to the default ServiceAccount.
	// +optional
	PullSecret *PullSecretStatus `json:"pullSecret,omitempty"`

	// Replicas the workloads of the release run, all together.
	// +optional
	Replicas int64 `json:"replicas,omitempty"`

	// ReadyReplicas of the workloads of the release, all together.
	// +optional
	ReadyReplicas int64 `json:"readyReplicas,omitempty"`
}

// State of a revision, in Helm's words.
type State string

const (
	// StatePendingInstall is a first revision that is being applied.
	StatePendingInstall State = "pending-install"
	// StatePendingUpgrade is a later revision that is being applied.
	StatePendingUpgrade State = "pending-upgrade"
	// StateDeployed is a revision whose objects are all applied.
	StateDeployed State = "deployed"
	// StateFailed is a revision that could not be applied completely.
	StateFailed State = "failed"
	// StateSuperseded is a revision that a later one replaced.
	StateSuperseded State = "superseded"
	// StateUninstalling is a release that is being removed.
	StateUninstalling State = "uninstalling"
)

// Record of one revision of a release.
type Record struct {
	// Name of the release.
	Name string `json:"name"`
	// Revision counts from 1.
	Revision int64 `json:"revision"`
	// State of the revision.
	State State `json:"state"`
	// Chart that was rendered.
	Chart ChartReference `json:"chart"`
	// Digests that decide whether something changed.
	Digests Digests `json:"digests"`
	// FirstDeployed is when revision 1 was installed.
	// +optional
	FirstDeployed *metav1.Time `json:"firstDeployed,omitempty"`
	// LastDeployed is when this revision was.
	// +optional
	LastDeployed *metav1.Time `json:"lastDeployed,omitempty"`
	// Failures counts the attempts at the same inputs that failed, for backoff.
	// +optional
	Failures int64 `json:"failures,omitempty"`
	// Reason why the revision was made.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Lookups are the objects outside the release that the chart's templates
	// read by lookup; a change of one of them renders again.
	// +optional
	// +listType=atomic
	Lookups []LookupReference `json:"lookups,omitempty"`
	// Capabilities are the API versions the chart's templates asked for.
	// +optional
	// +listType=atomic
	Capabilities []string `json:"capabilities,omitempty"`
	// Payload is the compressed payload of the revision when it is stored in
	// the status (--release-storage=status) instead of a Secret.
	// +optional
	Payload []byte `json:"payload,omitempty"`
}

// ChartReference names a chart.
type ChartReference struct {
	// Name of the chart.
	Name string `json:"name"`
	// Version of the chart.
	Version string `json:"version"`
}

// Digests of the inputs and of the result of a revision. Each is
// "<recipe version>:<hex>"; a recipe that changes changes its version, and a
// digest of another recipe is never compared.
type Digests struct {
	// Chart is the digest of the chart's files.
	Chart string `json:"chart"`
	// Values is the digest of the values that were rendered.
	Values string `json:"values"`
	// Inputs is the digest of what else the templates read: capabilities and
	// lookups.
	Inputs string `json:"inputs"`
	// Transforms is the digest of what changes the rendered objects: images and
	// pull secrets.
	Transforms string `json:"transforms"`
	// Manifest is the digest of the objects as applied.
	Manifest string `json:"manifest"`
	// Payload is the digest of the stored payload.
	Payload string `json:"payload"`
}

// LookupReference names what a template read by lookup.
type LookupReference struct {
	// APIVersion of the kind.
	APIVersion string `json:"apiVersion"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object; empty when a whole collection was read.
	// +optional
	Name string `json:"name,omitempty"`
}

// HistoryEntry is what is kept of an earlier revision.
type HistoryEntry struct {
	// Revision of the release.
	Revision int64 `json:"revision"`
	// State the revision ended in.
	State State `json:"state"`
	// ChartVersion that was rendered.
	ChartVersion string `json:"chartVersion"`
	// Deployed is when the revision was applied.
	// +optional
	Deployed *metav1.Time `json:"deployed,omitempty"`
	// Reason why the revision was made.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// InventoryEntry identifies one object of the release.
type InventoryEntry struct {
	// Group of the kind; empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// Version the object is applied in.
	Version string `json:"version"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
	// UID the object had when it was applied.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// Object is the digest of the object as wanted.
	// +optional
	Object string `json:"object,omitempty"`
	// Managed is the digest of the operator's own apply entry in the object's
	// managed fields; another digest in the cluster means drift.
	// +optional
	Managed string `json:"managed,omitempty"`
	// Keep says that the object stays when the release is removed
	// (helm.sh/resource-policy: keep).
	// +optional
	Keep bool `json:"keep,omitempty"`
}

// ImageStatus is what is known of one image.
type ImageStatus struct {
	// Image as the chart renders it, for example registry/app:1.0.
	Image string `json:"image"`
	// Digest the registry gave for it last.
	// +optional
	Digest string `json:"digest,omitempty"`
	// Pinned is the digest that the pods of the current revision run; empty
	// until the image is pinned.
	// +optional
	Pinned string `json:"pinned,omitempty"`
	// LastChanged is when the digest was seen to change.
	// +optional
	LastChanged *metav1.Time `json:"lastChanged,omitempty"`
}

// PullSecretStatus records what the operator added to the default
// ServiceAccount, so that it removes no more than that.
type PullSecretStatus struct {
	// Name of the Secret.
	Name string `json:"name"`
	// Added says that the operator added the Secret to the ServiceAccount's
	// list; false when it stood there before.
	// +optional
	Added bool `json:"added,omitempty"`
}
