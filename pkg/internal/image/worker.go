package image

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// pollTimeout bounds one poll with all its requests and credentials.
const pollTimeout = time.Minute

// Start polls until the context ends and the polls under way have stopped.
func (p *Poller) Start(ctx context.Context) error {
	if !p.started.CompareAndSwap(false, true) {
		return errors.New("the image poller was started twice")
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { p.notices.deliver(ctx) })
	due := make(chan *target)
	defer close(due)
	for range p.workers {
		running.Go(func() {
			for t := range due {
				p.poll(ctx, t)
			}
		})
	}
	for {
		t, wait := p.take()
		if t == nil {
			if !p.rest(ctx, wait) {
				return nil
			}
			continue
		}
		select {
		case due <- t:
		case <-ctx.Done():
			return nil
		}
	}
}

// rest waits until the schedule needs a look; false if the context has ended.
func (p *Poller) rest(ctx context.Context, wait time.Duration) bool {
	timer := p.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-p.wake:
	case <-timer.C():
	}
	return true
}

// poll asks for one target and plans its next poll.
func (p *Poller) poll(ctx context.Context, t *target) {
	begin := p.clock.Now()
	limited, cancel := context.WithTimeout(ctx, pollTimeout)
	resolution, err := p.resolver.Digest(limited, t.ref, t.credentials, t.options)
	cancel()
	if ctx.Err() != nil {
		return // stopping says nothing of the registry
	}
	p.finish(t, resolution, err, begin)
}

func (p *Poller) finish(t *target, resolution Resolution, err error, begin time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.wakeUp()
	now := p.clock.Now()
	changed := err == nil && resolution.Digest != cmp.Or(t.result.Digest, t.known)
	p.metrics.polled(t.ref.Host(), err, changed, now.Sub(begin), resolution.Remaining)
	p.leaveHost(t.host, now)
	t.polling = false
	if len(t.followers) == 0 {
		return
	}
	t.polled = true
	t.result.Checked, t.result.Reason, t.result.Err = now, ReasonOf(err), err
	if err == nil {
		t.accepted = resolution.Credential.Fingerprint()
		if changed {
			t.result.Changed = now
		}
		t.result.Digest, t.result.Confirmed = resolution.Digest, now
	}
	p.planNext(t, err, now)
	if t.again {
		t.again = false
		p.enqueue(t, now)
	}
	p.publishAll(t)
}

// leaveHost gives the worker's place at the host to the next that waits for it.
func (p *Poller) leaveHost(h *host, now time.Time) {
	h.polling--
	if len(h.waiting) > 0 {
		next := h.waiting[0]
		h.waiting = h.waiting[1:]
		p.enqueue(next, now)
	}
	p.release(h)
}

func (p *Poller) publishAll(t *target) {
	for f := range t.followers {
		p.publish(f)
	}
}
