package libertyapp

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
)

// jobTemplate is what a Job's template says of images. A Job runs once, and the
// API server lets nobody change its template: it keeps what it was made with.
type jobTemplate struct {
	images  map[string]string // by container
	digests string            // AnnotationImageDigests
}

// readJobs finds out what the release's existing Jobs were made with. A stored
// manifest says it; only of one fresh from the chart, the Job itself is asked.
func (p *pinned) readJobs(ctx context.Context, objects []*unstructured.Unstructured) error {
	p.jobs = map[string]jobTemplate{}
	for _, obj := range objects {
		if !isJob(obj) || !p.exists(obj) {
			continue
		}
		live := obj
		if unpinnedJob(obj) {
			key := types.NamespacedName{Namespace: p.namespaceOf(obj), Name: obj.GetName()}
			live = &unstructured.Unstructured{}
			live.SetGroupVersionKind(obj.GroupVersionKind())
			err := p.images.live.Get(ctx, key, live)
			if apierrors.IsNotFound(err) {
				continue // it will be made anew
			}
			if err != nil {
				return fmt.Errorf("reading Job %s, to keep its images: %w", key, err)
			}
		}
		p.jobs[p.jobKey(obj)] = templateOf(live)
	}
	return nil
}

func templateOf(job *unstructured.Unstructured) jobTemplate {
	template := podTemplate(job)
	out := jobTemplate{images: map[string]string{}}
	for container, written := range containers(template) {
		name, _ := container["name"].(string)
		out.images[name] = written
	}
	out.digests, _, _ = unstructured.NestedString(template, "metadata", "annotations", AnnotationImageDigests)
	return out
}

// unpinnedJob says whether a Job names an image without a digest: it may have
// been made with one.
func unpinnedJob(job *unstructured.Unstructured) bool {
	for _, written := range containers(podTemplate(job)) {
		if written == image.Unpin(written) {
			return true
		}
	}
	return false
}

// keep gives a Job's template the images that the Job has, where they differ by
// the digest alone. Another difference is the chart's, and the API server's
// refusal of it the user's to see.
func (p *pinned) keep(template map[string]any, kept jobTemplate) {
	for container, written := range containers(template) {
		name, _ := container["name"].(string)
		if written == image.Unpin(kept.images[name]) {
			container["image"] = kept.images[name]
		}
	}
	if kept.digests != "" {
		annotate(template, []string{kept.digests})
	} else {
		annotate(template, nil)
	}
}

// exists says whether an object is one that the release has made.
func (p *pinned) exists(obj *unstructured.Unstructured) bool {
	gvk := obj.GroupVersionKind()
	return slices.ContainsFunc(p.pass.Status.Inventory, func(e releasev1alpha1.InventoryEntry) bool {
		return e.Group == gvk.Group && e.Kind == gvk.Kind && e.Name == obj.GetName() && e.Namespace == p.namespaceOf(obj)
	})
}

func (p *pinned) namespaceOf(obj *unstructured.Unstructured) string {
	if namespace := obj.GetNamespace(); namespace != "" {
		return namespace
	}
	return p.pass.Key.Namespace
}

func (p *pinned) jobKey(obj *unstructured.Unstructured) string {
	return p.namespaceOf(obj) + "/" + obj.GetName()
}
