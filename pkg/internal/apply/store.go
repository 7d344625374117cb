package apply

import (
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// store holds the objects of one kind in one namespace, or in all. A reflector
// fills it, and the client writes through. It keeps nothing of an object that
// nobody asks for, and enqueues the owner only when something kept changes.
type store struct {
	// comparesMessages says whether a new message alone is worth a pass. Those
	// of built-in kinds count progress; others may hold a clock.
	comparesMessages bool
	enqueue          func(ownerRef)
	// refresh is called when the store begins to be current, after the first
	// list or after it could not be listed for a while.
	refresh func()
	clock   clock.PassiveClock

	mu      sync.RWMutex
	objects map[types.NamespacedName]object
	// gone are objects that somebody else removed of late, at most goneMost.
	gone map[types.NamespacedName]removal
	// listed and watching have to come together, in either order, for the store
	// to be current; synced says that they did once.
	listed, watching, synced bool
	// err is the last failure since the store was current.
	err error
	// first is closed when the store is current for the first time, or failed.
	first     chan struct{}
	firstOnce sync.Once
}

var _ cache.TransformingStore = (*store)(nil)

func newStore(comparesMessages bool, enqueue func(ownerRef), refresh func(), clock clock.PassiveClock) *store {
	return &store{
		comparesMessages: comparesMessages, enqueue: enqueue, refresh: refresh, clock: clock,
		objects: map[types.NamespacedName]object{}, gone: map[types.NamespacedName]removal{},
		first: make(chan struct{}),
	}
}

// Transformer makes the reflector keep items, not objects, while it collects
// the first list.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return project(obj) }
}

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error {
	it, err := project(obj)
	if err != nil {
		return err
	}
	s.notify(s.put(it))
	return nil
}

// put stores an item unless a newer one is known, and returns whom to tell.
func (s *store) put(it *item) []unique.Handle[ownerRef] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putLocked(it)
}

func (s *store) putLocked(it *item) []unique.Handle[ownerRef] {
	old, had := s.objects[it.name]
	if had && older(it.version, old.version) {
		return nil
	}
	if had && it.owner == (unique.Handle[ownerRef]{}) {
		it.owner = old.owner // its annotations were taken away: who had it decides
	}
	it.leaving = had && old.leaving && old.UID == it.UID
	s.objects[it.name] = it.object
	delete(s.gone, it.name)
	switch {
	case had && !s.differ(old.Observed, it.Observed):
		return nil
	case had && old.owner != it.owner:
		return []unique.Handle[ownerRef]{old.owner, it.owner}
	}
	return []unique.Handle[ownerRef]{it.owner}
}

// differ says whether a change is worth a pass of the owner.
func (s *store) differ(a, b Observed) bool {
	a.Generation, b.Generation = 0, 0
	if !s.comparesMessages {
		a.Message, b.Message = "", ""
	}
	return a != b
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	s.notify(s.remove(m))
	return nil
}

func (s *store) remove(m metav1.Object) []unique.Handle[ownerRef] {
	name := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, had := s.objects[name]
	if !had || older(m.GetResourceVersion(), old.version) {
		return nil
	}
	s.removeLocked(name, old)
	return []unique.Handle[ownerRef]{old.owner}
}

// Replace implements cache.ReflectorStore. What the client wrote after the list
// was made stays.
func (s *store) Replace(list []any, version string) error {
	items := make(map[types.NamespacedName]*item, len(list))
	for _, obj := range list {
		it, err := project(obj)
		if err != nil {
			return err
		}
		items[it.name] = it
	}
	s.notify(s.replace(items, version))
	s.current(&s.listed)
	return nil
}

func (s *store) replace(items map[types.NamespacedName]*item, version string) (owners []unique.Handle[ownerRef]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, old := range s.objects {
		if _, still := items[name]; !still && !older(version, old.version) {
			s.removeLocked(name, old)
			owners = append(owners, old.owner)
		}
	}
	for _, it := range items {
		owners = append(owners, s.putLocked(it)...)
	}
	if !s.synced {
		return nil // all owners hear when it is
	}
	return owners
}

// current notes that the kind was listed or is being watched, and tells the
// owners when that makes the store current.
func (s *store) current(part *bool) {
	s.mu.Lock()
	*part = true
	both := s.listed && s.watching
	news := both && (!s.synced || s.err != nil)
	if both {
		s.synced, s.err = true, nil
	}
	s.mu.Unlock()
	if news {
		s.refresh()
	}
	if both {
		s.firstOnce.Do(func() { close(s.first) })
	}
}

// Resync implements cache.ReflectorStore; there is nothing to do again.
func (s *store) Resync() error { return nil }

// failed notes that the kind could not be listed or watched, and says whether
// that is new and whether the store was filled before.
func (s *store) failed(err error) (changed, synced bool) {
	s.mu.Lock()
	changed, synced = s.err == nil, s.synced
	s.err, s.watching = err, false
	s.mu.Unlock()
	s.firstOnce.Do(func() { close(s.first) })
	return changed, synced
}

// failure is the last one since the store was current.
func (s *store) failure() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

func (s *store) get(name types.NamespacedName) (Observed, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if obj, ok := s.objects[name]; ok {
		return obj.Observed, true
	}
	removed, seen := s.gone[name]
	return Observed{
		Unknown: !s.synced, Deleted: seen && removed.recent(s.clock.Now()),
		Completed: removed.completed, Status: removed.status, Message: removed.message,
	}, false
}

// wrote takes over what the client applied, without a pass: its writer knows.
func (s *store) wrote(it *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, had := s.objects[it.name]
	if had && !older(old.version, it.version) {
		return // the watch was faster, or nothing was changed
	}
	if had {
		it.Replicas, it.ReadyReplicas = old.Replicas, old.ReadyReplicas
		it.Completed = old.Completed && old.UID == it.UID
	}
	s.objects[it.name] = it.object
	delete(s.gone, it.name)
}

// deleting takes over that the client deleted the object of that uid.
func (s *store) deleting(name types.NamespacedName, uid types.UID, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, had := s.objects[name]
	switch {
	case !had || old.UID != uid:
	case gone:
		delete(s.objects, name)
	default:
		old.leaving, old.Deleting = true, true
		s.objects[name] = old
	}
}

func (s *store) notify(owners []unique.Handle[ownerRef]) {
	for _, owner := range owners {
		if owner != (unique.Handle[ownerRef]{}) {
			s.enqueue(owner.Value())
		}
	}
}

// older compares resourceVersions; those that cannot be compared are taken as
// they come.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
