package libertyapp

import (
	"cmp"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// fakeRegistry speaks as much of the registry's protocol as a poll needs, and
// answers what the test says.
type fakeRegistry struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	digest string
	silent chan struct{} // until it is closed, nothing is answered
}

func newRegistry(t *testing.T) *fakeRegistry {
	t.Helper()
	r := &fakeRegistry{status: http.StatusOK, digest: one}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		status, digest, silent := r.status, r.digest, r.silent
		r.mu.Unlock()
		if silent != nil {
			select {
			case <-silent:
			case <-req.Context().Done():
			}
		}
		if !strings.Contains(req.URL.Path, "/manifests/") {
			return // the version check: no password wanted
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		w.Header().Set("Content-Length", "2")
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *fakeRegistry) says(status int, digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.digest = status, digest
}

// silence keeps the registry from answering until the channel is closed.
func (r *fakeRegistry) silence() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = make(chan struct{})
	return r.silent
}

func (r *fakeRegistry) repository() string { return strings.TrimPrefix(r.URL, "http://") + "/team/app" }

// bench runs passes of one resource, as the reconciler and the release manager
// do, against a registry and a poller, with a clock that stands.
type bench struct {
	*testing.T
	images   *images
	registry *fakeRegistry
	clock    *clocktesting.FakePassiveClock
	notified chan struct{}
	status   *releasev1alpha1.Status
	operator *releasev1alpha1.OperatorSpec
	annotate map[string]string
	tag      string
	sidecar  string // image of the init container; empty for the application's
	events   []release.Event
	// record is the digest of the transforms of the revision in place.
	record string
	// manifest is what is in place.
	manifest *unstructured.Unstructured
}

func newBench(t *testing.T) *bench {
	t.Helper()
	loaded, err := chart.Load("../../../helm-charts/ibm-websphere-liberty")
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	b := &bench{
		T: t, registry: newRegistry(t), notified: make(chan struct{}, 100), status: &releasev1alpha1.Status{}, tag: "1.0",
		clock:    clocktesting.NewFakePassiveClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
		operator: &releasev1alpha1.OperatorSpec{Images: &releasev1alpha1.ImagesSpec{Insecure: &yes}},
	}
	b.images = &images{chart: loaded, clock: b.clock}
	b.restart()
	return b
}

// restart gives the resource a new process: nothing but the status is left.
func (b *bench) restart() {
	b.images.poller = image.NewPoller(image.PollerOptions{Notify: func(image.Subscriber) { b.notified <- struct{}{} }})
	b.images.memory = memory[follower]{}
	stopped := make(chan error, 1)
	go func(p *image.Poller) { stopped <- p.Start(b.Context()) }(b.images.poller)
	b.Cleanup(func() {
		if err := <-stopped; err != nil {
			b.Error(err)
		}
	})
}

// await waits until the poller knows this digest of the application's image, or
// says this reason.
func (b *bench) await(what string) {
	b.Helper()
	b.awaitResult(b.name(), func(r image.Result) bool { return r.Digest == what || string(r.Reason) == what })
}

// awaitResult waits until the poller's result for an image is as wanted.
func (b *bench) awaitResult(name string, wanted func(image.Result) bool) {
	b.Helper()
	for {
		if r, ok := b.images.poller.Result(subscriber(benchKey), name); ok && wanted(r) {
			return
		}
		select {
		case <-b.notified:
		case <-time.After(10 * time.Second):
			b.Fatalf("the poller did not tell of %s in time", name)
		}
	}
}

func anything(image.Result) bool { return true }

var benchKey = reconciler.Key{Kind: "LibertyApp.liberty.ibm.com", NamespacedName: types.NamespacedName{Namespace: "ns", Name: "x"}}

func (b *bench) name() string { return b.registry.repository() + ":" + b.tag }

func (b *bench) prepare() *pinned {
	b.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAnnotations(b.annotate)
	pass := &reconciler.Pass{
		Key:    benchKey,
		Object: obj, Operator: b.operator, Status: b.status,
		Values: map[string]any{"image": map[string]any{"repository": b.registry.repository(), "tag": b.tag}},
	}
	prepared, err := b.images.Prepare(b.Context(), pass)
	if err != nil {
		b.Fatal(err)
	}
	return prepared.(*pinned)
}

// pass is one look at the resource. It returns the hold, or nil, and whether
// something was rolled out.
func (b *bench) pass() (hold *release.HoldError, rolled bool) {
	b.Helper()
	p := b.prepare()
	defer func() { b.events = append(b.events, p.pass.Events...) }()
	var objects []*unstructured.Unstructured
	switch {
	case b.status.Release == nil || b.status.Release.Digests.Values != b.tag:
		objects = []*unstructured.Unstructured{workload(b.T, "apps/v1", "Deployment", cmp.Or(b.sidecar, b.name()), b.name())}
	case p.Digest() != b.record:
		objects = []*unstructured.Unstructured{b.manifest.DeepCopy()}
	default:
		return nil, false
	}
	if err := p.Resolve(b.Context(), objects); err != nil {
		if !errors.As(err, &hold) {
			b.Fatal(err)
		}
		return hold, false
	}
	if err := p.Transform(objects[0]); err != nil {
		b.Fatal(err)
	}
	b.record, b.manifest = p.Digest(), stored(objects[0])
	b.status.Release = &releasev1alpha1.Record{Digests: releasev1alpha1.Digests{Values: b.tag}}
	p.Recorded()
	return nil, true
}

// rolls fails unless the next pass rolls this digest out, and then comes to rest.
func (b *bench) rolls(digest string) {
	b.Helper()
	hold, rolled := b.pass()
	if hold != nil || !rolled {
		b.Fatalf("hold = %v, rolled = %v; want a roll-out", hold, rolled)
	}
	want := b.name()
	if digest != "" {
		want += "@" + digest
	}
	if diff := gocmp.Diff([]string{want, want}, imagesIn(b.manifest)); diff != "" {
		b.Errorf("images differ (-want +got):\n%s", diff)
	}
	b.rests()
}

// idles fails if the next pass waits for anything or rolls something out.
func (b *bench) idles() {
	b.Helper()
	if hold, rolled := b.pass(); hold != nil || rolled {
		b.Fatalf("hold = %v, rolled = %v; want nothing to do", hold, rolled)
	}
}

// rests fails if another pass does anything or changes the status.
func (b *bench) rests() {
	b.Helper()
	before, events := b.status.DeepCopy(), len(b.events)
	b.idles()
	if diff := gocmp.Diff(before, b.status); diff != "" {
		b.Errorf("a pass without news changed the status (-before +after):\n%s", diff)
	}
	if len(b.events) != events {
		b.Errorf("a pass without news told of %v", b.events[events:])
	}
}

// waits fails unless a pass waits for a registry that takes its time, and then
// for its answer.
func (b *bench) waits(name string) {
	b.Helper()
	silent := b.registry.silence()
	hold, _ := b.pass()
	close(silent)
	if hold == nil || !strings.Contains(hold.Message, name) {
		b.Fatalf("hold = %v, want one for %s", hold, name)
	}
	if hold.Reason != ReasonResolvingImages || hold.After != resolveTimeout {
		b.Errorf("hold = %+v, want one of %s for %s", hold, resolveTimeout, ReasonResolvingImages)
	}
	b.awaitResult(name, anything)
}

func (b *bench) installed(digest string) {
	b.Helper()
	b.registry.says(http.StatusOK, digest)
	b.waits(b.name())
	b.rolls(digest)
}

func (b *bench) condition() *metav1.Condition {
	return meta.FindStatusCondition(b.status.Conditions, ConditionImageResolved)
}

func (b *bench) wantCondition(status metav1.ConditionStatus, reason, message string) {
	b.Helper()
	c := b.condition()
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		b.Errorf("condition = %+v, want %s, %s, about %q", c, status, reason, message)
	}
}

func (b *bench) wantImages(want ...releasev1alpha1.ImageStatus) {
	b.Helper()
	got := (&releasev1alpha1.Status{Images: b.status.Images}).DeepCopy().Images
	for i := range got {
		if got[i].LastChanged != nil {
			got[i].LastChanged = &metav1.Time{} // when is another test
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		b.Errorf("status.images differ (-want +got):\n%s", diff)
	}
}

func TestFirstInstallWaitsForTheDigestAndPins(t *testing.T) {
	b := newBench(t)
	b.waits(b.name())
	b.wantCondition(metav1.ConditionUnknown, ReasonResolvingImages, b.name())
	b.rolls(one)
	b.wantImages(releasev1alpha1.ImageStatus{Image: b.name(), Digest: one, Pinned: one})
	b.wantCondition(metav1.ConditionTrue, "Resolved", "")
}

func TestPushRollsOut(t *testing.T) {
	b := newBench(t)
	b.installed(one)
	b.registry.says(http.StatusOK, two)
	b.annotate = map[string]string{AnnotationPollImages: "now"}
	b.rests() // the annotation asks for a poll, no more
	b.await(two)
	b.rolls(two)
	b.wantImages(releasev1alpha1.ImageStatus{Image: b.name(), Digest: two, Pinned: two, LastChanged: &metav1.Time{}})
	if len(b.events) == 0 || b.events[len(b.events)-1].Reason != ReasonImageChanged {
		t.Errorf("events = %v, want one that the image changed", b.events)
	}
}

func TestSilentRegistryInstallsUnpinnedAndNeverRestartsToPin(t *testing.T) {
	b := newBench(t)
	silent := b.registry.silence()
	for _, elapsed := range []time.Duration{0, 2 * time.Second, 4 * time.Second} {
		b.clock.SetTime(b.clock.Now().Add(elapsed - b.clock.Now().Sub(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))))
		if hold, _ := b.pass(); hold == nil || hold.After != resolveTimeout-elapsed {
			t.Fatalf("after %s: hold = %+v, want the rest of %s", elapsed, hold, resolveTimeout)
		}
	}
	b.clock.SetTime(b.clock.Now().Add(time.Second))
	b.rolls("")
	b.wantImages(releasev1alpha1.ImageStatus{Image: b.name()})
	b.wantCondition(metav1.ConditionUnknown, ReasonResolvingImages, b.name())

	close(silent)
	b.await(one)
	if hold, rolled := b.pass(); hold != nil || rolled {
		t.Fatalf("hold = %v, rolled = %v; a digest learned late must not restart pods", hold, rolled)
	}
	b.wantImages(releasev1alpha1.ImageStatus{Image: b.name(), Digest: one})
	b.wantCondition(metav1.ConditionTrue, "Resolved", "")
	b.rests()

	// Until a push brings another digest.
	b.registry.says(http.StatusOK, two)
	b.annotate = map[string]string{AnnotationPollImages: "now"}
	b.rests()
	b.await(two)
	b.rolls(two)
}

func TestNextRealChangePinsWhatWentOutUnpinned(t *testing.T) {
	b := newBench(t)
	b.registry.says(http.StatusInternalServerError, "")
	b.waits(b.name())
	b.rolls("") // the registry has answered: no point in waiting on
	b.wantCondition(metav1.ConditionFalse, "Unreachable", "500")
	b.registry.says(http.StatusOK, one)
	b.annotate = map[string]string{AnnotationPollImages: "now"}
	b.rests()
	b.await(one)
	if _, rolled := b.pass(); rolled {
		t.Fatal("a digest learned late restarted pods")
	}
	b.status.Release.Digests.Values = "changed" // as a change of the replicas would
	b.rolls(one)
}

func TestPushWhileTheOperatorWasDownIsSeen(t *testing.T) {
	b := newBench(t)
	b.installed(one)
	b.registry.says(http.StatusOK, two)
	b.restart()
	second := metav1.Duration{Duration: time.Second} // first polls are spread over a tenth of the interval
	b.operator.Images.Interval = &second
	b.rests()
	b.await(two)
	b.rolls(two)
}

func TestNewTagWaitsAsAnInstallDoes(t *testing.T) {
	b := newBench(t)
	b.installed(one)
	b.tag = "2.0"
	b.registry.says(http.StatusOK, two)
	b.waits(b.name())
	b.rolls(two)
	b.wantImages(releasev1alpha1.ImageStatus{Image: b.name(), Digest: two, Pinned: two})
}

func TestNewTagTakenBackBeforeItWentOut(t *testing.T) {
	b := newBench(t)
	b.installed(one)
	b.tag = "2.0"
	b.waits(b.name())
	b.tag = "1.0"
	b.idles()
	b.rests()
	b.wantImages(releasev1alpha1.ImageStatus{Image: b.name(), Digest: one, Pinned: one})
}

func TestRegistryFailureKeepsTheDigest(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		reason  string
		message string
	}{
		"an outage":  {http.StatusBadGateway, "Unreachable", "502"},
		"throttling": {http.StatusTooManyRequests, "Throttled", "limits the rate"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.installed(one)
			b.registry.says(c.status, "")
			b.annotate = map[string]string{AnnotationPollImages: "now"}
			b.rests()
			b.await(c.reason)
			if hold, rolled := b.pass(); hold != nil || rolled {
				t.Fatalf("hold = %v, rolled = %v; want nothing to do", hold, rolled)
			}
			b.wantCondition(metav1.ConditionFalse, c.reason, c.message)
			b.wantImages(releasev1alpha1.ImageStatus{Image: b.name(), Digest: one, Pinned: one})
			last := b.events[len(b.events)-1]
			if !last.Warning || last.Reason != c.reason {
				t.Errorf("the last event is %+v, want a warning of %s", last, c.reason)
			}
			b.rests()
		})
	}
}

func TestPinModeChanges(t *testing.T) {
	b := newBench(t)
	b.installed(one)
	mode := func(m releasev1alpha1.PinMode) { b.operator.Images.Pin = &m }

	mode(releasev1alpha1.PinAnnotation)
	b.rolls("")
	b.wantCondition(metav1.ConditionTrue, "Resolved", "set image.pullPolicy to Always")
	b.wantImages(releasev1alpha1.ImageStatus{Image: b.name(), Digest: one, Pinned: one})

	mode(releasev1alpha1.PinOff)
	if hold, rolled := b.pass(); hold != nil || !rolled {
		t.Fatalf("hold = %v, rolled = %v; want the annotation taken away", hold, rolled)
	}
	b.wantImages()
	if c := b.condition(); c != nil {
		t.Errorf("condition = %+v, want none", c)
	}
	if b.record != "" {
		t.Errorf("digest = %q, want none", b.record)
	}
	b.rests()

	mode(releasev1alpha1.PinDigest)
	if hold, rolled := b.pass(); hold != nil || rolled {
		t.Fatalf("hold = %v, rolled = %v; switching on must not restart pods", hold, rolled)
	}
	b.await(one)
	b.idles()
	b.wantImages(releasev1alpha1.ImageStatus{Image: b.name(), Digest: one})
	b.rests()
}

func TestIncludedImages(t *testing.T) {
	b := newBench(t)
	b.sidecar = b.registry.repository() + "/sidecar"
	b.operator.Images.Include = []string{b.sidecar}
	b.waits(b.name())
	b.awaitResult(b.sidecar, anything)
	images := func(want ...string) {
		t.Helper()
		if hold, rolled := b.pass(); hold != nil || !rolled {
			t.Fatalf("hold = %v, rolled = %v; want a roll-out", hold, rolled)
		}
		if diff := gocmp.Diff(want, imagesIn(b.manifest)); diff != "" {
			t.Errorf("images differ (-want +got):\n%s", diff)
		}
		b.rests()
	}
	images(b.sidecar+"@"+one, b.name()+"@"+one)

	b.operator.Images.Include = nil
	images(b.sidecar, b.name()+"@"+one)
	b.wantImages(releasev1alpha1.ImageStatus{Image: b.name(), Digest: one, Pinned: one})

	b.operator.Images.Include = []string{"*"}
	b.waits(b.sidecar)
	images(b.sidecar+"@"+one, b.name()+"@"+one)
}

func TestForgetEndsThePolls(t *testing.T) {
	b := newBench(t)
	b.installed(one)
	p := b.prepare()
	if err := b.images.Cleanup(t.Context(), p.pass); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.images.poller.Result(subscriber(p.pass.Key), b.name()); ok {
		t.Error("the image is still followed")
	}
}

func TestUserDigestIsNotFollowed(t *testing.T) {
	b := newBench(t)
	b.tag = "1.0@" + three
	b.rolls("")
	b.wantImages()
	b.wantCondition(metav1.ConditionTrue, "Resolved", "")
}

func TestImageOfValues(t *testing.T) {
	loaded, err := chart.Load("../../../helm-charts/ibm-websphere-liberty")
	if err != nil {
		t.Fatal(err)
	}
	byDefault := readImageValues(loaded, nil)
	if byDefault.repository == "" || byDefault.tag == "" || byDefault.pullPolicy == "" {
		t.Fatalf("the chart's own values are %+v, want an image", byDefault)
	}
	for name, c := range map[string]struct {
		user map[string]any
		want string
	}{
		"the chart's own":             {nil, byDefault.repository + ":" + byDefault.tag},
		"the user's tag":              {map[string]any{"tag": "2"}, byDefault.repository + ":2"},
		"a tag that is a number":      {map[string]any{"repository": "r:5000/a", "tag": int64(2)}, "r:5000/a:2"},
		"a tag that is a digest":      {map[string]any{"repository": "a", "tag": one}, "a@" + one},
		"an empty tag":                {map[string]any{"repository": "a", "tag": ""}, "a"},
		"null takes the chart's away": {map[string]any{"repository": "a", "tag": nil}, "a"},
		"what is no text is no image": {map[string]any{"repository": []any{"a"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{}
			if c.user != nil {
				values["image"] = c.user
			}
			if got := readImageValues(loaded, values).image(); got != c.want {
				t.Errorf("image = %q, want %q", got, c.want)
			}
		})
	}
}
