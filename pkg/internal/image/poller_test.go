package image

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"
)

// scripted is a DigestResolver that answers what the test says and remembers
// when it was asked.
type scripted struct {
	now func() time.Time

	mu     sync.Mutex
	asked  map[string][]time.Time // by image
	answer func(context.Context, Ref, []Credential) (Resolution, error)
}

func (s *scripted) Digest(ctx context.Context, ref Ref, c []Credential, _ TransportOptions) (Resolution, error) {
	s.mu.Lock()
	s.asked[ref.String()] = append(s.asked[ref.String()], s.now())
	answer := s.answer
	s.mu.Unlock()
	return answer(ctx, ref, c)
}

// bench is a poller on a bench: with a clock that stands still until it is
// wound, and a resolver that says what it is told. It lives in a synctest
// bubble, whose Wait tells when the poller has done all there is to do.
type bench struct {
	*Poller
	t        *testing.T
	clock    *clocktesting.FakeClock
	begin    time.Time
	resolver *scripted
	registry *prometheus.Registry
	stop     context.CancelFunc

	mu       sync.Mutex
	notified map[Subscriber]int
}

func onBench(t *testing.T, o PollerOptions, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, notified: map[Subscriber]int{}, registry: prometheus.NewRegistry()}
		b.begin = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		b.clock = clocktesting.NewFakeClock(b.begin)
		b.resolver = &scripted{now: b.clock.Now, asked: map[string][]time.Time{}}
		b.says(digestA, nil)
		o.Clock, o.Resolver, o.Metrics = b.clock, b.resolver, b.registry
		if o.Notify == nil {
			o.Notify = b.note
		}
		b.Poller = NewPoller(o)
		b.random = func() float64 { return .5 } // no jitter; first polls after 1/20 of the interval
		var ctx context.Context
		ctx, b.stop = context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Start(ctx) }()
		synctest.Wait()
		test(b)
		b.stop()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
}

func (b *bench) note(who Subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notified[who]++
}

// notices returns who was notified how often since the last call.
func (b *bench) takeNotices() map[Subscriber]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.notified
	b.notified = map[Subscriber]int{}
	return taken
}

// says makes every poll end so.
func (b *bench) says(digest string, err error) {
	b.answers(func(_ context.Context, _ Ref, c []Credential) (Resolution, error) {
		if err != nil {
			return Resolution{Remaining: -1}, err
		}
		return Resolution{Digest: digest, Credential: append(c, Anonymous())[0], Remaining: -1}, nil
	})
}

func (b *bench) answers(answer func(context.Context, Ref, []Credential) (Resolution, error)) {
	b.resolver.mu.Lock()
	defer b.resolver.mu.Unlock()
	b.resolver.answer = answer
}

// set subscribes and lets the poller do what is due.
func (b *bench) set(who Subscriber, subscriptions ...Subscription) {
	b.Set(who, subscriptions)
	synctest.Wait()
}

// run winds the clock on, a second at a time.
func (b *bench) run(d time.Duration) {
	for end := b.clock.Now().Add(d); b.clock.Now().Before(end); {
		b.clock.Step(min(time.Second, end.Sub(b.clock.Now())))
		synctest.Wait()
	}
}

// polls returns when an image was asked for, as time since the begin.
func (b *bench) polls(image string) []time.Duration {
	b.resolver.mu.Lock()
	defer b.resolver.mu.Unlock()
	var all []time.Duration
	for _, at := range b.resolver.asked[image] {
		all = append(all, at.Sub(b.begin))
	}
	return all
}

func (b *bench) wantPolls(image string, want ...time.Duration) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.polls(image)); diff != "" {
		b.t.Errorf("polls of %s: -want +got:\n%s", image, diff)
	}
}

func (b *bench) wantResult(who Subscriber, image string, digest string, reason Reason) Result {
	b.t.Helper()
	got, ok := b.Result(who, image)
	if !ok {
		b.t.Fatalf("no result of %s", image)
	}
	if got.Digest != digest || got.Reason != reason || (got.Err == nil) != (reason == Resolved) {
		b.t.Errorf("%s: digest %q, reason %s, error %v; want %q, %s", image, got.Digest, got.Reason, got.Err, digest, reason)
	}
	return got
}

func subscriber(i int) Subscriber {
	return Subscriber{Kind: "LibertyApp", Namespace: fmt.Sprintf("ns%d", i), Name: "app"}
}

var (
	one = subscriber(1)
	two = subscriber(2)
)

func follow(image string) Subscription {
	return Subscription{Image: image, Credentials: []Credential{Anonymous()}, Interval: 5 * time.Minute}
}

func fault(reason Reason) *Error {
	return &Error{Reason: reason, Image: "r.io/app:1", Host: "r.io", Tried: []Credential{Anonymous()}, detail: "as the test wants"}
}

const app = "r.io/app:1"

func TestPollsAtOnceAndThenEachInterval(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		if _, ok := b.Result(one, app); ok {
			t.Error("a result before anything was asked")
		}
		b.set(one, follow(app))
		got := b.wantResult(one, app, digestA, Resolved)
		if want := (Result{Digest: digestA, Reason: Resolved, Checked: b.begin, Confirmed: b.begin, Changed: b.begin}); got != want {
			t.Errorf("result %+v", got)
		}
		b.run(16 * time.Minute)
		b.wantPolls(app, 0, 5*time.Minute, 10*time.Minute, 15*time.Minute)
		if diff := cmp.Diff(map[Subscriber]int{one: 1}, b.takeNotices()); diff != "" {
			t.Errorf("notices: -want +got:\n%s", diff)
		}
	})
}

func TestDefaultAndLeastInterval(t *testing.T) {
	onBench(t, PollerOptions{Interval: time.Minute}, func(b *bench) {
		b.set(one, Subscription{Image: app})
		b.set(two, Subscription{Image: "r.io/hasty:1", Interval: time.Nanosecond})
		b.run(time.Minute)
		b.wantPolls(app, 0, time.Minute)
		if got := len(b.polls("r.io/hasty:1")); got != 61 {
			t.Errorf("%d polls in a minute", got)
		}
	})
}

func TestKnownImagesAreSpreadAfterARestart(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		known := follow(app)
		known.Known = digestA
		b.set(one, known)
		if got, ok := b.Result(one, app); ok {
			t.Errorf("a result before the first poll: %+v", got)
		}
		b.run(20 * time.Second)
		b.wantPolls(app, 15*time.Second) // half of a tenth of the interval
		if got := b.wantResult(one, app, digestA, Resolved); !got.Changed.IsZero() {
			t.Errorf("changed at %s", got.Changed)
		}
		b.says(digestB, nil)
		b.run(5 * time.Minute)
		if got := b.wantResult(one, app, digestB, Resolved); got.Changed.Sub(b.begin) != 5*time.Minute+15*time.Second {
			t.Errorf("changed at %s", got.Changed)
		}
	})
}

func TestPushMissedWhileDownIsAChange(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		known := follow(app)
		known.Known = digestB
		b.set(one, known)
		b.run(15 * time.Second)
		if got := b.wantResult(one, app, digestA, Resolved); got.Changed.IsZero() {
			t.Error("not seen to change")
		}
	})
}

func TestNewFollowerOfAWaitingImageIsNotKeptWaiting(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		known := follow(app)
		known.Known = digestA
		b.set(one, known)
		b.set(two, follow(app))
		b.wantPolls(app, 0)
	})
}

func TestNewFollowersOfAnImageBeingPolledShareTheAnswer(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		release := make(chan struct{})
		b.answers(func(context.Context, Ref, []Credential) (Resolution, error) {
			<-release
			return Resolution{Digest: digestA, Remaining: -1}, nil
		})
		b.set(one, follow(app))
		b.set(two, follow(app))
		close(release)
		synctest.Wait()
		b.wantPolls(app, 0)
		b.wantResult(two, app, digestA, Resolved)
		if diff := cmp.Diff(map[Subscriber]int{one: 1, two: 1}, b.takeNotices()); diff != "" {
			t.Errorf("notices: -want +got:\n%s", diff)
		}
	})
}

func TestJitterIsATenth(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		var turn float64
		b.random = func() float64 { turn += .37; return turn - float64(int(turn)) }
		b.set(one, follow(app))
		b.run(2 * time.Hour)
		polls := b.polls(app)
		var distinct []time.Duration
		for i := 1; i < len(polls); i++ {
			gap := polls[i] - polls[i-1]
			if gap < 270*time.Second || gap > 331*time.Second { // the clock is wound by seconds
				t.Errorf("gap of %s", gap)
			}
			if !slices.Contains(distinct, gap) {
				distinct = append(distinct, gap)
			}
		}
		if len(polls) < 20 || len(distinct) < 10 {
			t.Errorf("%d polls with %d distinct gaps", len(polls), len(distinct))
		}
	})
}

func TestManySubscribersOfOneImage(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		once := map[Subscriber]int{}
		for i := range 200 {
			b.Set(subscriber(i), []Subscription{follow(app)})
			once[subscriber(i)] = 1
		}
		synctest.Wait()
		b.wantPolls(app, 0)
		if diff := cmp.Diff(once, b.takeNotices()); diff != "" {
			t.Errorf("first result: -want +got:\n%s", diff)
		}
		b.run(5 * time.Minute)
		b.wantPolls(app, 0, 5*time.Minute)
		if got := b.takeNotices(); len(got) > 0 {
			t.Errorf("notices of nothing new: %v", got)
		}
		b.says(digestB, nil)
		b.run(5 * time.Minute)
		if diff := cmp.Diff(once, b.takeNotices()); diff != "" {
			t.Errorf("new digest: -want +got:\n%s", diff)
		}
	})
}

func TestShortestIntervalCounts(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		slow, quick := follow(app), follow(app)
		slow.Interval, quick.Interval = 10*time.Minute, 2*time.Minute
		b.set(one, slow)
		b.run(time.Minute)
		b.set(two, quick) // at 1m: the next poll is brought forward
		b.run(3 * time.Minute)
		b.wantPolls(app, 0, 2*time.Minute, 4*time.Minute)
		b.set(two) // the poll at 6m was planned already
		b.run(20 * time.Minute)
		b.wantPolls(app, 0, 2*time.Minute, 4*time.Minute, 6*time.Minute, 16*time.Minute)
		slow.Interval = time.Minute
		b.set(one, slow) // long overdue
		b.wantPolls(app, 0, 2*time.Minute, 4*time.Minute, 6*time.Minute, 16*time.Minute, 24*time.Minute)
	})
}

func TestSpellingsOfOneImageAreOne(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.set(one, follow("nginx"), follow("docker.io/library/nginx:latest"))
		b.wantPolls("nginx", 0)
		b.wantPolls("docker.io/library/nginx:latest")
		b.wantResult(one, "nginx", digestA, Resolved)
		b.wantResult(one, "docker.io/library/nginx:latest", digestA, Resolved)
	})
}

func TestOtherTransportsAndCredentialsAreOthers(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		insecure, ca, creds := follow(app), follow(app), follow(app)
		insecure.Insecure = true
		ca.CAPEM = []byte("ca")
		creds.Credentials = []Credential{login("pull", "x"), Anonymous()}
		for i, s := range []Subscription{follow(app), insecure, ca, creds} {
			b.set(subscriber(i), s)
		}
		b.wantPolls(app, 0, 0, 0, 0)
	})
}

func TestErrorsBackOff(t *testing.T) {
	minutes := func(m ...float64) []time.Duration {
		var all []time.Duration
		for _, x := range m {
			all = append(all, time.Duration(x*float64(time.Minute)))
		}
		return all
	}
	for name, tt := range map[string]struct {
		reason   Reason
		interval time.Duration
		want     []time.Duration // delays between polls, without jitter
	}{
		"unreachable":          {Unreachable, 5 * time.Minute, minutes(.5, 1, 2, 4, 8, 15, 15)},
		"not found":            {TagNotFound, 5 * time.Minute, minutes(.5, 1, 2, 4, 8, 15, 15)},
		"a short interval":     {Unreachable, 10 * time.Second, minutes(1./6, 2./6, 4./6, 8./6, 16./6, 32./6, 64./6, 15)},
		"a long interval":      {Unreachable, time.Hour, minutes(.5, 1, 2, 4, 8, 16, 32, 60, 60)},
		"refused":              {AuthenticationFailed, 5 * time.Minute, minutes(15, 15)},
		"refused, long":        {AuthenticationFailed, time.Hour, minutes(60, 60)},
		"throttled, no wishes": {Throttled, 5 * time.Minute, minutes(.5, 1, 2, 4, 8, 15, 15)},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, PollerOptions{}, func(b *bench) {
				b.random = func() float64 { return 0 }
				b.says("", fault(tt.reason))
				s := follow(app)
				s.Interval = tt.interval
				b.set(one, s)
				want := []time.Duration{0}
				for _, delay := range tt.want {
					want = append(want, want[len(want)-1]+delay)
				}
				b.run(want[len(want)-1])
				b.wantPolls(app, want...)
				if diff := cmp.Diff(map[Subscriber]int{one: 1}, b.takeNotices()); diff != "" {
					t.Errorf("notices: -want +got:\n%s", diff)
				}
			})
		})
	}
}

func TestFailuresKeepTheDigestAndEndWithSuccess(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.set(one, follow(app))
		b.takeNotices()
		b.says("", fault(Unreachable))
		b.run(5*time.Minute + 35*time.Second) // fails twice: at 5m and about 5m30s
		got := b.wantResult(one, app, digestA, Unreachable)
		if got.Checked.Sub(b.begin) <= 5*time.Minute || !got.Confirmed.Equal(b.begin) {
			t.Errorf("checked %s, confirmed %s", got.Checked, got.Confirmed)
		}
		if diff := cmp.Diff(map[Subscriber]int{one: 1}, b.takeNotices()); diff != "" {
			t.Errorf("first failure: -want +got:\n%s", diff)
		}
		b.says("", fault(TagNotFound))
		b.run(2 * time.Minute)
		b.wantResult(one, app, digestA, TagNotFound)
		b.says(digestA, nil)
		b.run(3 * time.Minute)
		b.wantResult(one, app, digestA, Resolved)
		if diff := cmp.Diff(map[Subscriber]int{one: 2}, b.takeNotices()); diff != "" {
			t.Errorf("another failure, then none: -want +got:\n%s", diff)
		}
		polls := len(b.polls(app))
		b.run(5 * time.Minute)
		if got := len(b.polls(app)) - polls; got != 1 {
			t.Errorf("%d polls in the interval after recovery", got)
		}
	})
}

func TestNewCredentialsArePolledAtOnce(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.set(one, follow(app))
		b.says("", fault(AuthenticationFailed))
		b.run(6 * time.Minute)
		b.wantPolls(app, 0, 5*time.Minute)
		var inFlight Result
		b.answers(func(_ context.Context, _ Ref, c []Credential) (Resolution, error) {
			inFlight, _ = b.Result(one, app)
			return Resolution{Digest: digestB, Credential: c[0], Remaining: -1}, nil
		})
		b.takeNotices()
		renewed := follow(app)
		renewed.Credentials = []Credential{login("pull", "new"), Anonymous()}
		b.set(one, renewed)
		b.wantPolls(app, 0, 5*time.Minute, 6*time.Minute)
		if inFlight.Digest != digestA || inFlight.Reason != AuthenticationFailed {
			t.Errorf("until the answer, the result is %+v", inFlight)
		}
		if got := b.wantResult(one, app, digestB, Resolved); got.Credential != "pull" {
			t.Errorf("credential %q", got.Credential)
		}
		if diff := cmp.Diff(map[Subscriber]int{one: 1}, b.takeNotices()); diff != "" {
			t.Errorf("notices: -want +got:\n%s", diff)
		}
		if len(b.targets) != 1 {
			t.Errorf("%d targets are kept", len(b.targets))
		}
		renewed.Credentials[0].Secret = "pull-2" // the same content under another name
		b.set(one, renewed)
		if got := b.wantResult(one, app, digestB, Resolved); got.Credential != "pull-2" {
			t.Errorf("credential %q", got.Credential)
		}
		b.wantPolls(app, 0, 5*time.Minute, 6*time.Minute)
	})
}

func throttledFor(d time.Duration, quota bool) *Error {
	e := fault(Throttled)
	e.cause = &ThrottledError{Host: "r.io", RetryAfter: d, Quota: quota}
	return e
}

func TestThrottledHostIsLeftAlone(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.set(one, follow(app), follow("r.io/other:1"), follow("q.io/app:1"))
		b.answers(func(_ context.Context, ref Ref, c []Credential) (Resolution, error) {
			if ref.Host() == "r.io" {
				return Resolution{Remaining: 0}, throttledFor(time.Hour, false)
			}
			return Resolution{Digest: digestA, Credential: c[0], Remaining: -1}, nil
		})
		b.run(5 * time.Minute)
		polls := len(b.polls(app)) + len(b.polls("r.io/other:1"))
		if polls > 4 { // both may have been under way at the same time
			t.Errorf("%d polls", polls)
		}
		// A newcomer is told at once, without a request.
		b.set(two, follow("r.io/new:1"))
		b.wantPolls("r.io/new:1")
		got := b.wantResult(two, "r.io/new:1", "", Throttled)
		contains(t, got.Err.Error(), "image r.io/new:1: registry r.io limits the rate of requests and asks to wait 1h0m0s")
		b.Poll(one) // even so
		synctest.Wait()
		b.run(50 * time.Minute)
		if got := len(b.polls(app)) + len(b.polls("r.io/other:1")); got != polls {
			t.Errorf("%d more polls", got-polls)
		}
		if got := len(b.polls("q.io/app:1")); got != 13 { // one each interval and the forced one
			t.Errorf("%d polls of another host", got)
		}
		b.says(digestA, nil)
		b.run(20 * time.Minute)
		b.wantResult(two, "r.io/new:1", digestA, Resolved)
		b.wantResult(one, app, digestA, Resolved)
	})
}

func TestUsedUpQuotaHoldsOnlyItsAccount(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.answers(func(_ context.Context, _ Ref, c []Credential) (Resolution, error) {
			if c[0].Secret == "" {
				return Resolution{Remaining: 0}, throttledFor(6*time.Hour, true)
			}
			return Resolution{Digest: digestA, Credential: c[0], Remaining: -1}, nil
		})
		b.set(one, follow(app))
		b.wantResult(one, app, "", Throttled)
		paid := follow(app)
		paid.Credentials = []Credential{login("paid", "x"), Anonymous()}
		b.set(two, paid)
		b.wantResult(two, app, digestA, Resolved)
	})
}

func TestRetryAfterShorterThanTheBackoff(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.random = func() float64 { return 0 }
		b.says("", throttledFor(time.Second, false))
		b.set(one, follow(app))
		b.run(4 * time.Minute)
		b.wantPolls(app, 0, 30*time.Second, 90*time.Second, 210*time.Second)
	})
}

func TestForcedPoll(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.says("", fault(AuthenticationFailed))
		b.set(one, follow(app))
		b.run(time.Minute)
		b.says(digestA, nil)
		b.Poll(one)
		b.Poll(two) // follows nothing
		synctest.Wait()
		b.wantPolls(app, 0, time.Minute)
		b.wantResult(one, app, digestA, Resolved)
	})
}

func TestForcedWhilePolling(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		release := make(chan struct{})
		b.answers(func(context.Context, Ref, []Credential) (Resolution, error) {
			<-release
			return Resolution{Digest: digestA, Remaining: -1}, nil
		})
		b.set(one, follow(app))
		b.says(digestB, nil) // pushed after the first request was answered
		b.Poll(one)
		b.Poll(one)
		close(release)
		synctest.Wait()
		b.wantPolls(app, 0, 0)
		b.wantResult(one, app, digestB, Resolved)
	})
}

func TestImagesThatAreNotPolled(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		pinned, wrong := app+"@"+digestB, "r.io/App:1"
		b.set(one, follow(pinned), follow(wrong))
		b.wantResult(one, pinned, digestB, Resolved)
		got := b.wantResult(one, wrong, "", InvalidReference)
		contains(t, got.Err.Error(), `image "r.io/App:1": image reference "r.io/App:1"`)
		b.set(one, follow(pinned), follow(wrong))
		b.Poll(one)
		b.run(time.Hour)
		if len(b.resolver.asked) > 0 {
			t.Errorf("asked for %v", b.resolver.asked)
		}
		if diff := cmp.Diff(map[Subscriber]int{one: 1}, b.takeNotices()); diff != "" {
			t.Errorf("notices: -want +got:\n%s", diff)
		}
	})
}

func TestResultsSpeakOfTheSubscribersOwnSecrets(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		mine, theirs := follow("docker.io/team/app"), follow("team/app:latest")
		mine.Credentials = []Credential{login("mine", "x"), Anonymous()}
		theirs.Credentials = []Credential{login("theirs", "x"), Anonymous()}
		b.set(one, mine)
		b.set(two, theirs)
		got, _ := b.Result(two, theirs.Image)
		if got.Credential != "theirs" {
			t.Errorf("credential %q", got.Credential)
		}
		b.answers(func(_ context.Context, ref Ref, c []Credential) (Resolution, error) {
			return Resolution{Remaining: -1}, &Error{Reason: AuthenticationFailed, Image: ref.String(), Host: ref.Host(), Tried: c, detail: "403"}
		})
		b.run(5 * time.Minute)
		got = b.wantResult(two, theirs.Image, digestA, AuthenticationFailed)
		contains(t, got.Err.Error(), "image team/app:latest: ", "tried in this order: secret theirs, anonymous")
		got = b.wantResult(one, mine.Image, digestA, AuthenticationFailed)
		contains(t, got.Err.Error(), "image docker.io/team/app: ", "tried in this order: secret mine, anonymous")
	})
}

func TestNothingIsKeptOfWhoLeft(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		for i := range 50 {
			b.Set(subscriber(i), []Subscription{follow(fmt.Sprintf("r%d.io/app:1", i%10))})
		}
		synctest.Wait()
		release := make(chan struct{})
		b.answers(func(context.Context, Ref, []Credential) (Resolution, error) {
			<-release
			return Resolution{Digest: digestB, Remaining: 7}, nil
		})
		b.clock.Step(6 * time.Minute) // some are being polled, others wait for a worker
		synctest.Wait()
		for i := range 50 {
			b.Set(subscriber(i), nil)
		}
		close(release)
		synctest.Wait()
		b.mu.Lock()
		b.notified = map[Subscriber]int{}
		b.mu.Unlock()
		before := len(b.resolver.asked["r1.io/app:1"])
		b.run(10 * time.Minute)
		if after := len(b.resolver.asked["r1.io/app:1"]); after != before {
			t.Errorf("%d more polls", after-before)
		}
		b.Poller.mu.Lock()
		defer b.Poller.mu.Unlock()
		if len(b.subscribers)+len(b.targets)+len(b.queue)+len(b.hosts)+len(b.Poller.notices.pending) > 0 {
			t.Errorf("kept: %d subscribers, %d targets, %d queued, %d hosts, %d notices",
				len(b.subscribers), len(b.targets), len(b.queue), len(b.hosts), len(b.Poller.notices.pending))
		}
		if got := b.series("registry_polls_total"); len(got) > 0 {
			t.Errorf("series are kept: %v", got)
		}
		if got := b.takeNotices(); len(got) > 0 {
			t.Errorf("notices %v", got)
		}
	})
}

func TestWorkersAreBoundedAndOneHostCannotTakeAll(t *testing.T) {
	onBench(t, PollerOptions{Workers: 4}, func(b *bench) {
		var mu sync.Mutex
		busy := map[string]int{}
		total := func() (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, x := range busy {
				n += x
			}
			return n
		}
		release := map[string]chan struct{}{"tar.pit": make(chan struct{}), "q.io": make(chan struct{})}
		b.answers(func(_ context.Context, ref Ref, _ []Credential) (Resolution, error) {
			mu.Lock()
			busy[ref.Host()]++
			mu.Unlock()
			<-release[ref.Host()]
			mu.Lock()
			busy[ref.Host()]--
			mu.Unlock()
			return Resolution{Digest: digestA, Remaining: -1}, nil
		})
		var slow, quick []Subscription
		for i := range 10 {
			slow = append(slow, follow(fmt.Sprintf("tar.pit/app:%d", i)))
			quick = append(quick, follow(fmt.Sprintf("q.io/app:%d", i)))
		}
		b.set(one, slow...)
		if got := total(); got != 2 {
			t.Errorf("%d workers are with the slow host", got)
		}
		b.set(two, quick...)
		if got := total(); got != 4 {
			t.Errorf("%d workers are busy", got)
		}
		close(release["q.io"])
		synctest.Wait()
		for _, s := range quick {
			b.wantResult(two, s.Image, digestA, Resolved)
		}
		close(release["tar.pit"])
		synctest.Wait()
		for _, s := range slow {
			b.wantResult(one, s.Image, digestA, Resolved)
		}
	})
}

func TestImageDroppedWhileItWaitsForItsHostIsNotPolled(t *testing.T) {
	onBench(t, PollerOptions{Workers: 2}, func(b *bench) {
		release := make(chan struct{})
		b.answers(func(context.Context, Ref, []Credential) (Resolution, error) {
			<-release
			return Resolution{Digest: digestA, Remaining: -1}, nil
		})
		b.set(one, follow(app))
		b.set(two, follow("r.io/other:1"))
		b.set(two)
		close(release)
		synctest.Wait()
		b.wantPolls(app, 0)
		b.wantPolls("r.io/other:1")
	})
}

func TestSlowReceiverHoldsNoPollUp(t *testing.T) {
	var release chan struct{}
	var calls []Subscriber
	onBench(t, PollerOptions{Notify: func(who Subscriber) {
		calls = append(calls, who)
		if len(calls) == 1 {
			<-release
		}
	}}, func(b *bench) {
		// A channel of the bubble, so that waiting for it counts as idle.
		release = make(chan struct{})
		b.set(one, follow(app))
		b.set(two, follow("r.io/other:1"))
		for _, digest := range []string{digestB, digestA, digestB} {
			b.says(digest, nil)
			b.run(5 * time.Minute)
		}
		b.wantResult(two, "r.io/other:1", digestB, Resolved)
		close(release)
		synctest.Wait()
		// However often both changed meanwhile, each is told once more.
		if len(calls) != 3 || !slices.Contains(calls[1:], one) || !slices.Contains(calls[1:], two) {
			t.Errorf("notices %v", calls)
		}
	})
}

func TestStopEndsPollsAndPublishesNothing(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.answers(func(ctx context.Context, _ Ref, _ []Credential) (Resolution, error) {
			<-ctx.Done()
			return Resolution{Remaining: -1}, ctx.Err()
		})
		b.set(one, follow(app))
		b.stop()
		synctest.Wait()
		if got, ok := b.Result(one, app); ok {
			t.Errorf("result %+v of a poll that was stopped", got)
		}
	})
}

func TestPollThatNeverEndsIsEnded(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.answers(func(ctx context.Context, _ Ref, _ []Credential) (Resolution, error) {
			<-ctx.Done()
			return Resolution{Remaining: -1}, fmt.Errorf("asking: %w", ctx.Err())
		})
		b.set(one, follow(app))
		<-time.After(pollTimeout) // of the bubble: contexts know no other clock
		synctest.Wait()
		b.wantResult(one, app, "", Unreachable)
	})
}

func TestStartOnlyOnce(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		if err := b.Start(t.Context()); err == nil {
			t.Error("started twice")
		}
		if !b.NeedLeaderElection() {
			t.Error("every replica would poll")
		}
	})
}

// series returns the values of a metric by its labels.
func (b *bench) series(name string) map[string]float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			found[strings.Join(labels, ",")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return found
}

func TestMetrics(t *testing.T) {
	onBench(t, PollerOptions{}, func(b *bench) {
		b.answers(func(_ context.Context, _ Ref, c []Credential) (Resolution, error) {
			return Resolution{Digest: digestA, Credential: c[0], Remaining: 76}, nil
		})
		b.set(one, follow(app))
		b.run(10 * time.Minute)
		for _, reason := range []Reason{TagNotFound, AuthenticationFailed, Throttled, Unreachable} {
			b.says("", fault(reason))
			b.Poll(one)
			synctest.Wait()
			b.run(time.Minute)
		}
		want := map[string]float64{}
		for result, n := range map[string]float64{"changed": 1, "unchanged": 2, "notfound": 2, "denied": 1, "throttled": 1, "error": 1} {
			want["host=r.io,result="+result] = n
		}
		got := b.series("registry_polls_total")
		if got["host=r.io,result=error"] > 1 { // backs off, but may come twice a minute
			got["host=r.io,result=error"] = 1
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("registry_polls_total: -want +got:\n%s", diff)
		}
		if diff := cmp.Diff(map[string]float64{"host=r.io": 76}, b.series("registry_ratelimit_remaining")); diff != "" {
			t.Errorf("registry_ratelimit_remaining: -want +got:\n%s", diff)
		}
		if got := slices.Collect(maps.Values(b.series("registry_poll_seconds"))); len(got) != 1 || got[0] < 8 {
			t.Errorf("registry_poll_seconds %v", got)
		}
		NewPoller(PollerOptions{Metrics: b.registry}) // a second one shares them
	})
}

// TestManySubscribersAreOneRequest is the budget over the wire: one HEAD for
// each interval, however many follow the image.
func TestManySubscribersAreOneRequest(t *testing.T) {
	f := newRegistry(t)
	first := f.pushRandom("app:1")
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	told := make(chan Subscriber, 1000)
	p := NewPoller(PollerOptions{Clock: clock, Notify: func(who Subscriber) { told <- who }})
	image := f.host + "/app:1"
	for i := range 200 {
		p.Set(subscriber(i), []Subscription{{Image: image, Insecure: true}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Start(ctx) }()
	await := func(want string, requests ...string) {
		t.Helper()
		for range 200 {
			if got, ok := p.Result(<-told, image); !ok || got.Digest != want {
				t.Fatalf("result %+v", got)
			}
		}
		if diff := cmp.Diff(requests, f.taken()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	await(first, "GET /v2/", "HEAD /v2/app/manifests/1")
	for range 3 {
		second := f.pushRandom("app:1")
		clock.Step(5*time.Minute + 30*time.Second + time.Second)
		await(second, "HEAD /v2/app/manifests/1")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(told) > 0 {
		t.Errorf("%d notices too many", len(told))
	}
}

var errOpaque = errors.New("opaque")

func TestErrorsWithoutAReasonAreUnreachable(t *testing.T) {
	if ReasonOf(errOpaque) != Unreachable || ReasonOf(nil) != Resolved || ReasonOf(fmt.Errorf("x: %w", fault(TagNotFound))) != TagNotFound {
		t.Error("wrong reasons")
	}
}
