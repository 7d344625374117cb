package libertyapp

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// patches says whether the default ServiceAccount is to be changed.
func patches(operator *releasev1alpha1.OperatorSpec) bool {
	r := operator.Release
	return r == nil || r.PatchServiceAccount == nil || *r.PatchServiceAccount
}

func accountKey(pass *reconciler.Pass) types.NamespacedName {
	return types.NamespacedName{Namespace: pass.Key.Namespace, Name: defaultAccount}
}

// patch adds the pull secret to the default ServiceAccount, once, and again
// when the ServiceAccount changed and lists it no more. version is what a watch
// tells of it. A hold means that there is none yet.
func (s *pullSecret) patch(ctx context.Context, pass *reconciler.Pass, name, version string, watchErr error) (*release.HoldError, error) {
	state := s.memory.get(pass.Key)
	switch {
	case !patches(pass.Operator):
		*state = patchState{}
		return nil, nil
	case apierrors.IsForbidden(watchErr):
		s.notPatched(pass, "the operator may not watch ServiceAccounts")
		return nil, nil
	case watchErr != nil:
		return nil, watchErr
	}
	done := pass.Status.PullSecret != nil // of this name, or leave had cleared it
	switch {
	case version == "" || version == refs.Absent:
		if done {
			return nil, nil
		}
		return waitForAccount(pass), nil
	case done && state.version == "":
		// The first look since the start: the record is trusted, so that a
		// restart costs nothing.
		state.version = version
		return nil, nil
	case state.version == version:
		return nil, nil
	}
	ours, patched, err := s.accounts.add(ctx, accountKey(pass), version, name)
	switch {
	case apierrors.IsNotFound(err):
		return waitForAccount(pass), nil
	case apierrors.IsForbidden(err):
		state.version = version
		s.notPatched(pass, "the operator may not get and patch ServiceAccounts")
		return nil, nil
	case err != nil:
		return nil, err
	}
	*state = patchState{version: version}
	pass.Status.PullSecret = &releasev1alpha1.PullSecretStatus{Name: name, Added: ours}
	if patched {
		emit(pass, actionPullSecret, ReasonServiceAccountPatched, fmt.Sprintf("Added pull secret %s to ServiceAccount %s", name, defaultAccount))
	}
	return nil, nil
}

// notPatched tells, once, that the courtesy to other pods is not possible. The
// release's own pods have the pull secret nevertheless.
func (s *pullSecret) notPatched(pass *reconciler.Pass, why string) {
	message := fmt.Sprintf("ServiceAccount %s is left as it is: %s; allow it, or set spec.operator.release.patchServiceAccount to false", defaultAccount, why)
	state := s.memory.get(pass.Key)
	if state.trouble != message {
		warn(pass, actionPullSecret, ReasonServiceAccountNotPatched, message)
	}
	state.trouble = message
}

func waitForAccount(pass *reconciler.Pass) *release.HoldError {
	return &release.HoldError{
		Reason:  ReasonWaitingForServiceAccount,
		Message: fmt.Sprintf("waiting for ServiceAccount %s of namespace %s, to add the pull secret", defaultAccount, pass.Key.Namespace),
	}
}

// leave undoes the patch of an earlier pull secret, when spec names another or
// none, or switches the patching off.
func (s *pullSecret) leave(ctx context.Context, pass *reconciler.Pass, name string) error {
	record := pass.Status.PullSecret
	if record == nil || record.Name == name && patches(pass.Operator) {
		return nil
	}
	if record.Added {
		if err := s.take(ctx, pass, record.Name); err != nil {
			return err
		}
	}
	pass.Status.PullSecret = nil
	s.memory.forget(pass.Key)
	return nil
}

// take removes a pull secret from the default ServiceAccount, provided that the
// operator added it and that no other resource of the namespace uses it. Being
// refused is told and is no error: a removal must not hang on it.
func (s *pullSecret) take(ctx context.Context, pass *reconciler.Pass, name string) error {
	used, err := s.users.others(ctx, pass, name)
	if err != nil || used {
		return err
	}
	removed, err := s.accounts.remove(ctx, accountKey(pass), name)
	if apierrors.IsForbidden(err) {
		warn(pass, actionPullSecret, ReasonServiceAccountNotPatched, fmt.Sprintf(
			"Pull secret %s stays in ServiceAccount %s: the operator may not get and patch ServiceAccounts", name, defaultAccount))
		return nil
	}
	if removed {
		emit(pass, actionPullSecret, ReasonServiceAccountPatched, fmt.Sprintf("Removed pull secret %s from ServiceAccount %s", name, defaultAccount))
	}
	return err
}

// users finds the resources that share a pull secret.
type users struct {
	cache       client.Reader
	gvk         schema.GroupVersionKind
	operatorKey string
	chart       *chart.Chart
}

// others says whether another resource in the namespace, not being deleted, has
// the pull secret put into the default ServiceAccount.
func (u users) others(ctx context.Context, pass *reconciler.Pass, name string) (bool, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(u.gvk.GroupVersion().WithKind(u.gvk.Kind + "List"))
	if err := u.cache.List(ctx, list, client.InNamespace(pass.Key.Namespace)); err != nil {
		return false, fmt.Errorf("looking for others that use pull secret %s: %w", name, err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.GetName() == pass.Key.Name || other.GetDeletionTimestamp() != nil {
			continue
		}
		spec, _ := other.Object["spec"].(map[string]any)
		patch, found, err := unstructured.NestedBool(spec, u.operatorKey, "release", "patchServiceAccount")
		off := err == nil && found && !patch
		if !off && readImageValues(u.chart, spec).pullSecret == name {
			return true, nil
		}
	}
	return false, nil
}
