package release

import (
	"container/list"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// payloadBytes bounds what payloads holds, over all releases.
const payloadBytes = 32 << 20

// payloads keeps the newest payload of each release, encoded and compressed as
// it is stored, so that heal and upgrade need not read it back. What was used
// least lately goes first; a miss costs one GET. The zero value is ready.
type payloads struct {
	mu    sync.Mutex
	size  int
	order *list.List // of *heldPayload, most lately used first
	held  map[types.UID]*list.Element
}

type heldPayload struct {
	owner    types.UID
	revision int64
	data     []byte
}

func (c *payloads) put(owner types.UID, p *storage.Payload) {
	data, err := storage.Encode(p)
	if err != nil {
		return // what cannot be encoded could not be stored either
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held, c.order = map[types.UID]*list.Element{}, list.New()
	}
	c.remove(owner)
	c.held[owner] = c.order.PushFront(&heldPayload{owner, p.Revision, data})
	c.size += len(data)
	for c.size > payloadBytes && c.order.Len() > 1 {
		c.remove(c.order.Back().Value.(*heldPayload).owner)
	}
}

func (c *payloads) get(owner types.UID, revision int64) (*storage.Payload, bool) {
	c.mu.Lock()
	e, ok := c.held[owner]
	if !ok || e.Value.(*heldPayload).revision != revision {
		c.mu.Unlock()
		return nil, false
	}
	c.order.MoveToFront(e)
	data := e.Value.(*heldPayload).data
	c.mu.Unlock()
	p, err := storage.Decode(data)
	return p, err == nil
}

func (c *payloads) forget(owner types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(owner)
}

func (c *payloads) remove(owner types.UID) {
	if e, ok := c.held[owner]; ok {
		c.size -= len(e.Value.(*heldPayload).data)
		c.order.Remove(e)
		delete(c.held, owner)
	}
}
