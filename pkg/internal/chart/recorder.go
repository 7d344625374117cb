package chart

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// recorder notes what one render reads besides the chart and its values. The
// engine renders in one goroutine.
type recorder struct {
	caps      *Capabilities
	lookup    Lookup
	asked     map[string]struct{}
	lookups   map[releasev1alpha1.LookupReference]struct{}
	lookupErr error
	redact    *redactor
}

func newRecorder(caps *Capabilities, lookup Lookup, redact *redactor) *recorder {
	return &recorder{
		caps:    caps,
		lookup:  lookup,
		asked:   map[string]struct{}{},
		lookups: map[releasev1alpha1.LookupReference]struct{}{},
		redact:  redact,
	}
}

func (r *recorder) ask(question string) { r.asked[question] = struct{}{} }

// askedAnswers returns the questions of the render with their answers, sorted.
func (r *recorder) askedAnswers() []string {
	out := []string{}
	for _, question := range slices.Sorted(maps.Keys(r.asked)) {
		out = append(out, r.caps.answered(question))
	}
	return out
}

func (r *recorder) lookupReferences() []releasev1alpha1.LookupReference {
	return slices.SortedFunc(maps.Keys(r.lookups), func(a, b releasev1alpha1.LookupReference) int {
		return cmp.Or(
			cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// lookupFunc is the template function lookup.
func (r *recorder) lookupFunc(ctx context.Context) func(apiVersion, kind, namespace, name string) (map[string]any, error) {
	return func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		ref := releasev1alpha1.LookupReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
		r.lookups[ref] = struct{}{}
		if r.lookup == nil {
			return map[string]any{}, nil
		}
		found, err := r.lookup(ctx, ref)
		if err != nil {
			// The engine turns errors into text; Render returns this one.
			r.lookupErr = fmt.Errorf("lookup of %s %s/%s: %w", kind, namespace, name, err)
			return nil, r.lookupErr
		}
		if kind == "Secret" {
			r.redact.addSecretData(found)
		}
		// Templates may write into what they get.
		out, ok := normalize(found).(map[string]any)
		if !ok || out == nil {
			return map[string]any{}, nil
		}
		return out, nil
	}
}

// templateCapabilities is .Capabilities in templates, with the names that
// Helm's struct has. Methods, not fields, so that reading is noted.
type templateCapabilities struct {
	record *recorder
	whole  bool
}

// APIVersions is .Capabilities.APIVersions: a list when some template of the
// chart reads it as a list, otherwise something with Has only.
func (c *templateCapabilities) APIVersions() any {
	if c.whole {
		c.record.ask(askAllVersions)
		return slices.Clone(c.record.caps.versions)
	}
	return templateVersions{record: c.record}
}

// KubeVersion is .Capabilities.KubeVersion.
func (c *templateCapabilities) KubeVersion() *common.KubeVersion {
	c.record.ask(askKubeVersion)
	kube := c.record.caps.kube
	return &kube
}

// HelmVersion is .Capabilities.HelmVersion.
func (c *templateCapabilities) HelmVersion() any {
	c.record.ask(askHelmVersion)
	return common.DefaultCapabilities.HelmVersion
}

type templateVersions struct {
	record *recorder
}

// Has is .Capabilities.APIVersions.Has.
func (v templateVersions) Has(apiVersion string) bool {
	v.record.ask(apiVersion)
	return v.record.caps.Has(apiVersion)
}
