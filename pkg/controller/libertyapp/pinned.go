package libertyapp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// pinned is the images input during one pass.
type pinned struct {
	images *images
	pass   *reconciler.Pass
	memory *follower
	wish   wish
	// before is the status as the pass found it: what the stored manifest has.
	before []releasev1alpha1.ImageStatus
	// pins are the digests that the release is to run, by image.
	pins map[string]string
	// stored says that the objects come from the stored manifest and not fresh
	// from the chart.
	stored bool
	// entries are the images of the objects that were resolved, or nil.
	entries []releasev1alpha1.ImageStatus
	// jobs are the templates of the release's Jobs, which cannot change.
	jobs map[string]jobTemplate
	// caTrouble is why the certificate authority cannot be used.
	caTrouble string
}

// kept are the images of the status that still matter, and the application's:
// it may be followed before a render names it.
func (p *pinned) kept() []releasev1alpha1.ImageStatus {
	var out []releasev1alpha1.ImageStatus
	for _, entry := range p.before {
		// A pin that is no longer wanted is known until it is undone.
		if p.wish.follows(entry.Image) || entry.Pinned != "" {
			out = append(out, entry)
		}
	}
	if p.wish.follows(p.wish.app) && find(out, p.wish.app) == nil {
		out = append(out, releasev1alpha1.ImageStatus{Image: p.wish.app})
	}
	return sorted(out)
}

// follows are the images to poll: those of the status, those of a render that
// is not in place yet, and the application's.
func (p *pinned) follows() []string {
	names := slices.Clone(p.memory.rendered)
	for _, entry := range p.pass.Status.Images {
		names = append(names, entry.Image)
	}
	names = append(names, p.wish.app)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !p.wish.follows(name) })
}

// Digest of the pins. The names to include are part of it, because only the
// objects tell what they match.
func (p *pinned) Digest() string {
	if p.wish.mode == releasev1alpha1.PinOff || len(p.pins) == 0 && len(p.wish.include) == 0 {
		return ""
	}
	h := sha256.New()
	_, _ = fmt.Fprintln(h, p.wish.mode) // a hash takes every write
	_, _ = fmt.Fprintln(h, strings.Join(p.wish.include, " "))
	for _, name := range slices.Sorted(maps.Keys(p.pins)) {
		_, _ = fmt.Fprintln(h, name, p.pins[name])
	}
	return digestRecipe + hex.EncodeToString(h.Sum(nil))
}

// digestRecipe is the version of how Digest is made: another one would roll
// every release, so it changes on purpose only.
const digestRecipe = "1:"

// Resolve finds the images of the objects that are to be followed, waits for a
// short time for those never seen, and pins all whose digest is known: pods
// that start anyway may as well start pinned.
func (p *pinned) Resolve(ctx context.Context, objects []*unstructured.Unstructured) error {
	p.stored = slices.ContainsFunc(objects, func(obj *unstructured.Unstructured) bool { return obj.GetLabels()[apply.OwnerLabel] != "" })
	names := p.imagesOf(objects)
	if err := p.readJobs(ctx, objects); err != nil {
		return err
	}
	p.entries = make([]releasev1alpha1.ImageStatus, 0, len(names))
	p.pins = map[string]string{}
	if p.wish.mode == releasev1alpha1.PinOff {
		return nil
	}
	p.memory.rendered = names
	if err := p.images.follow(ctx, p, p.follows()); err != nil {
		return err
	}
	for _, name := range names {
		entry := releasev1alpha1.ImageStatus{Image: name}
		if known := find(p.pass.Status.Images, name); known != nil {
			entry = *known
		}
		p.entries = append(p.entries, entry)
	}
	p.learn(p.entries)
	p.noteResolved(p.entries)
	if hold := p.wait(); hold != nil {
		return hold
	}
	for _, entry := range p.entries {
		if entry.Digest != "" {
			p.pins[entry.Image] = entry.Digest
		}
	}
	return nil
}

// wait is the hold for images that no registry has told of yet, or nil.
func (p *pinned) wait() error {
	now := p.images.clock.Now()
	var waiting []string
	rest := time.Duration(0)
	for _, entry := range p.entries {
		result, answered := p.images.poller.Result(subscriber(p.pass.Key), entry.Image)
		answered = answered && result.Reason != ""
		if answered || entry.Digest != "" {
			continue
		}
		if p.memory.asked == nil {
			p.memory.asked = map[string]time.Time{}
		}
		since, ok := p.memory.asked[entry.Image]
		if !ok {
			since = now
			p.memory.asked[entry.Image] = now
		}
		if left := resolveTimeout - now.Sub(since); left > 0 {
			waiting = append(waiting, entry.Image)
			rest = max(rest, left)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return &release.HoldError{
		Reason: ReasonResolvingImages, After: rest,
		Message: "waiting for the registry to tell the digest of " + strings.Join(waiting, ", "),
	}
}

// imagesOf are the images of the objects that are to be followed, as the chart
// writes them.
func (p *pinned) imagesOf(objects []*unstructured.Unstructured) []string {
	var names []string
	for _, obj := range objects {
		for _, written := range containers(podTemplate(obj)) {
			if name, _ := p.unpinned(written); p.wish.follows(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Recorded takes what was resolved into the status: it is what the revision on
// record runs.
func (p *pinned) Recorded() {
	if p.entries == nil {
		return
	}
	for i := range p.entries {
		p.entries[i].Pinned = p.pins[p.entries[i].Image]
	}
	p.pass.Status.Images = sorted(p.entries)
	p.memory.rendered, p.memory.asked = nil, nil
}

func sorted(entries []releasev1alpha1.ImageStatus) []releasev1alpha1.ImageStatus {
	if len(entries) == 0 {
		return nil
	}
	slices.SortFunc(entries, func(a, b releasev1alpha1.ImageStatus) int { return strings.Compare(a.Image, b.Image) })
	return entries
}

func find(entries []releasev1alpha1.ImageStatus, name string) *releasev1alpha1.ImageStatus {
	at := slices.IndexFunc(entries, func(e releasev1alpha1.ImageStatus) bool { return e.Image == name })
	if at < 0 {
		return nil
	}
	return &entries[at]
}

func digestOf(entries []releasev1alpha1.ImageStatus, name string) string {
	if entry := find(entries, name); entry != nil {
		return entry.Digest
	}
	return ""
}
