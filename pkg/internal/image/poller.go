package image

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

const (
	// DefaultInterval between two polls of an image.
	DefaultInterval = 5 * time.Minute
	defaultWorkers  = 4
	// minInterval keeps a mistaken interval from becoming a busy loop.
	minInterval = time.Second
)

// DigestResolver is what a Poller asks; a *Resolver is one. Errors should be
// *Error; others count as Unreachable.
type DigestResolver interface {
	Digest(context.Context, Ref, []Credential, TransportOptions) (Resolution, error)
}

// PollerOptions configure a Poller.
type PollerOptions struct {
	// Workers poll at the same time, at most half of them the same host.
	// Default: 4.
	Workers int
	// Interval of subscriptions that name none. Default: DefaultInterval.
	Interval time.Duration
	// Clock of the schedule. Default: the system's.
	Clock clock.Clock
	// Resolver to ask. Default: a Resolver of its own.
	Resolver DigestResolver
	// Metrics is where the poller's metrics are registered, if not nil.
	Metrics prometheus.Registerer
	// Notify is called when the Digest or the Reason of a Result that the
	// subscriber gets has changed, and for its first Result. Calls come one at
	// a time and hold no poll up. Several changes may come as one call.
	Notify func(Subscriber)
}

// Poller keeps the digests of images up to date. Its methods are safe for
// concurrent use and never wait for a registry. Start and NeedLeaderElection
// make it a Runnable of a manager.
type Poller struct {
	workers  int
	interval time.Duration
	clock    clock.Clock
	resolver DigestResolver
	metrics  *metrics
	notices  *notices
	random   func() float64 // in [0,1), for jitter
	started  atomic.Bool
	wake     chan struct{} // holds a value when the schedule has changed

	mu          sync.Mutex
	subscribers map[Subscriber]map[string]*following // by image as written
	targets     map[Key]*target
	queue       queue
	hosts       map[string]*host
	throttled   map[throttleKey]time.Time
}

// following is one image of one subscriber.
type following struct {
	Subscription
	who    Subscriber
	key    Key
	target *target // nil for what is not polled
	// last is the Result to show while target has none, and the digest to keep
	// when it has found none.
	last Result
	// shown is what the subscriber was notified of, if it was.
	notified bool
	shown    struct {
		digest string
		reason Reason
	}
}

// NewPoller returns a Poller that polls once it is started.
func NewPoller(o PollerOptions) *Poller {
	p := &Poller{
		workers:     cmp.Or(max(o.Workers, 0), defaultWorkers),
		interval:    cmp.Or(o.Interval, DefaultInterval),
		clock:       o.Clock,
		resolver:    o.Resolver,
		metrics:     newMetrics(o.Metrics),
		notices:     newNotices(o.Notify),
		random:      rand.Float64,
		wake:        make(chan struct{}, 1),
		subscribers: map[Subscriber]map[string]*following{},
		targets:     map[Key]*target{},
		hosts:       map[string]*host{},
		throttled:   map[throttleKey]time.Time{},
	}
	if p.clock == nil {
		p.clock = clock.RealClock{}
	}
	if p.resolver == nil {
		p.resolver = NewResolver(ResolverOptions{Clock: p.clock})
	}
	return p
}

// NeedLeaderElection says that one operator polls and not each of its replicas.
func (p *Poller) NeedLeaderElection() bool { return true }

// Set replaces everything that who follows; nothing means to forget it. Setting
// the same again costs nothing. Of two subscriptions to one image, the first
// counts.
func (p *Poller) Set(who Subscriber, subscriptions []Subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.subscribers[who]
	after := make(map[string]*following, len(subscriptions))
	for _, s := range subscriptions {
		if _, twice := after[s.Image]; !twice {
			after[s.Image] = p.follow(who, s, before[s.Image])
		}
	}
	for image, f := range before {
		if after[image] != f {
			p.detach(f)
		}
	}
	if len(after) == 0 {
		delete(p.subscribers, who)
		p.notices.forget(who)
	} else {
		p.subscribers[who] = after
	}
	p.wakeUp()
}

// Result returns what is known of an image that who follows; false if nothing
// is yet. When credentials change, the Result stays until the next poll.
func (p *Poller) Result(who Subscriber, image string) (Result, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.subscribers[who][image]
	if !ok {
		return Result{}, false
	}
	return f.view()
}

// Poll asks again now for all images that who follows, whatever failed before.
// Only a registry's wish to wait is still respected.
func (p *Poller) Poll(who Subscriber) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for _, f := range p.subscribers[who] {
		if f.target != nil {
			p.force(f.target, now)
		}
	}
	p.wakeUp()
}

// follow returns what becomes of a subscription: what it was, where the same
// key is polled for it, or a new following.
func (p *Poller) follow(who Subscriber, s Subscription, before *following) *following {
	ref, err := Parse(s.Image)
	key := Key{Image: s.Image}
	polled := err == nil && ref.Digest() == ""
	options := TransportOptions{Insecure: s.Insecure, CAPEM: s.CAPEM}
	if polled {
		key = Key{Image: ref.Name(), Credentials: fingerprintSet(s.Credentials), CA: options.caFingerprint(), Insecure: s.Insecure}
	}
	s.Interval = max(cmp.Or(s.Interval, p.interval), minInterval)
	now := p.clock.Now()
	if before != nil && before.key == key {
		changed := before.Interval != s.Interval
		before.Subscription = s // Secrets may have other names now
		if changed && polled {
			p.reschedule(before.target, now)
		}
		return before
	}
	f := &following{Subscription: s, who: who, key: key, last: Result{Digest: s.Known}}
	if before != nil {
		f.last, _ = before.view()
		f.notified, f.shown = before.notified, before.shown
	}
	switch {
	case polled:
		p.attach(f, ref, options, now)
	case err != nil:
		f.last = Result{Reason: InvalidReference, Err: invalidReference(s.Image, err), Checked: now}
		p.publish(f)
	default:
		f.last = Result{Reason: Resolved, Digest: ref.Digest(), Checked: now, Confirmed: now}
		p.publish(f)
	}
	return f
}

// view returns the Result as the subscriber sees it, with its own words and
// Secrets; false if there is none yet.
func (f *following) view() (Result, bool) {
	if f.target == nil || !f.target.polled {
		return f.last, f.last.Reason != ""
	}
	r := f.target.result
	if r.Digest == "" {
		r.Digest, r.Confirmed, r.Changed = f.last.Digest, f.last.Confirmed, f.last.Changed
	}
	r.Credential = ""
	for _, c := range f.Credentials {
		if c.Fingerprint() == f.target.accepted {
			r.Credential = c.Secret
			break
		}
	}
	var known *Error
	if errors.As(r.Err, &known) {
		r.Err = known.seenBy(f.Image, f.Credentials)
	}
	return r, true
}

// publish notifies the subscriber if what it sees has changed.
func (p *Poller) publish(f *following) {
	seen, ok := f.view()
	if !ok || f.notified && f.shown.digest == seen.Digest && f.shown.reason == seen.Reason {
		return
	}
	f.notified = true
	f.shown.digest, f.shown.reason = seen.Digest, seen.Reason
	p.notices.add(f.who)
}

func (p *Poller) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}
