package release

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// desired is one revision before it is applied: what shall be, and the digests
// that say from what it was made.
type desired struct {
	payload      *storage.Payload
	objects      []*unstructured.Unstructured
	hooks        []chart.Hook
	crds         []*unstructured.Unstructured
	digests      releasev1alpha1.Digests
	lookups      []releasev1alpha1.LookupReference
	capabilities []string
	salt         string
	// stored says that the revision's payload is in the store already.
	stored bool
}

// render makes the desired state from chart and values.
func (m *Manager) render(ctx context.Context, rel *Release, revision int64) (*desired, error) {
	seen := &lookupVersions{versions: map[releasev1alpha1.LookupReference]string{}}
	rendered, err := rel.Chart.Render(ctx, chart.Request{
		Release: chart.Release{
			Name: rel.Owner.ReleaseName, Namespace: rel.Owner.ReleaseNamespace,
			Revision: revision, Install: neverDeployed(rel.Status),
		},
		Values:       rel.Values,
		Capabilities: rel.Capabilities,
		Lookup:       seen.record(rel.Lookup),
	})
	switch {
	case seen.err != nil:
		return nil, fmt.Errorf("rendering the chart: %w", seen.err)
	case err != nil:
		return nil, &RenderError{Err: err}
	}
	if err := rel.Inputs.Resolve(ctx, rendered.Objects); err != nil {
		return nil, err
	}
	d := &desired{
		objects: rendered.Objects, hooks: rendered.Hooks, crds: rendered.CRDs,
		capabilities: rendered.Asked,
		lookups:      foreign(rendered.Lookups, rel, rendered.Objects),
		digests: releasev1alpha1.Digests{
			Chart: rel.Chart.Digest(), Values: chart.Digest(rel.Values),
		},
		payload: &storage.Payload{Config: rendered.Config, Notes: rendered.Notes},
	}
	d.digests.Inputs = chart.Digest(map[string]any{
		"capabilities": anyStrings(rendered.Asked),
		"lookups":      anyStrings(seen.of(d.lookups)),
	})
	if d.salt, err = m.salt(ctx, rel); err != nil {
		return nil, err
	}
	return d, m.finish(rel, d, revision)
}

// reuse makes the desired state from a stored payload, so that what was drawn
// at random when it was rendered stays as it is. What it was made from is taken
// from base, or from the record when base is nil.
func (m *Manager) reuse(ctx context.Context, rel *Release, stored *storage.Payload, revision int64, base *desired) (*desired, error) {
	objects, err := storage.DecodeManifest(stored.Manifest)
	if err != nil {
		return nil, fmt.Errorf("reading the payload of revision %d: %w", stored.Revision, err)
	}
	if err := rel.Inputs.Resolve(ctx, objects); err != nil {
		return nil, err
	}
	d := &desired{
		objects: objects, hooks: stored.Hooks,
		payload: &storage.Payload{Config: stored.Config, Notes: stored.Notes},
		salt:    saltOf(stored.Manifest),
		stored:  stored.Revision == revision,
	}
	if base != nil {
		d.digests, d.capabilities, d.lookups = base.digests, base.capabilities, base.lookups
	} else {
		record := rel.Status.Release
		d.digests, d.capabilities, d.lookups = record.Digests, record.Capabilities, record.Lookups
	}
	if neverDeployed(rel.Status) {
		if d.crds, err = rel.Chart.CRDs(stored.Config); err != nil {
			return nil, &RenderError{Err: err}
		}
	}
	return d, m.finish(rel, d, revision)
}

// finish transforms and marks the objects and fills in the payload.
func (m *Manager) finish(rel *Release, d *desired, revision int64) error {
	for _, obj := range d.objects {
		if err := rel.Inputs.Transform(obj); err != nil {
			return err
		}
		if err := m.mark(rel, d, obj); err != nil {
			return err
		}
	}
	for _, hook := range d.hooks {
		if err := rel.Inputs.Transform(hook.Object); err != nil {
			return err
		}
	}
	manifest, err := storage.EncodeManifest(d.objects)
	if err != nil {
		return fmt.Errorf("writing the manifest of revision %d: %w", revision, err)
	}
	manifest = salted(d.salt, manifest)
	d.digests.Transforms = rel.Inputs.Digest()
	d.digests.Manifest = manifestDigest(manifest, d.hooks)
	now := m.Clock.Now()
	d.payload.Name, d.payload.Namespace = rel.Owner.ReleaseName, rel.Owner.ReleaseNamespace
	d.payload.Revision, d.payload.Status = revision, releasev1alpha1.StateDeployed
	d.payload.Chart = rel.Chart.Metadata()
	d.payload.Manifest, d.payload.Hooks = manifest, d.hooks
	d.payload.FirstDeployed, d.payload.LastDeployed = now, now
	if r := rel.Status.Release; r != nil && r.FirstDeployed != nil {
		d.payload.FirstDeployed = r.FirstDeployed.Time
	}
	d.payload.Owner = storage.Owner{
		GroupKind: rel.Owner.GVK.GroupKind(), Namespace: rel.Owner.Namespace, Name: rel.Owner.Name, UID: rel.Owner.UID,
	}
	d.payload.InputsDigest = combined(d.digests)
	return nil
}

// mark writes ownership into an object. The kind must be one that the cluster
// has, or that a CRD of the same release brings.
func (m *Manager) mark(rel *Release, d *desired, obj *unstructured.Unstructured) error {
	namespaced := true
	mapping, err := m.Objects.Mapping(obj.GroupVersionKind())
	switch {
	case err == nil:
		namespaced = mapping.Scope.Name() == "namespace"
	case !brings(d, obj.GroupVersionKind().GroupKind(), &namespaced):
		return err
	}
	rel.Owner.Mark(obj, namespaced)
	return nil
}

// brings says whether the release itself defines the kind, and its scope.
func brings(d *desired, gk schema.GroupKind, namespaced *bool) bool {
	for _, objs := range [][]*unstructured.Unstructured{d.crds, d.objects} {
		for _, obj := range objs {
			if obj.GetKind() != "CustomResourceDefinition" {
				continue
			}
			group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
			scope, _, _ := unstructured.NestedString(obj.Object, "spec", "scope")
			if group == gk.Group && kind == gk.Kind {
				*namespaced = scope != "Cluster"
				return true
			}
		}
	}
	return false
}

// combined identifies what a revision was rendered from: a stored payload with
// the same value differs from a new render only in what was drawn at random, and
// in images and pull secrets, which are transformed anew.
func combined(d releasev1alpha1.Digests) string {
	return chart.Digest([]any{d.Chart, d.Values, d.Inputs})
}

// lookupVersions remembers the version of each object a render looked up, so
// that the record holds what the templates really saw.
type lookupVersions struct {
	versions map[releasev1alpha1.LookupReference]string
	// err is the first lookup that failed; the template's error hides its kind.
	err error
}

func (v *lookupVersions) record(lookup chart.Lookup) chart.Lookup {
	if lookup == nil {
		return nil
	}
	return func(ctx context.Context, ref releasev1alpha1.LookupReference) (map[string]any, error) {
		found, err := lookup(ctx, ref)
		if err == nil {
			v.versions[ref] = refs.ObjectVersion(found)
		} else if v.err == nil {
			v.err = err
		}
		return found, err
	}
}

func (v *lookupVersions) of(read []releasev1alpha1.LookupReference) []string {
	out := make([]string, len(read))
	for i, ref := range read {
		out[i] = v.versions[ref]
	}
	return out
}

// foreign drops the lookups of objects that the release owns or is about to:
// they change when the release does, and must not cause it to.
func foreign(read []releasev1alpha1.LookupReference, rel *Release, objects []*unstructured.Unstructured) []releasev1alpha1.LookupReference {
	own := map[apply.Key]bool{}
	for _, e := range rel.Status.Inventory {
		own[apply.EntryKey(e)] = true
	}
	for _, obj := range objects {
		key := apply.Key{GroupKind: obj.GroupVersionKind().GroupKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
		own[key] = true
		key.Namespace = rel.Owner.Namespace
		own[key] = true
	}
	return slices.DeleteFunc(slices.Clone(read), func(ref releasev1alpha1.LookupReference) bool {
		gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		return own[apply.Key{GroupKind: gk, Namespace: ref.Namespace, Name: ref.Name}]
	})
}
