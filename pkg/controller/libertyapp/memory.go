package libertyapp

import (
	"sync"

	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
)

// memory holds what is known of each resource besides its status. Nothing in it
// is missed after a restart. Passes over one resource do not overlap, so only
// the map is guarded. The zero value is ready.
type memory[T any] struct {
	mu   sync.Mutex
	held map[reconciler.Key]*T
}

// get returns what is held for a resource, to be changed in place.
func (m *memory[T]) get(key reconciler.Key) *T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = map[reconciler.Key]*T{}
	}
	if m.held[key] == nil {
		m.held[key] = new(T)
	}
	return m.held[key]
}

func (m *memory[T]) forget(key reconciler.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, key)
}
