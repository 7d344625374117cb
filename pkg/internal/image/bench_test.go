package image

import (
	"context"
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// BenchmarkLookup finds the credentials of one image among 20 secrets with 5
// registries each, some of them globs.
func BenchmarkLookup(b *testing.B) {
	var secrets []string
	for i := range 20 {
		secrets = append(secrets, fmt.Sprintf("r%d.io r%d.io:5000/team *.r%d.io q.io/team-%d q.io", i, i, i, i))
	}
	ring := keyring(b, secrets...)
	ref := mustParse(b, "q.io/team-7/app:1.0")
	if got := len(ring.Lookup(ref)); got != 22 {
		b.Fatalf("%d credentials", got)
	}
	b.ReportAllocs()
	for b.Loop() {
		ring.Lookup(ref)
	}
}

type constant struct{}

func (constant) Digest(context.Context, Ref, []Credential, TransportOptions) (Resolution, error) {
	return Resolution{Digest: digestA, Remaining: -1}, nil
}

// crowd is a poller, not started, with 1000 subscribers over 50 images.
func crowd() (*Poller, []Subscription) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	p := NewPoller(PollerOptions{Clock: clock, Resolver: constant{}})
	images := make([]Subscription, 50)
	for i := range images {
		images[i] = follow(fmt.Sprintf("r%d.io/app:1", i%7))
		images[i].Image += fmt.Sprint(i)
	}
	for i := range 1000 {
		p.Set(subscriber(i), images[i%50:i%50+1])
	}
	return p, images
}

// BenchmarkSetUnchanged is what a reconcile that changes nothing pays.
func BenchmarkSetUnchanged(b *testing.B) {
	p, images := crowd()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p.Set(subscriber(i%1000), images[i%1000%50:i%1000%50+1])
		i++
	}
}

// BenchmarkJoinAndLeave is a resource that appears and disappears.
func BenchmarkJoinAndLeave(b *testing.B) {
	p, images := crowd()
	newcomer := Subscriber{Kind: "LibertyApp", Namespace: "new", Name: "app"}
	b.ReportAllocs()
	for b.Loop() {
		p.Set(newcomer, images[:1])
		p.Set(newcomer, nil)
	}
}

// BenchmarkRound is one interval of the schedule: 50 polls, each shared by 20
// subscribers, without the registry.
func BenchmarkRound(b *testing.B) {
	p, _ := crowd()
	clock := p.clock.(*clocktesting.FakeClock)
	b.ReportAllocs()
	for b.Loop() {
		polls := 0
		for t, _ := p.take(); t != nil; t, _ = p.take() {
			p.poll(b.Context(), t)
			polls++
		}
		if polls != 50 {
			b.Fatalf("%d polls", polls)
		}
		clock.Step(6 * time.Minute)
	}
}

// BenchmarkResult is what a reconcile pays to read a digest.
func BenchmarkResult(b *testing.B) {
	p, images := crowd()
	for t, _ := p.take(); t != nil; t, _ = p.take() {
		p.poll(b.Context(), t)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := p.Result(subscriber(3), images[3].Image); !ok {
			b.Fatal("no result")
		}
	}
}
