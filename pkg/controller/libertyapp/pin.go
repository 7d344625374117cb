package libertyapp

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
)

// AnnotationImageDigests on a pod template lists the followed images with
// their digests when images.pin is Annotation.
const AnnotationImageDigests = "liberty.ibm.com/image-digests"

// Transform pins the followed images of one object, which may be fresh from the
// chart or carry older pins.
func (p *pinned) Transform(obj *unstructured.Unstructured) error {
	template := podTemplate(obj)
	if template == nil {
		return nil
	}
	if kept, ok := p.jobs[p.jobKey(obj)]; ok && isJob(obj) {
		p.keep(template, kept)
		return nil
	}
	var digests []string
	for container, written := range containers(template) {
		name, ours := p.unpinned(written)
		follows := p.wish.follows(name)
		digest := p.pins[name]
		switch {
		case follows && digest != "" && p.wish.mode == releasev1alpha1.PinAnnotation:
			digests = append(digests, name+"@"+digest)
			container["image"] = name
		case follows && digest != "":
			container["image"] = pin(name, digest)
		case follows || ours:
			container["image"] = name
		}
	}
	annotate(template, digests)
	return nil
}

// unpinned is an image as the chart writes it: without the digest that an
// earlier revision pinned. A digest that is not ours is the user's and stays;
// ours are found only in a stored manifest, not in one fresh from the chart,
// where a user may have written the very digest that is pinned now.
func (p *pinned) unpinned(written string) (name string, ours bool) {
	tagged, digest, found := strings.Cut(written, "@")
	if !found || !p.stored {
		return written, false
	}
	entry := find(p.before, tagged)
	if entry != nil && entry.Pinned == digest && digest != "" {
		return tagged, true
	}
	return written, false
}

// pin writes the digest behind the tag. What is no image reference stays: the
// kubelet's message on it is the best there is.
func pin(name, digest string) string {
	ref, err := image.Parse(name)
	if err != nil {
		return name
	}
	return ref.Pinned(digest)
}

// annotate notes the digests in the pod template, and takes an older note away.
func annotate(template map[string]any, digests []string) {
	annotations, _, _ := unstructured.NestedMap(template, "metadata", "annotations")
	if len(digests) > 0 {
		if annotations == nil {
			annotations = map[string]any{}
		}
		slices.Sort(digests)
		annotations[AnnotationImageDigests] = strings.Join(slices.Compact(digests), ",")
	} else if _, ok := annotations[AnnotationImageDigests]; ok {
		delete(annotations, AnnotationImageDigests)
	} else {
		return
	}
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(template, "metadata", "annotations")
		return
	}
	_ = unstructured.SetNestedMap(template, annotations, "metadata", "annotations") // fails only where metadata is no object, which the API server refuses
}
