package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// minRetryDelay is the wait after the first failure of a pass.
const minRetryDelay = 200 * time.Millisecond

// SetupWithManager adds the reconciler to a manager. Reconcilers of several
// kinds share one engine. It asks the API server for the scope of the kind, and
// refuses one that is cluster-scoped; a kind that is not there yet is waited for.
func (r *Reconciler) SetupWithManager(mgr manager.Manager, engine *Engine) error {
	if err := r.checkScope(mgr.GetRESTMapper()); err != nil {
		return err
	}
	r.engine = engine
	r.client = mgr.GetClient()
	r.reader = mgr.GetCache()
	r.recorder = mgr.GetEventRecorder(strings.ToLower(r.gvk.Kind) + "-controller")
	name := strings.ToLower(r.gvk.Kind)
	if r.gvk.Group != "" {
		name += "." + r.gvk.Group
	}
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: r.maxConcurrent,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			minRetryDelay, DefaultMaxRetryDelay),
	})
	if err != nil {
		return fmt.Errorf("making the controller of %s: %w", r.gvk.Kind, err)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(r.gvk)
	sources := append([]source.TypedSource[reconcile.Request]{
		source.Kind[client.Object](mgr.GetCache(), obj, &handler.EnqueueRequestForObject{}, wishes),
		source.TypedFunc[reconcile.Request](func(ctx context.Context, queue queue) error { return r.register(ctx, mgr.GetCache(), queue) }),
	}, r.sources...)
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watching for %s: %w", r.gvk.Kind, err)
		}
	}
	return nil
}

// checkScope refuses cluster-scoped kinds. Of a kind that the cluster does not
// have yet each resource is looked at instead.
func (r *Reconciler) checkScope(mapper meta.RESTMapper) error {
	mapping, err := mapper.RESTMapping(r.gvk.GroupKind(), r.gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking the API server for the scope of %s: %w", r.gvk.Kind, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return errors.New(clusterScoped(r.gvk))
	}
	return nil
}

// wishes passes on what a user did to a resource, and not the operator's own
// writes.
var wishes = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
			!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
	},
}

// queue takes requests to look at a resource.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// register lets the engine put resources of the kind into the queue.
func (r *Reconciler) register(ctx context.Context, resources cache.Cache, queue queue) error {
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	r.engine.queues[r.gvk.GroupKind()] = func(name types.NamespacedName) {
		queue.Add(reconcile.Request{NamespacedName: name})
	}
	r.engine.everything = append(r.engine.everything, func() { r.enqueueAll(ctx, resources, queue) })
	return nil
}

// enqueueAll asks for a pass over every resource of the kind, from the cache.
// It does not wait for a cache that has not listed them, which may last for ever
// where a right is missing: the list, when it comes, brings all those passes.
func (r *Reconciler) enqueueAll(ctx context.Context, resources cache.Cache, queue queue) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(r.gvk)
	informer, err := resources.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		return
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(r.gvk.GroupVersion().WithKind(r.gvk.Kind + "List"))
	if err := resources.List(ctx, list); err != nil {
		return // the cache is stopping
	}
	for i := range list.Items {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
}
