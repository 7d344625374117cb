package release

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
)

// The conditions that the release manager owns, with operator-sdk's names.
const (
	// ConditionInitialized is True once the operator has seen the resource.
	ConditionInitialized = "Initialized"
	// ConditionDeployed is True while a revision of the release is in place.
	ConditionDeployed = "Deployed"
	// ConditionReleaseFailed is True while the last action on the release failed.
	ConditionReleaseFailed = "ReleaseFailed"
	// ConditionIrreconcilable is True while chart and values do not make a
	// release at all, or the operator lacks a right or kind it needs.
	ConditionIrreconcilable = "Irreconcilable"
)

// Reasons of those conditions and of events.
const (
	// ReasonInitialized is the only reason of Initialized.
	ReasonInitialized = "Initialized"
	// ReasonInstallSuccessful: the first revision is in place.
	ReasonInstallSuccessful = "InstallSuccessful"
	// ReasonUpgradeSuccessful: a later revision is in place.
	ReasonUpgradeSuccessful = "UpgradeSuccessful"
	// ReasonUninstallSuccessful: nothing of the release is left.
	ReasonUninstallSuccessful = "UninstallSuccessful"
	// ReasonInstallError: the first revision could not be applied.
	ReasonInstallError = "InstallError"
	// ReasonUpgradeError: a later revision could not be applied.
	ReasonUpgradeError = "UpgradeError"
	// ReasonReconcileError: what is wanted could not be worked out, or drift
	// not healed.
	ReasonReconcileError = "ReconcileError"
	// ReasonUninstallError: the release could not be removed.
	ReasonUninstallError = "UninstallError"
	// ReasonRenderError: chart and values do not make a release.
	ReasonRenderError = "RenderError"
	// ReasonConflict: an object or release of the wanted name is somebody else's.
	ReasonConflict = "Conflict"
	// ReasonForbidden: the operator lacks a right.
	ReasonForbidden = "Forbidden"
	// ReasonNoKind: the cluster lacks a kind.
	ReasonNoKind = "NoKind"
	// ReasonHealed: drift was undone.
	ReasonHealed = "Healed"
	// ReasonContested: another manager undoes what the operator applies.
	ReasonContested = "Contested"
	// ReasonPayloadLost: the stored payload of the current revision is gone.
	ReasonPayloadLost = "PayloadLost"
	// ReasonHookSkipped: delete hooks could not run any more.
	ReasonHookSkipped = "HookSkipped"
	// ReasonReconciled: nothing is wrong.
	ReasonReconciled = "Reconciled"
)

func set(status *releasev1alpha1.Status, condition string, is bool, reason, message string) {
	value := metav1.ConditionFalse
	if is {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: condition, Status: value, Reason: reason, Message: shorten(message),
		ObservedGeneration: status.ObservedGeneration,
	})
}

// messageBytes bounds a message: a condition's may have 32 KiB, but whoever
// reads it wants the first lines, and the status has to stay small.
const messageBytes = 1024

func shorten(message string) string {
	if len(message) <= messageBytes {
		return message
	}
	return strings.ToValidUTF8(message[:messageBytes-3], "") + "..."
}

// NoteInitialized notes that the operator has seen the resource.
func NoteInitialized(status *releasev1alpha1.Status) {
	if meta.FindStatusCondition(status.Conditions, ConditionInitialized) == nil {
		set(status, ConditionInitialized, true, ReasonInitialized, "")
	}
}

func noteDeployed(status *releasev1alpha1.Status, action Action) {
	reason := ReasonUpgradeSuccessful
	if action == ActionInstall {
		reason = ReasonInstallSuccessful
	}
	set(status, ConditionDeployed, true, reason, "")
}

// noteHealthy clears the failure conditions after a pass without error.
func noteHealthy(status *releasev1alpha1.Status) {
	set(status, ConditionReleaseFailed, false, ReasonReconciled, "")
	set(status, ConditionIrreconcilable, false, ReasonReconciled, "")
}

func noteFight(status *releasev1alpha1.Status, message string) {
	set(status, ConditionReleaseFailed, true, ReasonContested, message)
}

// noteFailure notes an error in the condition it belongs to and tells of it in
// an event when the condition is news. It returns the error.
func noteFailure(status *releasev1alpha1.Status, at Situation, err error, out *Outcome) error {
	var hold *HoldError
	if errors.As(err, &hold) {
		out.RequeueAfter = hold.After
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted) {
		return err // nothing failed
	}
	condition, reason := classify(at, err)
	before := meta.FindStatusCondition(status.Conditions, condition)
	if before == nil || before.Status != metav1.ConditionTrue || before.Message != shorten(err.Error()) {
		out.warn(actionOf(at), reason, err.Error())
	}
	set(status, condition, true, reason, err.Error())
	other := ConditionIrreconcilable
	if condition == ConditionIrreconcilable {
		other = ConditionReleaseFailed
	}
	set(status, other, false, ReasonReconciled, "")
	return err
}

// classify finds the condition and the reason of an error.
func classify(at Situation, err error) (condition, reason string) {
	var (
		render    *RenderError
		taken     *NameTakenError
		foreign   *apply.ForeignError
		forbidden *apply.ForbiddenError
		noKind    *apply.NoKindError
	)
	switch {
	case errors.As(err, &render):
		return ConditionIrreconcilable, ReasonRenderError
	case errors.As(err, &forbidden), apierrors.IsForbidden(err):
		return ConditionIrreconcilable, ReasonForbidden
	case errors.As(err, &noKind):
		return ConditionIrreconcilable, ReasonNoKind
	case errors.As(err, &foreign), errors.As(err, &taken):
		return ConditionReleaseFailed, ReasonConflict
	}
	switch actionOf(at) {
	case ActionInstall:
		return ConditionReleaseFailed, ReasonInstallError
	case ActionUpgrade:
		return ConditionReleaseFailed, ReasonUpgradeError
	case ActionUninstall:
		return ConditionReleaseFailed, ReasonUninstallError
	default:
		return ConditionIrreconcilable, ReasonReconcileError
	}
}

func actionOf(at Situation) Action {
	switch at.State {
	case Absent:
		return ActionInstall
	case OutOfSync, Transformed, Interrupted:
		return ActionUpgrade
	case Uninstalling:
		return ActionUninstall
	default:
		return ActionHeal
	}
}
