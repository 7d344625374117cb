package image

import (
	"container/list"
	"sync"
	"time"
)

// lru is a bounded map that forgets what was not used for some time. It is safe
// for concurrent use. What it holds may keep credentials in memory, so entries
// leave when they are idle and not only when room is needed.
type lru[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]*list.Element
	order   *list.List // most recently used first, hence idle longest last
	size    int
	idle    time.Duration
	now     func() time.Time
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
	used  time.Time
}

func newLRU[K comparable, V any](size int, idle time.Duration, now func() time.Time) *lru[K, V] {
	return &lru[K, V]{entries: map[K]*list.Element{}, order: list.New(), size: size, idle: idle, now: now}
}

// get returns the value and counts as use.
func (c *lru[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(c.size)
	element, ok := c.entries[key]
	if !ok {
		var zero V
		return zero, false
	}
	return c.use(element).value, true
}

// getOrAdd returns the value there is, or adds what create returns; added
// says which. An error of create is returned and nothing added.
func (c *lru[K, V]) getOrAdd(key K, create func() (V, error)) (value V, added bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(c.size)
	if element, ok := c.entries[key]; ok {
		return c.use(element).value, false, nil
	}
	if value, err = create(); err != nil {
		return value, false, err
	}
	c.evict(c.size - 1)
	c.entries[key] = c.order.PushFront(&lruEntry[K, V]{key: key, value: value, used: c.now()})
	return value, true, nil
}

// put adds or replaces the value.
func (c *lru[K, V]) put(key K, value V) {
	c.remove(key)
	_, _, _ = c.getOrAdd(key, func() (V, error) { return value, nil })
}

func (c *lru[K, V]) remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[key]; ok {
		c.drop(element)
	}
}

func (c *lru[K, V]) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}

func (c *lru[K, V]) use(element *list.Element) *lruEntry[K, V] {
	entry := entryOf[K, V](element)
	entry.used = c.now()
	c.order.MoveToFront(element)
	return entry
}

// evict drops what is idle and what exceeds the size.
func (c *lru[K, V]) evict(size int) {
	for last := c.order.Back(); last != nil; last = c.order.Back() {
		if c.order.Len() <= size && c.now().Sub(entryOf[K, V](last).used) < c.idle {
			return
		}
		c.drop(last)
	}
}

func (c *lru[K, V]) drop(element *list.Element) {
	delete(c.entries, entryOf[K, V](element).key)
	c.order.Remove(element)
}

func entryOf[K comparable, V any](element *list.Element) *lruEntry[K, V] {
	return element.Value.(*lruEntry[K, V]) // only lru fills the list
}
