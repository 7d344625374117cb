package libertyapp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
)

// learn takes the registries' answers into the entries and tells of changes. A
// first digest is a baseline and no change: LastChanged stays nil, which is how
// a later pass knows that nothing has to be rolled out.
func (p *pinned) learn(entries []releasev1alpha1.ImageStatus) {
	for i := range entries {
		entry := &entries[i]
		if !p.wish.follows(entry.Image) {
			continue
		}
		result, ok := p.images.poller.Result(subscriber(p.pass.Key), entry.Image)
		if !ok || result.Digest == "" || result.Digest == entry.Digest {
			continue
		}
		if entry.Digest != "" {
			changed := result.Changed
			if changed.IsZero() {
				changed = p.images.clock.Now()
			}
			at := metav1.NewTime(changed.Truncate(time.Second)) // as the API server keeps it
			entry.LastChanged = &at
			emit(p.pass, actionResolve, ReasonImageChanged, fmt.Sprintf("Image %s is now %s, it was %s", entry.Image, result.Digest, entry.Digest))
		}
		entry.Digest = result.Digest
	}
}

// resolved is the condition ImageResolved for the followed ones of some images;
// false leaves it as it is, because nothing new is known.
func (p *pinned) resolved(entries []releasev1alpha1.ImageStatus) (metav1.Condition, bool) {
	c := metav1.Condition{Type: ConditionImageResolved}
	if p.caTrouble != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonInvalidCASecret, p.caTrouble
		return c, true
	}
	var troubles, waiting []string
	asking := false
	for _, entry := range entries {
		if !p.wish.follows(entry.Image) {
			continue
		}
		result, ok := p.images.poller.Result(subscriber(p.pass.Key), entry.Image)
		switch {
		case ok && result.Err != nil:
			if c.Reason == "" {
				c.Reason = string(result.Reason)
			}
			troubles = append(troubles, trouble(result.Err))
		case !ok && entry.Digest == "":
			waiting = append(waiting, entry.Image)
		case !ok:
			asking = true
		}
	}
	before := meta.FindStatusCondition(p.pass.Status.Conditions, ConditionImageResolved)
	switch {
	case len(troubles) > 0:
		c.Status, c.Message = metav1.ConditionFalse, strings.Join(troubles, "; ")
	case len(waiting) > 0:
		c.Status, c.Reason = metav1.ConditionUnknown, ReasonResolvingImages
		c.Message = "waiting for the registry to tell the digest of " + strings.Join(waiting, ", ")
	case asking && before != nil && before.ObservedGeneration == p.pass.Status.ObservedGeneration:
		return c, false // since the start, the registry was not asked again
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, string(image.Resolved), p.wish.advice()
	}
	return c, true
}

// trouble is an error of the poller without the time a registry wants to be left
// alone, which is another one each time.
func trouble(err error) string {
	var known *image.Error
	var throttled *image.ThrottledError
	if errors.As(err, &known) && errors.As(err, &throttled) {
		return "image " + known.Image + ": " + (&image.ThrottledError{Host: throttled.Host}).Error()
	}
	return err.Error()
}

// advice tells of a wish that works against itself; "" if it does not.
func (w wish) advice() string {
	if w.mode != releasev1alpha1.PinAnnotation || w.policy == string(corev1.PullAlways) {
		return ""
	}
	return fmt.Sprintf("images.pin is Annotation and image.pullPolicy %s: a new pod may run the old image of its node; set image.pullPolicy to Always", w.policy)
}
