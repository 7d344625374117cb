package libertyapp

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
)

// AnnotationPollImages on a resource asks for a look at the registries now,
// each time that its value changes.
const AnnotationPollImages = "helm.sdk.operatorframework.io/poll-images"

// resolveTimeout is how long a release waits for the digest of an image that it
// has never seen, before it goes on without.
const resolveTimeout = 5 * time.Second

// images is the input that follows images in their registries and pins what a
// release runs. Everything that decides is in the status: the digest that the
// registry gave last (the baseline), and the digest the pods were given. So a
// push is noticed after any absence of the operator, and a release that went
// out unpinned is not restarted merely to be pinned.
type images struct {
	chart    *chart.Chart
	poller   *image.Poller
	secrets  *secrets
	accounts *accounts
	live     client.Reader
	clock    clock.PassiveClock
	memory   memory[follower]
}

// follower is what is known of one resource besides its status.
type follower struct {
	// force is the last value of AnnotationPollImages; nil before the first
	// look, which does not force.
	force *string
	// rendered are the images of a render that is not in place yet.
	rendered []string
	// asked is when a release first waited for an image.
	asked map[string]time.Time
	// denied says that a registry refused anonymous access, so that the lists
	// of ServiceAccounts are worth reading.
	denied bool
}

// Prepare follows what the status and the values name, and takes over what the
// registries said.
func (i *images) Prepare(ctx context.Context, pass *reconciler.Pass) (reconciler.Prepared, error) {
	memory := i.memory.get(pass.Key)
	p := &pinned{
		images: i, pass: pass, memory: memory, wish: readWish(i.chart, pass), pins: map[string]string{},
		before: slices.Clone(pass.Status.Images),
	}
	if p.wish.mode == releasev1alpha1.PinOff {
		i.poller.Set(subscriber(pass.Key), nil)
		meta.RemoveStatusCondition(&pass.Status.Conditions, ConditionImageResolved)
		*memory = follower{}
		pass.Status.Images = p.kept()
		return p, nil
	}
	if pass.Installed() {
		pass.Status.Images = p.kept()
	}
	if err := i.follow(ctx, p, p.follows()); err != nil {
		return nil, err
	}
	if pass.Installed() {
		p.learn(pass.Status.Images)
		p.noteResolved(pass.Status.Images)
	}
	i.force(p)
	for _, entry := range pass.Status.Images {
		if p.wish.follows(entry.Image) && (entry.Pinned != "" || entry.LastChanged != nil) {
			p.pins[entry.Image] = entry.Digest
		}
	}
	return p, nil
}

// force polls at once when the annotation has a value that it had not before.
func (i *images) force(p *pinned) {
	value := p.pass.Object.GetAnnotations()[AnnotationPollImages]
	if p.memory.force != nil && *p.memory.force != value && value != "" {
		i.poller.Poll(subscriber(p.pass.Key))
	}
	p.memory.force = &value
}

// Cleanup ends the polls. What was pinned goes with the release.
func (i *images) Cleanup(_ context.Context, pass *reconciler.Pass) error {
	i.Forget(pass.Key)
	return nil
}

// Forget ends the polls for a resource that is gone.
func (i *images) Forget(key reconciler.Key) {
	i.poller.Set(subscriber(key), nil)
	i.memory.forget(key)
}

// subscriber is what the poller calls a resource.
func subscriber(key reconciler.Key) image.Subscriber {
	return image.Subscriber{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name}
}

// wish is what spec asks for.
type wish struct {
	mode     releasev1alpha1.PinMode
	app      string // the application's image
	include  []string
	interval time.Duration // zero for the operator's
	insecure bool
	caSecret string
	pull     string // the pull secret
	policy   string // the application's imagePullPolicy
}

func readWish(c *chart.Chart, pass *reconciler.Pass) wish {
	values := readImageValues(c, pass.Values)
	w := wish{mode: releasev1alpha1.PinDigest, app: values.image(), pull: values.pullSecret, policy: values.pullPolicy}
	spec := pass.Operator.Images
	if spec == nil {
		return w
	}
	w.include = slices.Compact(slices.Sorted(slices.Values(spec.Include)))
	if spec.Pin != nil && *spec.Pin != "" {
		w.mode = *spec.Pin
	}
	if spec.Interval != nil {
		w.interval = spec.Interval.Duration
	}
	if spec.Insecure != nil {
		w.insecure = *spec.Insecure
	}
	if spec.CASecretRef != nil {
		w.caSecret = spec.CASecretRef.Name
	}
	return w
}

// follows says whether an image, as a template writes it, is to be followed.
// One that the user pinned has nothing to follow.
func (w wish) follows(name string) bool {
	if w.mode == releasev1alpha1.PinOff || name == "" || pinnedByUser(name) {
		return false
	}
	return name == w.app || slices.Contains(w.include, name) || slices.Contains(w.include, "*")
}

func pinnedByUser(name string) bool {
	ref, err := image.Parse(name)
	return err == nil && ref.Digest() != ""
}

// noteResolved sets ImageResolved from what is known of images.
func (p *pinned) noteResolved(entries []releasev1alpha1.ImageStatus) {
	condition, ok := p.resolved(entries)
	if !ok {
		return
	}
	if note(p.pass, condition) && condition.Status == metav1.ConditionFalse {
		warn(p.pass, actionResolve, condition.Reason, condition.Message)
	}
}
