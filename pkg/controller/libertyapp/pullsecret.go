package libertyapp

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// pullSecret is the input that puts the Secret of image.pullSecret where pods
// find it: into the release's pods and ServiceAccounts and, as a courtesy to
// other pods, into the default ServiceAccount. The first install waits for a
// Secret that pods can use; an installed release never does.
type pullSecret struct {
	chart    *chart.Chart
	secrets  *secrets
	accounts *accounts
	users    users
	memory   memory[patchState]
}

// patchState is what is known of the default ServiceAccount's list.
type patchState struct {
	// version of the ServiceAccount that was looked at last.
	version string
	// trouble is why the list could not be changed.
	trouble string
}

// Prepare looks for the Secret and sees to the default ServiceAccount.
func (s *pullSecret) Prepare(ctx context.Context, pass *reconciler.Pass) (reconciler.Prepared, error) {
	name := s.wanted(pass)
	if err := s.leave(ctx, pass, name); err != nil {
		return nil, err
	}
	if name == "" {
		meta.RemoveStatusCondition(&pass.Status.Conditions, ConditionPullSecretReady)
		s.memory.forget(pass.Key)
		return injection{}, nil
	}
	account, accountErr := s.accountVersion(pass)
	found, err := s.look(ctx, pass, name)
	if err != nil {
		return nil, err
	}
	if found.hold != nil {
		return s.held(pass, name, found.hold)
	}
	hold, err := s.patch(ctx, pass, name, account, accountErr)
	if err != nil {
		return nil, err
	}
	s.ready(pass, name, found.secret)
	if hold != nil {
		return s.held(pass, name, hold)
	}
	return injection{name: name, namespace: pass.Key.Namespace}, nil
}

// wanted is the name of the pull secret; "" for none.
func (s *pullSecret) wanted(pass *reconciler.Pass) string {
	return readImageValues(s.chart, pass.Values).pullSecret
}

// held delays the first install and lets an installed release be.
func (*pullSecret) held(pass *reconciler.Pass, name string, hold *release.HoldError) (reconciler.Prepared, error) {
	if !pass.Installed() {
		return nil, hold
	}
	return injection{name: name, namespace: pass.Key.Namespace}, nil
}

// sighting is what was found of the Secret: what it holds, or why it cannot be
// used yet.
type sighting struct {
	secret secret
	hold   *release.HoldError
}

// look finds the Secret and sets the condition if it is of no use.
func (s *pullSecret) look(ctx context.Context, pass *reconciler.Pass, name string) (sighting, error) {
	version, err := pass.Refer("v1", "Secret", name)
	switch {
	case apierrors.IsForbidden(err):
		return s.unusable(pass, ReasonForbidden, fmt.Sprintf(
			"the operator may not watch pull secret %s; allow it to get, list and watch Secrets in namespace %s", name, pass.Key.Namespace)), nil
	case err != nil:
		return sighting{}, err
	case version == "":
		// No word in the condition: the watch tells within moments.
		return sighting{hold: &release.HoldError{Reason: ReasonWaitingForPullSecret, Message: "looking for pull secret " + name}}, nil
	case version == refs.Absent:
		return s.missing(pass, name), nil
	}
	found, _, err := s.secrets.get(ctx, types.NamespacedName{Namespace: pass.Key.Namespace, Name: name}, version)
	switch {
	case apierrors.IsNotFound(err):
		return s.missing(pass, name), nil
	case apierrors.IsForbidden(err):
		return s.unusable(pass, ReasonForbidden, fmt.Sprintf(
			"the operator may not read pull secret %s; allow it to get Secrets in namespace %s", name, pass.Key.Namespace)), nil
	case err != nil:
		return sighting{}, err
	case len(found.entries) == 0:
		// The kubelet could not use it either: as good as missing.
		return s.unusable(pass, ReasonInvalidSecret, cmp.Or(found.trouble(), "pull secret "+name+" names no registry")), nil
	}
	return sighting{secret: found}, nil
}

func (s *pullSecret) missing(pass *reconciler.Pass, name string) sighting {
	return s.unusable(pass, ReasonSecretNotFound, fmt.Sprintf("there is no pull secret %s in namespace %s; "+
		"create it, for example with kubectl create secret docker-registry", name, pass.Key.Namespace))
}

func (s *pullSecret) unusable(pass *reconciler.Pass, reason, message string) sighting {
	c := metav1.Condition{Type: ConditionPullSecretReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if note(pass, c) {
		warn(pass, actionPullSecret, reason, message)
	}
	return sighting{hold: &release.HoldError{Reason: reason, Message: message}}
}

// ready notes a pull secret that can be used, with what is wrong with parts of
// it or with the default ServiceAccount.
func (s *pullSecret) ready(pass *reconciler.Pass, name string, found secret) {
	trouble := found.trouble()
	message := "pull secret " + name + " can be used"
	if trouble != "" {
		message += "; ignored: " + trouble
	}
	if t := s.memory.get(pass.Key).trouble; t != "" {
		message += "; " + t
	}
	c := metav1.Condition{Type: ConditionPullSecretReady, Status: metav1.ConditionTrue, Reason: ReasonSecretReady, Message: message}
	if note(pass, c) && trouble != "" {
		warn(pass, actionPullSecret, ReasonInvalidSecret, trouble)
	}
}

// Cleanup takes the Secret off the default ServiceAccount's list. Without a
// record in the status, the operator may have stopped between patch and status.
func (s *pullSecret) Cleanup(ctx context.Context, pass *reconciler.Pass) error {
	if pass.Status.PullSecret != nil {
		return s.leave(ctx, pass, "")
	}
	if name := s.wanted(pass); name != "" && patches(pass.Operator) {
		return s.take(ctx, pass, name)
	}
	return nil
}

// Forget drops what is known for a resource.
func (s *pullSecret) Forget(key reconciler.Key) { s.memory.forget(key) }

// accountVersion watches the default ServiceAccount, if it is to be patched.
func (s *pullSecret) accountVersion(pass *reconciler.Pass) (string, error) {
	if !patches(pass.Operator) {
		return "", nil
	}
	return pass.Refer("v1", "ServiceAccount", defaultAccount)
}
