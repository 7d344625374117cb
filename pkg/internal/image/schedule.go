package image

import (
	"container/heap"
	"errors"
	"slices"
	"time"
)

const (
	// firstRetry after a failure doubles with each further one.
	firstRetry = 30 * time.Second
	// slowest is the ceiling of retries unless the interval is longer, and how
	// long refused credentials rest: registries lock out who tries too often.
	slowest = 15 * time.Minute
	// jitter is the part of an interval by which polls are moved at random.
	jitter = 0.1
	// sleep is how long an empty schedule waits for a wake-up.
	sleep = time.Hour
)

// target is what is polled: one image with one set of credentials.
type target struct {
	key         Key
	ref         Ref
	credentials []Credential
	options     TransportOptions
	known       string // digest on record of whoever subscribed first
	followers   map[*following]struct{}
	interval    time.Duration // shortest of the followers
	host        *host

	result   Result
	accepted string // fingerprint of the credential
	polled   bool   // there is a result
	failures int    // in a row

	next    time.Time
	index   int  // in the queue; -1 when not in it
	polling bool // a worker has it
	again   bool // poll once more when the worker is done
}

// host counts what goes on with one registry.
type host struct {
	name    string
	targets int
	polling int
	waiting []*target // due, but the host has its share of workers
}

// throttleKey is who must wait: everybody, or those with some credentials.
type throttleKey struct{ host, credentials string }

// attach makes f a follower of its key's target, which may be new.
func (p *Poller) attach(f *following, ref Ref, options TransportOptions, now time.Time) {
	t, ok := p.targets[f.key]
	if !ok {
		t = &target{
			key: f.key, ref: ref, credentials: slices.Clone(f.Credentials), options: options, known: f.Known,
			followers: map[*following]struct{}{}, interval: f.Interval, host: p.hostOf(ref.Host()), index: -1,
		}
		t.host.targets++
		p.targets[f.key] = t
	}
	f.target = t
	t.followers[f] = struct{}{}
	switch {
	case !ok && f.Known != "":
		p.enqueue(t, now.Add(p.spread(f.Interval)))
	case !ok:
		p.enqueue(t, now)
	case !t.polled && f.Known == "" && !t.polling:
		p.force(t, now)
	default:
		p.reschedule(t, now)
	}
	p.publish(f)
}

// detach removes f, and its target if nobody else follows it.
func (p *Poller) detach(f *following) {
	t := f.target
	if t == nil {
		return
	}
	delete(t.followers, f)
	if len(t.followers) > 0 {
		t.interval = t.shortest()
		return
	}
	delete(p.targets, t.key)
	if t.index >= 0 {
		heap.Remove(&p.queue, t.index)
	}
	t.host.waiting = slices.DeleteFunc(t.host.waiting, func(w *target) bool { return w == t })
	t.host.targets--
	p.release(t.host)
}

// reschedule takes a new interval into account. A shorter one brings the next
// poll forward, but not out of a backoff.
func (p *Poller) reschedule(t *target, now time.Time) {
	t.interval = t.shortest()
	if next := t.result.Checked.Add(p.jittered(t.interval)); t.index >= 0 && t.polled && t.failures == 0 && next.Before(t.next) {
		p.enqueue(t, later(next, now))
	}
}

func (t *target) shortest() time.Duration {
	shortest := time.Duration(0)
	for f := range t.followers {
		if shortest == 0 || f.Interval < shortest {
			shortest = f.Interval
		}
	}
	return shortest
}

// force makes t due now, or once more if it is being polled.
func (p *Poller) force(t *target, now time.Time) {
	switch {
	case t.polling:
		t.again = true
	case t.index >= 0:
		p.enqueue(t, now)
	}
}

// enqueue plans the next poll of t.
func (p *Poller) enqueue(t *target, next time.Time) {
	t.next = next
	if t.index < 0 {
		heap.Push(&p.queue, t)
	} else {
		heap.Fix(&p.queue, t.index)
	}
}

// take returns a target to poll now, or how long there is none.
func (p *Poller) take() (*target, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for len(p.queue) > 0 {
		t := p.queue[0]
		if wait := t.next.Sub(now); wait > 0 {
			return nil, min(wait, sleep)
		}
		heap.Pop(&p.queue)
		if until := p.throttledUntil(t); until.After(now) {
			p.hold(t, now, until)
			continue
		}
		// A host that answers slowly must not keep the others from being polled.
		if t.host.polling >= max(p.workers/2, 1) {
			t.host.waiting = append(t.host.waiting, t)
			continue
		}
		t.polling = true
		t.host.polling++
		return t, 0
	}
	return nil, sleep
}

// hold puts t off until its registry wants to be asked again.
func (p *Poller) hold(t *target, now, until time.Time) {
	if !t.polled {
		cause := &ThrottledError{Host: t.ref.Host(), RetryAfter: until.Sub(now).Round(time.Second)}
		t.polled = true
		t.result = Result{Reason: Throttled, Checked: now, Err: &Error{
			Reason: Throttled, Image: t.ref.String(), Host: t.ref.Host(), detail: cause.Error(), cause: cause}}
		p.publishAll(t)
	}
	p.enqueue(t, until.Add(p.spread(t.interval)))
}

func (p *Poller) throttledUntil(t *target) time.Time {
	return later(p.throttled[throttleKey{host: t.ref.Host()}],
		p.throttled[throttleKey{host: t.ref.Host(), credentials: t.key.Credentials}])
}

// throttle notes that the host, or the account, is to be left alone.
func (p *Poller) throttle(t *target, cause *ThrottledError, now, until time.Time) {
	for key, end := range p.throttled {
		if !end.After(now) {
			delete(p.throttled, key)
		}
	}
	key := throttleKey{host: t.ref.Host()}
	if cause.Quota {
		key.credentials = t.key.Credentials
	}
	p.throttled[key] = later(p.throttled[key], until)
}

// planNext plans the poll after one that ended now with this error.
func (p *Poller) planNext(t *target, err error, now time.Time) {
	reason := ReasonOf(err)
	if reason == Resolved {
		t.failures = 0
		p.enqueue(t, now.Add(p.jittered(t.interval)))
		return
	}
	t.failures++
	delay := backoff(t.failures, t.interval)
	if reason == AuthenticationFailed {
		delay = max(slowest, t.interval)
	}
	var throttled *ThrottledError
	if errors.As(err, &throttled) {
		delay = max(delay, throttled.RetryAfter)
		p.throttle(t, throttled, now, now.Add(delay))
	}
	p.enqueue(t, now.Add(delay+p.spread(delay)))
}

// backoff is the delay after a number of failures in a row.
func backoff(failures int, interval time.Duration) time.Duration {
	ceiling := max(slowest, interval)
	delay := min(firstRetry, interval)
	for range failures - 1 {
		if delay *= 2; delay >= ceiling {
			return ceiling
		}
	}
	return delay
}

// jittered is d, up to a tenth shorter or longer.
func (p *Poller) jittered(d time.Duration) time.Duration {
	return d + time.Duration((2*p.random()-1)*jitter*float64(d))
}

// spread is a random time of up to a tenth of d.
func (p *Poller) spread(d time.Duration) time.Duration {
	return time.Duration(p.random() * jitter * float64(d))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *Poller) hostOf(name string) *host {
	h, ok := p.hosts[name]
	if !ok {
		h = &host{name: name}
		p.hosts[name] = h
	}
	return h
}

// release forgets a host that nobody follows any more.
func (p *Poller) release(h *host) {
	if h.targets == 0 && h.polling == 0 && p.hosts[h.name] == h {
		delete(p.hosts, h.name)
		p.metrics.forget(h.name)
	}
}

// queue is a heap of targets, the earliest first.
type queue []*target

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is for container/heap only.
func (q *queue) Push(x any) {
	t := x.(*target) // only enqueue pushes
	t.index = len(*q)
	*q = append(*q, t)
}

// Pop is for container/heap only.
func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.index = -1
	return t
}
