package rbac

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen"
)

// kubeVersion is what the chart is rendered for; the kinds of a chart rarely
// depend on it, and then on much older versions.
const kubeVersion = "v1.37.0"

// found is what renders of a chart can show.
type found struct {
	// kinds of the objects, test hooks left out: the operator never runs tests.
	kinds map[schema.GroupVersionKind]bool
	// granted are the rules of the chart's own roles. Whoever writes a role must
	// hold what it grants.
	granted []rbacv1.PolicyRule
	// crds are the definitions in the chart's crds/ folders.
	crds []*unstructured.Unstructured
	// missing are API versions that templates asked for in vain.
	missing map[string]bool
}

// explore renders the chart with its defaults, with every switch on, every
// switch off, and each switch turned alone from the defaults and from all on;
// then all of it again on a cluster with every API that templates asked for.
// Some combinations are refused by a chart; it fails only if all are.
func explore(ctx context.Context, api *typegen.API) (*found, error) {
	f := &found{kinds: map[schema.GroupVersionKind]bool{}, missing: map[string]bool{}}
	switches := switchesOf(api.Values)
	if err := f.renderAll(ctx, api.Chart, switches, nil); err != nil {
		return nil, err
	}
	if len(f.missing) == 0 {
		return f, nil
	}
	versions := slices.Sorted(maps.Keys(f.missing))
	capabilities, err := chart.NewCapabilities(kubeVersion, slices.Concat(common.DefaultCapabilities.APIVersions, versions))
	if err != nil {
		return nil, err
	}
	return f, f.renderAll(ctx, api.Chart, switches, capabilities)
}

// flip is a switch of the chart: a boolean value and its default.
type flip struct {
	path typegen.Path
	on   bool
}

func switchesOf(values *typegen.Value) []flip {
	var switches []flip
	values.Walk(func(v *typegen.Value) {
		if on, ok := v.Default.(bool); ok {
			switches = append(switches, flip{path: v.Path, on: on})
		}
	})
	return switches
}

func (f *found) renderAll(ctx context.Context, c *chart.Chart, switches []flip, capabilities *chart.Capabilities) error {
	on, off := map[string]any{}, map[string]any{}
	for _, s := range switches {
		set(on, s.path, true)
		set(off, s.path, false)
	}
	worlds := []map[string]any{{}, on, off}
	for _, s := range switches {
		alone := map[string]any{}
		set(alone, s.path, !s.on)
		butOne := runtime.DeepCopyJSON(on)
		set(butOne, s.path, false)
		worlds = append(worlds, alone, butOne)
	}
	var refusals []error
	for _, values := range worlds {
		rendered, err := c.Render(ctx, chart.Request{
			Release:      chart.Release{Name: "sample", Namespace: "default", Revision: 1, Install: true},
			Values:       values,
			Capabilities: capabilities,
		})
		if err != nil {
			refusals = append(refusals, err)
			continue
		}
		if err := f.add(rendered); err != nil {
			return err
		}
	}
	if len(refusals) == len(worlds) {
		return fmt.Errorf("the chart renders with none of the %d combinations of its switches, first: %w", len(worlds), refusals[0])
	}
	return ctx.Err()
}

// set puts a value at a path, making the maps on the way.
func set(values map[string]any, path typegen.Path, value any) {
	for _, key := range path[:len(path)-1] {
		next, ok := values[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			values[key] = next
		}
		values = next
	}
	values[path[len(path)-1]] = value
}

func (f *found) add(rendered *chart.Rendered) error {
	var problems []error
	for _, object := range rendered.Objects {
		problems = append(problems, f.addObject(object))
	}
	for _, hook := range rendered.Hooks {
		if slices.ContainsFunc(hook.Events, isRun) {
			problems = append(problems, f.addObject(hook.Object))
		}
	}
	f.crds = rendered.CRDs
	for _, crd := range rendered.CRDs {
		f.kinds[crd.GroupVersionKind()] = true
	}
	for _, answer := range rendered.Asked {
		question, no := strings.CutSuffix(answer, "=false")
		if no && !strings.ContainsAny(question, "( ") {
			f.missing[question] = true
		}
	}
	return errors.Join(problems...)
}

// isRun says whether the operator runs hooks at an event.
func isRun(event chart.HookEvent) bool {
	switch event {
	case chart.HookPreInstall, chart.HookPostInstall, chart.HookPreUpgrade, chart.HookPostUpgrade, chart.HookPreDelete, chart.HookPostDelete:
		return true
	}
	return false
}

func (f *found) addObject(object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	f.kinds[gvk] = true
	if gvk.Group != rbacv1.GroupName || gvk.Kind != "Role" && gvk.Kind != "ClusterRole" {
		return nil
	}
	var role rbacv1.Role
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
		return fmt.Errorf("reading the %s %s that the chart renders: %w", gvk.Kind, object.GetName(), err)
	}
	f.granted = append(f.granted, role.Rules...)
	return nil
}

// definition reads what roles need to know of a CRD.
func definition(object *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
		return nil, fmt.Errorf("reading the CustomResourceDefinition %s of the chart: %w", object.GetName(), err)
	}
	return &crd, nil
}
