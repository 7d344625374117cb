package reconciler

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// ConditionReady sums up: the release is as wanted and its workloads are
// healthy. It is only ever computed, here.
const ConditionReady = "Ready"

// Reasons of Ready, besides those of the conditions it sums up.
const (
	// ReasonReady: everything is as wanted.
	ReasonReady = "Ready"
	// ReasonProgressing: workloads are on their way.
	ReasonProgressing = "Progressing"
	// ReasonFailed: a workload says that it failed.
	ReasonFailed = "Failed"
	// ReasonUninstalling: the release is being removed.
	ReasonUninstalling = "Uninstalling"
	// ReasonSuspended: nothing is acted on; the health is as the status says.
	ReasonSuspended = "Suspended"
)

// noteReady works out Ready from the other conditions and from the health of
// the workloads. hold is what the release waits for, or nil.
func (r *Reconciler) noteReady(p *Pass, hold *release.HoldError) {
	health := r.engine.dependents.Health(p.Status.Inventory)
	p.Status.Replicas, p.Status.ReadyReplicas = health.Replicas, health.ReadyReplicas
	for _, condition := range []string{release.ConditionIrreconcilable, release.ConditionReleaseFailed} {
		if c := meta.FindStatusCondition(p.Status.Conditions, condition); c != nil && c.Status == metav1.ConditionTrue {
			setReady(p.Status, metav1.ConditionFalse, c.Reason, c.Message)
			return
		}
	}
	switch {
	case p.Status.Release == nil && hold != nil:
		setReady(p.Status, metav1.ConditionFalse, hold.Reason, hold.Message)
	case p.Status.Release == nil:
		setReady(p.Status, metav1.ConditionFalse, ReasonProgressing, "the release is not installed yet")
	case len(health.Failed) > 0:
		setReady(p.Status, metav1.ConditionFalse, ReasonFailed, strings.Join(health.Failed, "; "))
	case !health.Ready:
		setReady(p.Status, metav1.ConditionFalse, ReasonProgressing, strings.Join(health.Waiting, "; "))
	case p.Operator.Suspend != nil && *p.Operator.Suspend:
		setReady(p.Status, metav1.ConditionTrue, ReasonSuspended, "spec asks the operator to leave the release alone")
	default:
		setReady(p.Status, metav1.ConditionTrue, ReasonReady, "")
	}
}

func (r *Reconciler) noteRemoving(p *Pass, message string) {
	setReady(p.Status, metav1.ConditionFalse, ReasonUninstalling, message)
}

func setReady(status *releasev1alpha1.Status, is metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: ConditionReady, Status: is, Reason: reason, Message: message,
		ObservedGeneration: status.ObservedGeneration,
	})
}
