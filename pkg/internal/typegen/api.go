package typegen

import (
	"errors"
	"fmt"
	"slices"

	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
)

// API is a chart together with the types of its values.
type API struct {
	// Chart to render.
	Chart *chart.Chart
	// Values of the chart, with those of its subcharts under their names.
	Values *Value
	// Spec types the values; its root is the resource's spec.
	Spec *Field
	// Sample that the override file asks for.
	Sample Sample
	// Templates of the chart and its subcharts, as text.
	Templates []string
}

// Load loads a chart from a folder or archive and types its values. The
// override file may be empty. A rule or an override that does not fit the chart
// is an error.
func Load(path string, overrides []byte) (*API, error) {
	c, err := chart.Load(path)
	if err != nil {
		return nil, err
	}
	// The file values.yaml itself is read too: Helm drops nulls and comments.
	raw, err := loader.Load(path)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", path, err)
	}
	api := &API{Chart: c, Templates: templates(raw)}
	if err := api.resolve(raw, overrides); err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	return api, nil
}

func (api *API) resolve(raw *helmchart.Chart, overrides []byte) error {
	values, err := chartValues(raw)
	if err != nil {
		return err
	}
	if len(values.Children) == 0 {
		return errors.New("its values.yaml declares no values, so there is nothing to type")
	}
	o, err := ParseOverrides(overrides)
	if err != nil {
		return err
	}
	if err := o.Check(values); err != nil {
		return err
	}
	spec, err := Resolve(values, o, YAMLKind{})
	if err != nil {
		return err
	}
	api.Values, api.Spec, api.Sample = values, spec, o.Sample
	return AttachRules(spec, o.Rules)
}

func templates(c *helmchart.Chart) []string {
	var texts []string
	for _, file := range c.Templates {
		texts = append(texts, string(file.Data))
	}
	for _, sub := range c.Dependencies() {
		texts = append(texts, templates(sub)...)
	}
	return texts
}

// chartValues reads values.yaml and puts the values of each subchart under its
// name or alias, where the parent's own entries win.
func chartValues(c *helmchart.Chart) (*Value, error) {
	values := &Value{Kind: Map, Default: map[string]any{}}
	for _, file := range c.Raw {
		if file.Name != "values.yaml" {
			continue
		}
		var err error
		if values, err = ParseValues(file.Data); err != nil {
			return nil, fmt.Errorf("values.yaml: %w", err)
		}
	}
	var problems []error
	for _, dependency := range c.Metadata.Dependencies {
		i := slices.IndexFunc(c.Dependencies(), func(sub *helmchart.Chart) bool { return sub.Name() == dependency.Name })
		if i < 0 {
			problems = append(problems, fmt.Errorf("the subchart %s is not in charts/: run helm dependency build", dependency.Name))
			continue
		}
		sub, err := chartValues(c.Dependencies()[i])
		if err != nil {
			problems = append(problems, fmt.Errorf("subchart %s: %w", dependency.Name, err))
			continue
		}
		key := dependency.Alias
		if key == "" {
			key = dependency.Name
		}
		values.graft(Path{key}, sub)
	}
	return values, errors.Join(problems...)
}

// graft puts a tree of values at a path below v; what is there already wins.
func (v *Value) graft(path Path, sub *Value) {
	key := path[len(path)-1]
	present := v.Child(key)
	if present == nil {
		present = &Value{Path: path, Kind: sub.Kind, Default: sub.Default, Doc: sub.Doc}
		v.Children = append(v.Children, present)
	} else if present.Kind != Map || sub.Kind != Map {
		return
	}
	for _, child := range sub.Children {
		present.graft(path.Child(child.Path[len(child.Path)-1]), child)
	}
}
