package refs

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// store is what a reflector fills: of each object it keeps the version alone.
type store[K comparable] struct {
	watcher *Watcher[K]
	ref     Reference
	watch   *watched[K]
}

var (
	_ cache.ReflectorStore         = (*store[string])(nil)
	_ cache.ReflectorBookmarkStore = (*store[string])(nil)
)

// Add implements cache.ReflectorStore.
func (s *store[K]) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store[K]) Update(obj any) error {
	if o, ok := obj.(metav1.Object); ok {
		s.change(o.GetResourceVersion(), func(w *watched[K]) { s.put(w, o) })
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *store[K]) Delete(obj any) error {
	if o, ok := obj.(metav1.Object); ok {
		s.change(o.GetResourceVersion(), func(w *watched[K]) { w.put(keyOf(o), "") })
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store[K]) Replace(list []any, revision string) error {
	s.change(revision, func(w *watched[K]) {
		there := map[string]bool{}
		for _, obj := range list {
			if o, ok := obj.(metav1.Object); ok {
				there[keyOf(o)] = true
				s.put(w, o)
			}
		}
		for key := range w.items {
			if !there[key] {
				w.put(key, "")
			}
		}
	})
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *store[K]) Bookmark(revision string) error {
	s.change(revision, func(*watched[K]) {})
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to repeat.
func (s *store[K]) Resync() error { return nil }

func (s *store[K]) put(w *watched[K], o metav1.Object) {
	if s.ref.Name == "" && own(o) {
		w.put(keyOf(o), "")
		return
	}
	w.put(keyOf(o), itemVersion(o))
}

// change changes the items and tells the owners of it.
func (s *store[K]) change(revision string, change func(*watched[K])) {
	s.watcher.mu.Lock()
	w := s.watch
	first := w.items == nil
	if first {
		w.items = map[string]string{}
	}
	w.changed = false
	change(w)
	news := w.changed || first
	w.revision = revision
	s.watcher.mu.Unlock()
	if news {
		s.watcher.tell(w)
	}
}

// put notes the version of an object; "" when it is gone.
func (w *watched[K]) put(key, version string) {
	if w.items[key] == version {
		return
	}
	w.changed, w.collection = true, ""
	if version == "" {
		delete(w.items, key)
		return
	}
	w.items[key] = version
}
