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
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

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

// Namespace returns where to look for what ref names, given the scope of its
// kind, and whether there can be anything: a name alone names no object of a
// namespaced kind. The namespace of a cluster-scoped kind is ignored, as in Helm.
func Namespace(ref Reference, scope meta.RESTScope) (string, bool) {
	if scope.Name() != meta.RESTScopeNameNamespace {
		return "", true
	}
	return ref.Namespace, ref.Namespace != "" || ref.Name == ""
}

// missingFor is how long a kind that the cluster did not have is not asked for
// again, unless Retry says that kinds changed.
const missingFor = 30 * time.Second

// Watcher watches references for owners of type K. It is safe for concurrent
// use. Watches end when Start's context does.
type Watcher[K comparable] struct {
	client metadata.Interface
	mapper meta.RESTMapper
	notify func(K)
	clock  clock.PassiveClock

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the life of the watches is the watcher's, not that of the call that starts one
	watches map[Reference]*watched[K]
	owners  map[K][]Reference
	// read holds what owners read of objects that are not watched yet, until
	// their next Set.
	read map[K]map[Reference]sighting
}

// NewWatcher returns a watcher that calls notify for each owner of a reference
// when the referenced object is first known and whenever it changes. notify must
// not block.
func NewWatcher[K comparable](client metadata.Interface, mapper meta.RESTMapper, notify func(K)) *Watcher[K] {
	return &Watcher[K]{
		client: client, mapper: mapper, notify: notify, clock: clock.RealClock{},
		watches: map[Reference]*watched[K]{}, owners: map[K][]Reference{}, read: map[K]map[Reference]sighting{},
	}
}

// NeedLeaderElection says that the watcher runs beside the election.
func (w *Watcher[K]) NeedLeaderElection() bool { return false }

// Start lets watches begin and ends them all when ctx does.
func (w *Watcher[K]) Start(ctx context.Context) error {
	w.mu.Lock()
	w.ctx = ctx
	w.mu.Unlock()
	w.Retry()
	<-ctx.Done()
	return nil
}

// Retry tries again to watch what could not be watched, because kinds came.
func (w *Watcher[K]) Retry() {
	w.mu.Lock()
	var idle []Reference
	for ref, watch := range w.watches {
		if watch.stop == nil {
			idle = append(idle, ref)
		}
	}
	w.mu.Unlock()
	w.begin(idle)
}

// Set replaces the references of an owner; none forgets it.
func (w *Watcher[K]) Set(owner K, refs ...Reference) {
	w.begin(w.assign(owner, refs))
}

// assign returns the references that are to be watched from now on.
func (w *Watcher[K]) assign(owner K, refs []Reference) (idle []Reference) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ref := range refs {
		watch := w.watches[ref]
		if watch == nil {
			watch = &watched[K]{owners: map[K]bool{}}
			w.watches[ref] = watch
		}
		watch.owners[owner] = true
		watch.saw(w.read[owner][ref])
		if watch.stop == nil && !w.clock.Now().Before(watch.retry) {
			idle = append(idle, ref)
		}
	}
	delete(w.read, owner)
	for _, ref := range w.owners[owner] {
		if !slices.Contains(refs, ref) {
			w.remove(owner, ref)
		}
	}
	if w.owners[owner] = slices.Clone(refs); len(refs) == 0 {
		delete(w.owners, owner)
	}
	return idle
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

// Version changes whenever the referenced object does. It is "" while the object
// is not known, or known only as it was before somebody read it (see Read), and
// Absent while there is none.
func (w *Watcher[K]) Version(ref Reference) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	watch := w.watches[ref]
	if watch == nil {
		return ""
	}
	return watch.version(ref)
}

// Read takes note of what an owner read of a reference, beside the watches:
// found, and before it the Version before. While the watch lags behind that,
// Version answers "", so that a release is not taken for outdated by an object
// that it was rendered with. The owner's next Set has to follow.
func (w *Watcher[K]) Read(owner K, ref Reference, before string, found map[string]any) {
	var s sighting
	if len(found) > 0 {
		s.revision, _, _ = unstructured.NestedString(found, "metadata", "resourceVersion")
	} else if before != Absent {
		s.gone = before
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if watch := w.watches[ref]; watch != nil {
		watch.saw(s)
		return
	}
	if w.read[owner] == nil {
		w.read[owner] = map[Reference]sighting{}
	}
	w.read[owner][ref] = s
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

// begin starts watches. It may ask the API server for kinds, so the lock is not
// held.
func (w *Watcher[K]) begin(refs []Reference) {
	w.mu.Lock()
	started := w.ctx != nil
	w.mu.Unlock()
	if !started {
		return
	}
	for _, ref := range refs {
		gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		w.mu.Lock()
		watch := w.watches[ref]
		if watch == nil || watch.stop != nil {
			w.mu.Unlock()
			continue
		}
		before := watch.version(ref)
		w.run(ref, watch, mapping, err)
		news := watch.version(ref) != before
		w.mu.Unlock()
		if news {
			w.tell(watch)
		}
	}
}
