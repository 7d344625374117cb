// Package refs watches single objects that releases refer to: pull secrets,
// certificate authorities, what templates look up. Each is watched by name,
// metadata only, once however many releases refer to it, and no longer than one
// of them does.
package refs

import (
	"cmp"
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// Absent is the version of an object that does not exist.
const Absent = "absent"

// Reference names the object; without a name, a whole collection.
type Reference = releasev1alpha1.LookupReference

// Compare orders references.
func Compare(a, b Reference) int {
	return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Watcher watches references for owners of type K. It is safe for concurrent
// use. Watches end when Start's context does.
type Watcher[K comparable] struct {
	client metadata.Interface
	mapper meta.RESTMapper
	notify func(K)

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the life of the watches is the watcher's, not that of the call that starts one
	watches map[Reference]*watched[K]
	owners  map[K][]Reference
}

type watched[K comparable] struct {
	informer cache.SharedIndexInformer
	owners   map[K]bool
	stop     context.CancelFunc
	err      error
}

// NewWatcher returns a watcher that calls notify for each owner of a reference
// when the referenced object is first known and whenever it changes. notify must
// not block.
func NewWatcher[K comparable](client metadata.Interface, mapper meta.RESTMapper, notify func(K)) *Watcher[K] {
	return &Watcher[K]{
		client: client, mapper: mapper, notify: notify,
		watches: map[Reference]*watched[K]{}, owners: map[K][]Reference{},
	}
}

// Start lets watches begin and ends them all when ctx does.
func (w *Watcher[K]) Start(ctx context.Context) error {
	w.mu.Lock()
	w.ctx = ctx
	for ref, watch := range w.watches {
		w.run(ref, watch)
	}
	w.mu.Unlock()
	<-ctx.Done()
	return nil
}

// Set replaces the references of an owner; none forgets it.
func (w *Watcher[K]) Set(owner K, refs ...Reference) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.owners[owner]
	for _, ref := range refs {
		if !slices.Contains(before, ref) {
			w.add(owner, ref)
		} else if watch := w.watches[ref]; watch.informer == nil {
			w.run(ref, watch) // its kind may have come since
		}
	}
	for _, ref := range before {
		if !slices.Contains(refs, ref) {
			w.remove(owner, ref)
		}
	}
	if len(refs) == 0 {
		delete(w.owners, owner)
		return
	}
	w.owners[owner] = slices.Clone(refs)
}

// Version changes whenever the referenced object does. It is "" until the
// object is known, and Absent while there is none.
func (w *Watcher[K]) Version(ref Reference) string {
	w.mu.Lock()
	watch := w.watches[ref]
	w.mu.Unlock()
	if watch == nil || watch.informer == nil || !watch.informer.HasSynced() {
		return ""
	}
	items := watch.informer.GetStore().List()
	if ref.Name != "" {
		if len(items) == 0 {
			return Absent
		}
		return items[0].(metav1.Object).GetResourceVersion()
	}
	versions := make(map[string]string, len(items))
	for _, item := range items {
		obj := item.(metav1.Object)
		versions[obj.GetNamespace()+"/"+obj.GetName()] = obj.GetResourceVersion()
	}
	return ListVersion(versions)
}

// Err is why the reference cannot be watched, or nil.
func (w *Watcher[K]) Err(ref Reference) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if watch := w.watches[ref]; watch != nil {
		return watch.err
	}
	return nil
}

func (w *Watcher[K]) add(owner K, ref Reference) {
	watch := w.watches[ref]
	if watch == nil {
		watch = &watched[K]{owners: map[K]bool{}}
		w.watches[ref] = watch
		w.run(ref, watch)
	}
	watch.owners[owner] = true
}

func (w *Watcher[K]) remove(owner K, ref Reference) {
	watch := w.watches[ref]
	if watch == nil {
		return
	}
	delete(watch.owners, owner)
	if len(watch.owners) == 0 {
		if watch.stop != nil {
			watch.stop()
		}
		delete(w.watches, ref)
	}
}

// run starts the informer of a watch; w.mu is held.
func (w *Watcher[K]) run(ref Reference, watch *watched[K]) {
	if w.ctx == nil {
		return
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		watch.err = err
		return
	}
	ctx, stop := context.WithCancel(w.ctx)
	watch.err = nil
	watch.informer, watch.stop = w.newInformer(ref, mapping.Resource, watch), stop
	go watch.informer.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), watch.informer.HasSynced) {
			w.tell(watch)
		}
	}()
}

// newInformer watches what ref names, metadata only.
func (w *Watcher[K]) newInformer(ref Reference, resource schema.GroupVersionResource, watch *watched[K]) cache.SharedIndexInformer {
	objects := w.client.Resource(resource).Namespace(ref.Namespace)
	only := func(o metav1.ListOptions) metav1.ListOptions {
		if ref.Name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
		}
		return o
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := objects.List(ctx, only(o))
			w.noteAnswer(watch, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			events, err := objects.Watch(ctx, only(o))
			w.noteAnswer(watch, err)
			return events, err
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, w.client),
		&metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	_ = informer.SetTransform(slim)
	changed := func(any) { w.tell(watch) }
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed,
		UpdateFunc: func(before, after any) {
			if before.(metav1.Object).GetResourceVersion() != after.(metav1.Object).GetResourceVersion() {
				w.tell(watch)
			}
		},
	})
	return informer
}

// noteAnswer keeps that the watch is forbidden until the API server allows it;
// other errors pass, the informer tries again.
func (w *Watcher[K]) noteAnswer(watch *watched[K], err error) {
	if !apierrors.IsForbidden(err) && err != nil {
		return
	}
	w.mu.Lock()
	news := (err == nil) != (watch.err == nil)
	watch.err = err
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

// slim keeps of an object only what Version needs.
func slim(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		}}, nil
	}
	return obj, nil
}
