// Package chart loads Helm charts and renders them with Helm's own engine. It
// is the only package that touches Helm's loader and engine.
//
// It deviates from `helm template` in three ways and no others:
// integers reach templates as int64 (Helm gives float64, so that 1234567
// renders as 1.234567e+06), errors never quote values, and everything a render
// read besides chart and values is recorded.
package chart

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v4/pkg/chart/common"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrInvalidValues is wrapped by every error that only other values can cure.
var ErrInvalidValues = errors.New("invalid values")

// ErrIncompatible is wrapped by every error that only another cluster version
// can cure (kubeVersion of Chart.yaml).
var ErrIncompatible = errors.New("chart does not fit the cluster")

// Metadata is the content of a Chart.yaml.
type Metadata = helmchart.Metadata

// Chart is a loaded chart with its subcharts. It is immutable: any number of
// goroutines may render it at once.
type Chart struct {
	root   *helmchart.Chart
	digest string

	// schemas holds every values.schema.json of the chart and its subcharts,
	// compiled, by its text. Charts are copied for each render (an alias makes
	// a second copy of a subchart), so their addresses would not do as keys.
	schemas map[string]*jsonschema.Schema
	// crds holds the parsed files of every crds/ folder, by the loaded file.
	crds map[*common.File][]*unstructured.Unstructured
	// wholeVersions says that a template uses .Capabilities.APIVersions other
	// than by .Has, so that it depends on the whole list.
	wholeVersions bool
}

// Name of the chart.
func (c *Chart) Name() string { return c.root.Name() }

// Version of the chart.
func (c *Chart) Version() string { return c.root.Metadata.Version }

// AppVersion of the app in the chart; empty when the chart does not say.
func (c *Chart) AppVersion() string { return c.root.AppVersion() }

// Metadata returns a copy of the chart's Chart.yaml.
func (c *Chart) Metadata() *Metadata { return copyMetadata(c.root.Metadata) }

// Digest of everything in the chart that can change what it renders, as
// "1:<hex>". It is the same for a folder and for the archive that `helm
// package` makes of it, and does not depend on modification times.
func (c *Chart) Digest() string { return c.digest }

// notHas matches a use of the list of API versions other than asking it for one.
var notHas = regexp.MustCompile(`\.APIVersions\b(?:[^.]|\.[^H]|$)`)

// usesWholeVersions reports whether a template of the chart or of one of its
// subcharts reads the whole list of API versions.
func usesWholeVersions(c *helmchart.Chart) bool {
	for _, t := range c.Templates {
		if notHas.Match(t.Data) {
			return true
		}
	}
	for _, sub := range c.Dependencies() {
		if usesWholeVersions(sub) {
			return true
		}
	}
	return false
}

// forRender returns a copy of the chart for Helm to work on: resolving
// conditions, aliases and import-values writes into metadata, values and the
// list of subcharts. File contents and default values are shared, as Helm only
// reads them.
func forRender(c *helmchart.Chart) *helmchart.Chart {
	out := &helmchart.Chart{
		Metadata:  copyMetadata(c.Metadata),
		Templates: c.Templates,
		Values:    c.Values,
		Schema:    c.Schema,
		Files:     c.Files,
	}
	for _, sub := range c.Dependencies() {
		out.AddDependency(forRender(sub))
	}
	return out
}

// copyMetadata copies as deep as Helm and templates write.
func copyMetadata(md *Metadata) *Metadata {
	out := *md
	out.Dependencies = nil
	for _, d := range md.Dependencies {
		dep := *d
		dep.ImportValues = append([]any(nil), d.ImportValues...)
		out.Dependencies = append(out.Dependencies, &dep)
	}
	return &out
}

// checkRunnable refuses charts that cannot make a release.
func checkRunnable(c *helmchart.Chart) error {
	switch {
	case c.Metadata.APIVersion != helmchart.APIVersionV1 && c.Metadata.APIVersion != helmchart.APIVersionV2:
		return fmt.Errorf("apiVersion %s in Chart.yaml is not supported, only v1 and v2 are", c.Metadata.APIVersion)
	case c.Metadata.Type == "library":
		return errors.New("it is a library chart, which renders no objects; name an application chart")
	}
	present := map[string]bool{}
	for _, sub := range c.Dependencies() {
		present[sub.Name()] = true
	}
	var missing []string
	for _, d := range c.Metadata.Dependencies {
		if !present[d.Name] {
			missing = append(missing, d.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("subcharts that Chart.yaml names are not in charts/: %s; run `helm dependency build`", strings.Join(missing, ", "))
	}
	return nil
}
