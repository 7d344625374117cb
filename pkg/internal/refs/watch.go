package refs

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// watched is the watch on one reference. The watcher's lock guards it.
type watched[K comparable] struct {
	owners map[K]bool
	// stop ends the watch; nil while there is none.
	stop context.CancelFunc
	// retry is when to ask again for the kind.
	retry time.Time
	err   error

	// none says that there can be nothing: the cluster has no such kind, or the
	// reference names no object.
	none bool
	// items are the versions of the objects by namespace/name; nil before the
	// first list.
	items map[string]string
	// revision is the resourceVersion up to which the watch has come.
	revision string
	// seen is what has been read beside the watch.
	seen sighting
	// collection is the version of the items together; "" when they changed.
	collection string
	// changed says that the last event changed an item.
	changed bool
}

// sighting is what was read of an object beside the watch: its resourceVersion,
// or that it was gone when the watch had it still.
type sighting struct {
	revision string
	gone     string // the version that the watch had
}

// older says whether a resourceVersion is known to be before another one.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

func (w *watched[K]) saw(s sighting) {
	if s.revision != "" && (w.seen.revision == "" || older(w.seen.revision, s.revision)) {
		w.seen.revision = s.revision
	}
	if s.gone != "" {
		w.seen.gone = s.gone
	}
}

func (w *watched[K]) version(ref Reference) string {
	switch {
	case w.none:
		return Absent
	case w.items == nil || w.seen.revision != "" && older(w.revision, w.seen.revision):
		return ""
	}
	version := w.now(ref)
	if version == w.seen.gone {
		return "" // that it went is not here yet
	}
	w.seen = sighting{}
	return version
}

// now is the version of what the watch has.
func (w *watched[K]) now(ref Reference) string {
	if ref.Name == "" {
		if w.collection == "" {
			w.collection = listVersion(w.items)
		}
		return w.collection
	}
	for _, version := range w.items {
		return version
	}
	return Absent
}

// run begins a watch, given what the API server said of its kind.
func (w *Watcher[K]) run(ref Reference, watch *watched[K], mapping *meta.RESTMapping, err error) {
	watch.none, watch.err = false, nil
	if err != nil {
		watch.retry = w.clock.Now().Add(missingFor)
		if watch.none = meta.IsNoMatchError(err); !watch.none {
			watch.err = err
		}
		return
	}
	ctx, stop := context.WithCancel(w.ctx)
	watch.stop = stop
	namespace, possible := Namespace(ref, mapping.Scope)
	if watch.none = !possible; watch.none {
		return
	}
	source := cache.ToListWatcherWithWatchListSemantics(w.listWatch(ref, mapping.Resource, namespace, watch), w.client)
	reflector := cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, &store[K]{w, ref, watch},
		cache.ReflectorOptions{Name: "references", TypeDescription: mapping.Resource.String()})
	go reflector.RunWithContext(ctx)
}

// listWatch lists and watches what ref names, metadata only.
func (w *Watcher[K]) listWatch(ref Reference, resource schema.GroupVersionResource, namespace string, watch *watched[K]) *cache.ListWatch {
	objects := w.client.Resource(resource).Namespace(namespace)
	only := func(o metav1.ListOptions) metav1.ListOptions {
		if ref.Name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
		}
		return o
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := objects.List(ctx, only(o))
			w.noteAnswer(ref, watch, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			events, err := objects.Watch(ctx, only(o))
			w.noteAnswer(ref, watch, err)
			return events, err
		},
	}
}

// noteAnswer keeps that the watch is forbidden until the API server allows it,
// and that the kind went; other errors pass, the reflector tries again.
func (w *Watcher[K]) noteAnswer(ref Reference, watch *watched[K], err error) {
	w.mu.Lock()
	before, failed := watch.version(ref), watch.err
	switch {
	case err == nil || apierrors.IsForbidden(err):
		watch.err, watch.none = err, false
	case apierrors.IsNotFound(err):
		watch.none, watch.items, watch.collection = true, nil, ""
	}
	news := (failed == nil) != (watch.err == nil) || watch.version(ref) != before
	w.mu.Unlock()
	if news {
		w.tell(watch)
	}
}

// tell notifies the owners, outside the lock.
func (w *Watcher[K]) tell(watch *watched[K]) {
	w.mu.Lock()
	owners := make([]K, 0, len(watch.owners))
	for owner := range watch.owners {
		owners = append(owners, owner)
	}
	w.mu.Unlock()
	for _, owner := range owners {
		w.notify(owner)
	}
}
