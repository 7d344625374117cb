package apply

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// informer watches one kind, with a reflector and a store for each namespace
// that is watched ("" for all of them, and for cluster-scoped kinds).
type informer struct {
	// mapping is the resource that is watched; it changes when the server ceases
	// to have its version.
	mapping atomic.Pointer[meta.RESTMapping]
	stores  map[string]*store
	cancel  context.CancelFunc
	// users are the owners whose releases have the kind; without any the
	// informer stops. The cache's lock guards them.
	users map[ownerRef]struct{}
}

// store returns where objects of a namespace are, or nil when it is not
// watched.
func (i *informer) store(namespace string) *store {
	if all, ok := i.stores[metav1.NamespaceAll]; ok {
		return all
	}
	return i.stores[namespace]
}

// syncWait bounds how long a pass waits for the first list of a kind. The owner
// is enqueued when it comes later.
const syncWait = 10 * time.Second

// wait waits for the first list. It returns a *ForbiddenError when the operator
// may not list or watch the kind where the owner's objects are; other failures
// are being retried.
func (i *informer) wait(ctx context.Context, owner Owner) error {
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	for namespace, s := range i.stores {
		select {
		case <-s.first:
		case <-ctx.Done():
		}
		var forbidden *ForbiddenError
		if errors.As(s.failure(), &forbidden) && owner.in(namespace) {
			return forbidden
		}
	}
	return nil
}

// in says whether the owner's objects may be in a namespace that is watched.
func (o Owner) in(namespace string) bool {
	return namespace == metav1.NamespaceAll || namespace == o.Namespace || namespace == o.ReleaseNamespace
}

// How long to wait between attempts to list and watch a kind that fails.
const (
	retryFirst      = time.Second
	retryMost       = 30 * time.Second
	retryResetAfter = 2 * time.Minute
	retrySteps      = 20 // enough to reach retryMost
)

// reflect keeps a store current until the context ends.
func (c *Cache) reflect(ctx context.Context, i *informer, namespace string, s *store) {
	first := i.mapping.Load()
	reflector := toolscache.NewReflectorWithOptions(c.listWatch(i, namespace, func() { s.current(&s.watching) }), nil, s, toolscache.ReflectorOptions{
		Name: "dependents", TypeDescription: first.Resource.String(),
	})
	retry := wait.Backoff{Duration: retryFirst, Cap: retryMost, Steps: retrySteps, Factor: 2, Jitter: 0.5}
	key := Key{GroupKind: first.GroupVersionKind.GroupKind(), Namespace: namespace, Name: "objects"}
	attempt := func(ctx context.Context) (bool, error) {
		mapping := i.mapping.Load()
		if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			err = request{"list", key, mapping}.explain(err)
			c.switchVersion(ctx, i, mapping, err)
			c.failed(i, s, err)
		}
		return false, nil
	}
	// Until only ends with the context.
	_ = retry.DelayWithReset(clock.RealClock{}, retryResetAfter).Until(ctx, true, true, attempt)
}

// switchVersion makes the informer go on in another version of its kind when
// the server answered that it does not have the one it asked for. A kind that is
// gone altogether may come back, and is asked for again as it was.
func (c *Cache) switchVersion(ctx context.Context, i *informer, asked *meta.RESTMapping, err error) {
	var missing *NoKindError
	if !errors.As(err, &missing) {
		return
	}
	if other, err := c.kinds.instead(ctx, asked.GroupVersionKind); err == nil {
		i.mapping.CompareAndSwap(asked, other)
	}
}

// failed tells the owners when a kind that was watched may not be any more.
func (c *Cache) failed(i *informer, s *store, err error) {
	var forbidden *ForbiddenError
	if errors.As(err, &forbidden) {
		forbidden.Name = ""
	}
	changed, synced := s.failed(err)
	if !changed {
		return
	}
	c.opts.Log.Info("Cannot watch objects; trying again", "resource", i.mapping.Load().Resource.String(), "error", err.Error())
	if synced && forbidden != nil {
		c.refresh(i)
	}
}

// listWatch lists and watches a kind in a namespace; watching is called for each
// watch that the server accepts.
func (c *Cache) listWatch(i *informer, namespace string, watching func()) *toolscache.ListWatch {
	selected := func(options *metav1.ListOptions) { options.LabelSelector = c.selector }
	if hasHealth(i.mapping.Load().GroupVersionKind.GroupKind()) {
		objects := func() dynamic.ResourceInterface {
			return c.whole.Resource(i.mapping.Load().Resource).Namespace(namespace)
		}
		return newListWatch(selected, watching,
			func(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
				return objects().List(ctx, options)
			},
			func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return objects().Watch(ctx, options)
			})
	}
	objects := func() metadata.ResourceInterface {
		return c.metadata.Resource(i.mapping.Load().Resource).Namespace(namespace)
	}
	return newListWatch(selected, watching,
		func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			return objects().List(ctx, options)
		},
		func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return objects().Watch(ctx, options)
		})
}

func newListWatch[L runtime.Object](
	selected func(*metav1.ListOptions), watching func(),
	list func(context.Context, metav1.ListOptions) (L, error),
	watchAll func(context.Context, metav1.ListOptions) (watch.Interface, error),
) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			selected(&options)
			return list(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			selected(&options)
			w, err := watchAll(ctx, options)
			if err == nil {
				watching()
			}
			return w, err
		},
	}
}
