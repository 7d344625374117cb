package release

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
)

// namespaceTerminating says that nothing can be created any more because the
// namespace is being deleted: the release's own, or, where an object names one,
// another.
func namespaceTerminating(err error, own string) bool {
	var terminating *apply.TerminatingError
	if errors.As(err, &terminating) {
		return terminating.Object.Namespace == own
	}
	return err != nil && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// RenderError says that chart and values do not make a release. Only a change
// of one of them helps.
type RenderError struct{ Err error }

func (e *RenderError) Error() string { return "rendering the chart: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *RenderError) Unwrap() error { return e.Err }

// NameTakenError says that a Helm release of the wanted name exists and belongs
// to somebody else.
type NameTakenError struct {
	Release, Namespace string
	// Other names the owner.
	Other string
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("the release name %q in namespace %s is taken by %s; delete that release or choose another name", e.Release, e.Namespace, e.Other)
}

// HookError says that a hook of the chart failed.
type HookError struct {
	// Hook is Kind/name; Event when it ran.
	Hook, Event string
	Err         error
}

func (e *HookError) Error() string {
	return fmt.Sprintf("running the %s hook %s: %v", e.Event, e.Hook, e.Err)
}

// Unwrap returns the cause.
func (e *HookError) Unwrap() error { return e.Err }

// HoldError delays an action until something outside the release is there. It
// is no failure: whoever returns it has noted the reason in a condition.
type HoldError struct {
	// Reason and Message for the Ready condition.
	Reason, Message string
	// After asks for another pass; 0 waits for an event.
	After time.Duration
}

func (e *HoldError) Error() string { return e.Message }
