package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// Finalizer keeps a resource until its release is removed.
const Finalizer = releasev1alpha1.Finalizer

// Reconciler brings the releases of all resources of one kind to what the
// resources ask for. Make it with New.
type Reconciler struct {
	gvk           schema.GroupVersionKind
	chart         *chart.Chart
	operatorKey   string
	inputs        []Input
	sources       []source.TypedSource[reconcile.Request]
	maxConcurrent int

	engine   *Engine
	reader   client.Reader // the cache
	client   client.Client
	recorder events.EventRecorder
	written  writes
	clock    clock.PassiveClock
}

// New returns a reconciler of a kind; WithGroupVersionKind and WithChart are
// required.
func New(opts ...Option) (*Reconciler, error) {
	r := &Reconciler{maxConcurrent: DefaultMaxConcurrentReconciles, clock: clock.RealClock{}}
	for _, opt := range opts {
		if err := opt(r); err != nil {
			return nil, fmt.Errorf("configuring the reconciler: %w", err)
		}
	}
	switch {
	case r.gvk.Empty():
		return nil, errors.New("configuring the reconciler: WithGroupVersionKind is required")
	case r.chart == nil:
		return nil, fmt.Errorf("configuring the reconciler of %s: WithChart is required", r.gvk.Kind)
	}
	return r, nil
}

// recordTimeout bounds the write of the status at the end of a pass, and with it
// how long that may delay an orderly stop.
const recordTimeout = 10 * time.Second

// Reconcile is one pass over one resource.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(r.gvk)
	if err := r.reader.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading %s: %w", r.key(req.NamespacedName), err)
	}
	if r.written.ahead(obj) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	r.written.met(obj)
	pass := r.newPass(obj)
	after, err := r.run(ctx, pass)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		// The operator stops in the middle of it: the next one resumes as after a crash.
		return reconcile.Result{}, nil
	}
	// What was done goes on record also when the operator is told to stop meanwhile.
	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	later, werr := r.write(record, pass)
	if werr != nil {
		return reconcile.Result{}, errors.Join(err, werr)
	}
	return r.result(ctx, min(nonZero(after), nonZero(later)), err)
}

// run takes a resource through its pass.
func (r *Reconciler) run(ctx context.Context, p *Pass) (time.Duration, error) {
	switch {
	case p.Deleting():
		return r.uninstall(ctx, p)
	case p.invalid != nil:
		return r.refuse(ctx, p), nil
	case p.Operator.Suspend != nil && *p.Operator.Suspend:
		return 0, r.suspended(ctx, p)
	}
	defer r.refer(p)
	release.NoteInitialized(p.Status)
	if err := r.addFinalizer(ctx, p); err != nil {
		return 0, err
	}
	inputs, err := r.prepare(ctx, p)
	if err != nil {
		return r.held(p, err)
	}
	if err := r.engine.capabilities.Wait(ctx); err != nil {
		return 0, err
	}
	rel := r.release(ctx, p, inputs)
	out, err := r.engine.releases.Reconcile(ctx, rel)
	p.Events = append(p.Events, out.Events...)
	if err != nil {
		after, err := r.held(p, err)
		return min(nonZero(after), nonZero(out.RequeueAfter)), err
	}
	r.noteReady(p, nil)
	return out.RequeueAfter, nil
}

// held ends a pass that could not go on. A hold is no failure: what it waits
// for ends it.
func (r *Reconciler) held(p *Pass, err error) (time.Duration, error) {
	var hold *release.HoldError
	if errors.As(err, &hold) {
		r.noteReady(p, hold)
		return hold.After, nil
	}
	r.noteReady(p, nil)
	return 0, err
}

// result turns the end of a pass into what the queue understands. A release
// that failed is retried by its own record's clock; what only a change of the
// resource can cure is not retried before maxRetryDelay.
func (r *Reconciler) result(ctx context.Context, after time.Duration, err error) (reconcile.Result, error) {
	if after == never {
		after = 0
	}
	var render *release.RenderError
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: after}, nil
	case errors.As(err, &render):
		log.FromContext(ctx).Error(err, "The chart does not render with these values; waiting for a change")
		return reconcile.Result{RequeueAfter: DefaultMaxRetryDelay}, nil
	default:
		return reconcile.Result{}, err
	}
}

// never stands for "no requeue wanted" where the smallest of several is taken.
const never = time.Duration(1<<63 - 1)

func nonZero(d time.Duration) time.Duration {
	if d <= 0 {
		return never
	}
	return d
}

func (r *Reconciler) key(nn types.NamespacedName) Key {
	return Key{Kind: r.gvk.GroupKind().String(), NamespacedName: nn}
}

// release is the release manager's view of a pass.
func (r *Reconciler) release(ctx context.Context, p *Pass, inputs release.Inputs) *release.Release {
	return &release.Release{
		Owner: p.owner, Chart: r.chart, Values: p.Values,
		Capabilities: r.capabilities(p),
		Lookup:       r.engine.lookup(p.Key),
		References:   r.engine.references,
		Inputs:       inputs, Options: p.options(), Status: p.Status,
		Persist: func(ctx context.Context) error {
			setReady(p.Status, metav1.ConditionFalse, ReasonProgressing, "objects are being applied")
			return r.writeStatus(ctx, p)
		},
		Interrupted: func() bool { return r.outdated(ctx, p) },
	}
}

// capabilities are those of the API server, and of its parts that do not answer
// those that the release was rendered with.
func (r *Reconciler) capabilities(p *Pass) *chart.Capabilities {
	now := r.engine.capabilities.Current()
	if now == nil || p.Status.Release == nil {
		return now
	}
	return now.Remembering(p.Status.Release.Capabilities)
}

// outdated says whether the resource changed since the pass began.
func (r *Reconciler) outdated(ctx context.Context, p *Pass) bool {
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(r.gvk)
	if err := r.reader.Get(ctx, p.Key.NamespacedName, now); err != nil {
		return apierrors.IsNotFound(err)
	}
	return now.GetGeneration() != p.Object.GetGeneration() ||
		(now.GetDeletionTimestamp() == nil) != (p.Object.GetDeletionTimestamp() == nil)
}

func (r *Reconciler) prepare(ctx context.Context, p *Pass) (prepared, error) {
	out := make(prepared, 0, len(r.inputs))
	for _, input := range r.inputs {
		one, err := input.Prepare(ctx, p)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// refer watches what the resource refers to: by its inputs and by the lookups of
// its chart.
func (r *Reconciler) refer(p *Pass) {
	referred := p.referred
	if p.Status.Release != nil {
		referred = append(referred, p.Status.Release.Lookups...)
	}
	slices.SortFunc(referred, refs.Compare)
	r.engine.references.Set(p.Key, slices.Compact(referred)...)
}

func (r *Reconciler) forget(nn types.NamespacedName) {
	key := r.key(nn)
	for _, input := range r.inputs {
		input.Forget(key)
	}
	r.engine.references.Set(key)
	r.engine.releases.Forget(apply.Owner{GVK: r.gvk, Namespace: nn.Namespace, Name: nn.Name, UID: r.written.uid(nn)})
	r.written.forget(nn)
}
