package typegen

import (
	"errors"
	"fmt"
	"slices"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// API is a chart together with the types of its values.
type API struct {
	Chart *chart.Chart
	// Values of the chart, with those of its subcharts under their names.
	Values *Value
	// Spec types the values; its root is the resource's spec.
	Spec *Field
	// Sample that the override file asks for.
	Sample Sample
}

// New types the values of a chart. The override file may be empty. A rule or
// an override that does not fit the chart is an error.
func New(c *chart.Chart, overrides []byte) (*API, error) {
	values, err := chartValues(c)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	if len(values.Children) == 0 {
		return nil, fmt.Errorf("chart %s: its values.yaml declares no values, so there is nothing to type", c.Name())
	}
	o, err := ParseOverrides(overrides)
	if err != nil {
		return nil, err
	}
	if err := o.Check(values); err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	spec, err := Resolve(values, o, YAMLKind{})
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	if err := AttachRules(spec, o.Rules); err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	return &API{Chart: c, Values: values, Spec: spec, Sample: o.Sample}, nil
}

// chartValues reads values.yaml as it is in the chart, because Helm drops nulls
// and comments, and puts the values of each subchart under its name or alias,
// where the parent's own entries win.
func chartValues(c *chart.Chart) (*Value, error) {
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
		i := slices.IndexFunc(c.Dependencies(), func(sub *chart.Chart) bool { return sub.Name() == dependency.Name })
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
