package reconciler

import (
	"fmt"
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
	case hold != nil && !rolledOut(p):
		setReady(p.Status, metav1.ConditionFalse, ReasonProgressing, hold.Message)
	case len(health.Failed) > 0:
		setReady(p.Status, metav1.ConditionFalse, ReasonFailed, some(health.Failed))
	case !health.Ready:
		setReady(p.Status, metav1.ConditionFalse, ReasonProgressing, some(health.Waiting))
	case p.Operator.Suspend != nil && *p.Operator.Suspend:
		setReady(p.Status, metav1.ConditionTrue, ReasonSuspended, "spec asks the operator to leave the release alone")
	default:
		setReady(p.Status, metav1.ConditionTrue, ReasonReady, "")
	}
}

// rolledOut says whether the present generation was in place once: a registry
// that is down later is nothing that the release waits for. The release manager
// notes the generation with which it finds nothing wrong.
func rolledOut(p *Pass) bool {
	failed := meta.FindStatusCondition(p.Status.Conditions, release.ConditionReleaseFailed)
	return failed != nil && failed.Status == metav1.ConditionFalse && failed.ObservedGeneration == p.Object.GetGeneration()
}

// mostNames bounds how many objects a message names.
const mostNames = 5

func some(objects []string) string {
	if more := len(objects) - mostNames; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(objects[:mostNames], "; "), more)
	}
	return strings.Join(objects, "; ")
}

func (r *Reconciler) noteRemoving(p *Pass, message string) {
	setReady(p.Status, metav1.ConditionFalse, ReasonUninstalling, message)
}

func setReady(status *releasev1alpha1.Status, is metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: ConditionReady, Status: is, Reason: reason, Message: cut(message),
		ObservedGeneration: status.ObservedGeneration,
	})
}
