package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// addFinalizer makes sure that the resource cannot go before its release is
// removed. It comes before the first object of the release.
func (r *Reconciler) addFinalizer(ctx context.Context, p *Pass) error {
	if controllerutil.ContainsFinalizer(p.Object, Finalizer) {
		return nil
	}
	return r.patchFinalizers(ctx, p, append(slices.Clone(p.Object.GetFinalizers()), Finalizer))
}

func (r *Reconciler) removeFinalizer(ctx context.Context, p *Pass) error {
	left := slices.DeleteFunc(slices.Clone(p.Object.GetFinalizers()), func(f string) bool { return f == Finalizer })
	if err := client.IgnoreNotFound(r.patchFinalizers(ctx, p, left)); err != nil {
		return err
	}
	if len(left) == 0 {
		r.written.removed(p.Object)
	}
	return nil
}

// patchFinalizers replaces the list of finalizers, provided nobody else changed
// the resource meanwhile.
func (r *Reconciler) patchFinalizers(ctx context.Context, p *Pass, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": p.Object.GetResourceVersion(),
	}})
	if err != nil {
		return fmt.Errorf("changing the finalizers of %s: %w", p.Key, err)
	}
	obj := p.Object.DeepCopy()
	if err := r.client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("changing the finalizers of %s: %w", p.Key, err)
	}
	p.Object = obj
	r.written.note(obj)
	return nil
}

// uninstall removes the release, then what inputs did outside of it, then the
// finalizer.
func (r *Reconciler) uninstall(ctx context.Context, p *Pass) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(p.Object, Finalizer) {
		return 0, nil
	}
	out, err := r.engine.releases.Uninstall(ctx, r.release(ctx, p, prepared(nil)))
	p.Events = append(p.Events, out.Events...)
	if err != nil {
		if r.gone(ctx, p, err) {
			p.gone = true
			return 0, nil
		}
		r.noteRemoving(p, err.Error())
		return 0, err
	}
	if !out.Done {
		r.noteRemoving(p, "waiting for "+strings.Join(out.Waiting, ", ")+" to go")
		return removalRetry, nil
	}
	for _, input := range r.inputs {
		if err := input.Cleanup(ctx, p); err != nil {
			r.noteRemoving(p, err.Error())
			return 0, err
		}
	}
	if err := r.removeFinalizer(ctx, p); err != nil {
		return 0, err
	}
	p.gone = true
	return 0, nil
}

// removalRetry is how often a removal that waits for an object looks again in
// case no watch tells that the object went.
const removalRetry = 10 * time.Second

// gone says whether an error only means that the resource went meanwhile, with
// its namespace or because somebody took the finalizer off.
// While the cache still has the resource, the pass is tried again.
func (r *Reconciler) gone(ctx context.Context, p *Pass, err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(r.gvk)
	err = r.reader.Get(ctx, p.Key.NamespacedName, now)
	return apierrors.IsNotFound(err) || err == nil && now.GetUID() != p.Object.GetUID()
}

// suspended keeps watching health but acts on nothing.
func (r *Reconciler) suspended(ctx context.Context, p *Pass) error {
	if err := r.engine.releases.Observe(ctx, p.owner, p.Status); err != nil {
		return err
	}
	r.noteReady(p, nil)
	return nil
}
