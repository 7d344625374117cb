package apply

import (
	"unique"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/types"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// Observed is what is known of one object in the cluster.
type Observed struct {
	// Unknown says that nothing can be said of the object, neither that it
	// exists nor that it does not: its kind is not watched, not yet listed, or
	// may not be.
	Unknown bool
	// Unwatched says, with Unknown, that the operator does not watch the object's
	// namespace, so that nothing will be known of it.
	Unwatched bool
	// Deleted says of an object that does not exist that the watch saw it go
	// (or lose its label) in the last 5 s, and that it was not the operator who
	// deleted it.
	Deleted bool
	// Completed says of a Job with a TTL (see Expires) that it ran to its end,
	// complete or failed. It stays so, with Status and Message, when the Job is
	// gone; but only a cache that saw it complete knows.
	Completed bool
	// UID of the object.
	UID types.UID
	// Managed is the ManagedDigest of the object.
	Managed string
	// Generation of the object; 0 for kinds that have none.
	Generation int64
	// Deleting says that the object is being deleted.
	Deleting bool
	// Status of the object by kstatus; Current for kinds that have no health.
	Status status.Status
	// Message that goes with a status other than Current.
	Message string
	// Replicas and ReadyReplicas of a workload; 0 for other kinds.
	Replicas, ReadyReplicas int64

	// holder is the owner that the object's annotations name, shared by all
	// objects of a release; zero when they name none.
	holder unique.Handle[ownerRef]
}

// Holds says whether the marks of an observed object name this owner. It is
// false when they name another one or none, and for what does not exist.
func (o Owner) Holds(observed Observed) bool {
	return observed.holder == unique.Make(o.ref())
}

// Drift is how an object differs from its record.
type Drift string

const (
	// DriftDeleted is an object that is gone.
	DriftDeleted Drift = "Deleted"
	// DriftModified is an object in which somebody changed fields of ours.
	DriftModified Drift = "Modified"
	// DriftReplaced is another object under the same name.
	DriftReplaced Drift = "Replaced"
)

// Drifted compares an object with its record. exists says whether the object is
// in the cluster; observed is ignored when it is not, but for Unknown and
// Completed: a Job that ran and was removed as it asked to be is not drift.
//
// An object whose marks name another owner is a replacement, even with the
// recorded digest: another release may have applied the same fields. One with
// another uid and the recorded fields is not drift, but its uid has to be
// recorded: it was applied once more, by us without a record of it or under our
// name by somebody else. An object that is being deleted is not drift until it is
// gone, because applying cannot bring it back.
func (o Owner) Drifted(entry releasev1alpha1.InventoryEntry, observed Observed, exists bool) (Drift, bool) {
	marked := observed.holder != (unique.Handle[ownerRef]{})
	switch {
	case observed.Unknown, !exists && observed.Completed:
		return "", false
	case !exists:
		return DriftDeleted, true
	case observed.Deleting:
		return "", false
	case marked && !o.Holds(observed):
		return DriftReplaced, true
	case observed.Managed == entry.Managed:
		return "", false
	case entry.UID != "" && observed.UID != entry.UID:
		return DriftReplaced, true
	}
	return DriftModified, true
}
