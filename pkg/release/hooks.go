package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
)

// errInterrupted ends the wait for a hook when the resource changed meanwhile.
var errInterrupted = errors.New("the resource changed while the hook ran")

// hookEvents are the events before and after an action.
func hookEvents(action Action) (pre, post chart.HookEvent) {
	if action == ActionInstall {
		return chart.HookPreInstall, chart.HookPostInstall
	}
	return chart.HookPreUpgrade, chart.HookPostUpgrade
}

// runHooks runs the hooks of an event one after the other, in the order given,
// each to its end. They run at least once: after a crash they run again.
func (m *Manager) runHooks(ctx context.Context, rel *Release, hooks []chart.Hook, event chart.HookEvent) error {
	if rel.Options.DisableHooks {
		return nil
	}
	due := slices.DeleteFunc(slices.Clone(hooks), func(h chart.Hook) bool { return !slices.Contains(h.Events, event) })
	for _, hook := range due {
		if err := m.runHook(ctx, rel, hook); err != nil {
			return &HookError{Hook: hook.Kind + "/" + hook.Name, Event: string(event), Err: err}
		}
	}
	return nil
}

// runHook creates one hook, waits for its end and deletes it if its policy says
// so.
func (m *Manager) runHook(ctx context.Context, rel *Release, hook chart.Hook) error {
	timeout := rel.Options.HookTimeout
	if timeout <= 0 {
		timeout = DefaultHookTimeout
	}
	outer := ctx
	ctx, cancel := context.WithTimeoutCause(outer, timeout, fmt.Errorf("it did not end within %s", timeout))
	defer cancel()
	obj := hook.Object.DeepCopy()
	mapping, err := m.Objects.Mapping(obj.GroupVersionKind())
	if err != nil {
		return err
	}
	rel.Owner.MarkHook(obj, mapping.Scope.Name() == "namespace")
	if err := m.clearHook(ctx, rel, obj); err != nil {
		return err
	}
	if _, err := m.Objects.Apply(ctx, obj, ""); err != nil {
		return err
	}
	failure := m.awaitHook(ctx, rel, obj)
	policy := chart.HookSucceeded
	if failure != nil {
		policy = chart.HookFailed
	}
	unfinished := failure != nil && (outer.Err() != nil || errors.Is(failure, errInterrupted))
	if slices.Contains(hook.DeletePolicies, policy) && !unfinished {
		// A hook that failed by running out of time is deleted all the same.
		clean, stop := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer stop()
		if _, err := m.Objects.Delete(clean, apply.Entry(obj), rel.Owner); err != nil && failure == nil {
			return err
		}
	}
	return failure
}

// clearHook removes what an earlier run left, whatever the policy says: what
// ended before would count as the end of this run. A foreign object of the
// hook's name is refused.
func (m *Manager) clearHook(ctx context.Context, rel *Release, obj *unstructured.Unstructured) error {
	found, err := m.Objects.Check(ctx, rel.Owner, obj)
	if err != nil || !found.Exists {
		return err
	}
	if !found.Ours {
		return &apply.ForeignError{Object: apply.Entry(obj), Other: found.Other}
	}
	gone, err := m.Objects.Delete(ctx, apply.Entry(obj), rel.Owner)
	if err != nil || gone {
		return err
	}
	return m.await(ctx, rel, obj, func(e watch.Event) (bool, error) { return e.Type == watch.Deleted, nil })
}

// awaitHook waits for a Job or Pod to end; other kinds are done when they are
// created.
func (m *Manager) awaitHook(ctx context.Context, rel *Release, obj *unstructured.Unstructured) error {
	switch obj.GroupVersionKind().GroupKind() {
	case batchv1.SchemeGroupVersion.WithKind("Job").GroupKind():
		return m.await(ctx, rel, obj, jobEnded)
	case corev1.SchemeGroupVersion.WithKind("Pod").GroupKind():
		return m.await(ctx, rel, obj, podEnded)
	default:
		return nil
	}
}

// await watches one object until done says so. It gives up when the resource
// is changed or deleted, so that the newer wish does not wait for the older.
func (m *Manager) await(ctx context.Context, rel *Release, obj *unstructured.Unstructured, done func(watch.Event) (bool, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if rel.Interrupted != nil {
		go func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					if rel.Interrupted() {
						cancel(errInterrupted)
						return
					}
				}
			}
		}()
	}
	err := m.Objects.Await(ctx, apply.Entry(obj), done)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return err
}

func jobEnded(e watch.Event) (bool, error) {
	if e.Type == watch.Deleted {
		return false, errors.New("it was deleted before it ended")
	}
	obj, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return false, nil
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["status"] != "True" {
			continue
		}
		switch condition["type"] {
		case string(batchv1.JobComplete):
			return true, nil
		case string(batchv1.JobFailed):
			return false, fmt.Errorf("the Job failed: %v", condition["reason"])
		}
	}
	return false, nil
}

func podEnded(e watch.Event) (bool, error) {
	if e.Type == watch.Deleted {
		return false, errors.New("it was deleted before it ended")
	}
	obj, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return false, nil
	}
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	switch corev1.PodPhase(phase) {
	case corev1.PodSucceeded:
		return true, nil
	case corev1.PodFailed:
		return false, errors.New("the Pod failed")
	default:
		return false, nil
	}
}
