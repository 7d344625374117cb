package libertyapp

import (
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// maxHeld bounds how many objects of a kind are remembered; each further one
// costs a GET a pass.
const maxHeld = 1024

// versioned remembers what was read of objects for as long as their
// resourceVersion stays, so that a pass without a change costs no request.
type versioned[T any] struct {
	held    *lru.Cache
	reading singleflight.Group
}

func newVersioned[T any]() *versioned[T] { return &versioned[T]{held: lru.New(maxHeld)} }

// reading is what was read of an object: for the version that a watch told, and
// at the version it had when it was read, which may be newer.
type reading[T any] struct {
	asked, version string
	content        T
}

// get returns what is known of an object at a version, from read if need be.
// fresh says that this call read it.
func (v *versioned[T]) get(key types.NamespacedName, version string, read func() (T, string, error)) (content T, fresh bool, err error) {
	if found, ok := v.held.Get(key); ok {
		if r := found.(reading[T]); r.asked == version || r.version == version {
			return r.content, false, nil
		}
	}
	found, err, _ := v.reading.Do(key.String()+"@"+version, func() (any, error) {
		content, at, err := read()
		if err != nil {
			return nil, err
		}
		fresh = true
		r := reading[T]{asked: version, version: at, content: content}
		v.held.Add(key, r)
		return r, nil
	})
	if err != nil {
		return content, false, err
	}
	return found.(reading[T]).content, fresh, nil
}

// put remembers an object that the operator has just written.
func (v *versioned[T]) put(key types.NamespacedName, version string, content T) {
	v.held.Add(key, reading[T]{asked: version, version: version, content: content})
}
