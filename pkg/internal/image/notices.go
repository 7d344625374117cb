package image

import (
	"context"
	"sync"
)

// notices are the subscribers still to be notified, each at most once, so a slow
// receiver costs no more memory than there are subscribers.
type notices struct {
	notify func(Subscriber)
	ready  chan struct{} // holds a value when something is pending

	mu      sync.Mutex
	pending map[Subscriber]bool
	order   []Subscriber // may name subscribers that were forgotten
}

func newNotices(notify func(Subscriber)) *notices {
	if notify == nil {
		notify = func(Subscriber) {}
	}
	return &notices{notify: notify, ready: make(chan struct{}, 1), pending: map[Subscriber]bool{}}
}

func (n *notices) add(who Subscriber) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending[who] {
		return
	}
	n.pending[who] = true
	n.order = append(n.order, who)
	select {
	case n.ready <- struct{}{}:
	default:
	}
}

func (n *notices) forget(who Subscriber) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pending, who)
}

// deliver notifies until the context ends.
func (n *notices) deliver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ready:
		}
		for _, who := range n.take() {
			if n.claim(who) && ctx.Err() == nil {
				n.notify(who)
			}
		}
	}
}

func (n *notices) take() []Subscriber {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.order
	n.order = nil
	return taken
}

// claim reports whether the subscriber still waits to be notified. From here on
// a new change is a new notice.
func (n *notices) claim(who Subscriber) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	waits := n.pending[who]
	delete(n.pending, who)
	return waits
}
