package chart

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// maxOutput bounds what one render writes, in bytes.
const maxOutput = 16 << 20

// Release is what templates see as .Release.
type Release struct {
	// Name of the release.
	Name string
	// Namespace of the release.
	Namespace string
	// Revision counts from 1.
	Revision int64
	// Install says that this is the first revision; otherwise it is an upgrade.
	Install bool
}

// Lookup answers the template function lookup as Helm does: the object; an
// object with "items" when ref has no name; an empty map when there is nothing.
type Lookup func(ctx context.Context, ref releasev1alpha1.LookupReference) (map[string]any, error)

// Request is what is rendered besides the chart.
type Request struct {
	// Release to render.
	Release Release
	// Values of the user, without the operator's own key. They are not changed.
	Values map[string]any
	// Capabilities of the cluster; nil stands for Helm's offline defaults.
	Capabilities *Capabilities
	// Lookup reads from the cluster; nil finds nothing.
	Lookup Lookup
}

// Rendered is the result of a render.
type Rendered struct {
	// Objects of the release in the order they are installed: Helm's order of
	// kinds, then the order of files and documents. Namespaces are as the
	// chart wrote them, that is, mostly empty.
	Objects []*unstructured.Unstructured
	// CRDs are the objects of the crds/ folders of the chart and its enabled
	// subcharts; they are installed before everything else.
	CRDs []*unstructured.Unstructured
	// Hooks in the order they run for an event: weight, then name.
	Hooks []Hook
	// Notes is the rendered NOTES.txt of the chart itself.
	Notes string
	// Config is Request.Values.
	Config map[string]any
	// Lookups made by templates, sorted.
	Lookups []releasev1alpha1.LookupReference
	// Asked lists what templates asked of the capabilities, with the answers,
	// sorted: "route.openshift.io/v1=false", "kubeVersion=v1.37.2". See
	// Capabilities.Answers.
	Asked []string
	// Warnings tell what the chart says that has no effect.
	Warnings []string
}

// Render the chart. It changes nothing and may run many times at once. Errors
// name the chart and the template with its line, never a value; those that the
// user's values cause wrap ErrInvalidValues, those that the cluster's version
// causes wrap ErrIncompatible. An error of Lookup is wrapped.
func (c *Chart) Render(ctx context.Context, req Request) (*Rendered, error) {
	out, err := c.render(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("render chart %s %s: %w", c.Name(), c.Version(), err)
	}
	return out, nil
}

func (c *Chart) render(ctx context.Context, req Request) (*Rendered, error) {
	if req.Capabilities == nil {
		req.Capabilities = defaultCapabilities()
	}
	record := newRecorder(req.Capabilities, req.Lookup, newRedactor(req.Values))
	if constraint := c.root.Metadata.KubeVersion; constraint != "" {
		record.ask(askConstraintPre + constraint + ")")
		if !req.Capabilities.fits(constraint) {
			return nil, fmt.Errorf("%w: it needs Kubernetes %s, the cluster has %s", ErrIncompatible, constraint, req.Capabilities.KubeVersion())
		}
	}
	hc := forRender(c.root)
	values, err := c.values(hc, req.Values)
	if err != nil {
		return nil, err
	}
	files, err := c.execute(ctx, hc, values, req.Release, record)
	if err != nil {
		return nil, err
	}
	out := &Rendered{
		Config:  req.Values,
		Notes:   takeNotes(files, path.Join(hc.Name(), "templates", notesFile)),
		Lookups: record.lookupReferences(),
		Asked:   record.askedAnswers(),
	}
	out.CRDs = c.crdsOf(hc)
	return out, out.parse(files, req.Release.Namespace)
}

// CRDs returns what Rendered.CRDs has for the values, without rendering.
func (c *Chart) CRDs(values map[string]any) ([]*unstructured.Unstructured, error) {
	hc := forRender(c.root)
	if _, err := c.values(hc, values); err != nil { // it drops disabled subcharts
		return nil, err
	}
	return c.crdsOf(hc), nil
}

func (c *Chart) crdsOf(hc *helmchart.Chart) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, crd := range hc.CRDObjects() {
		for _, o := range c.crds[crd.File] {
			out = append(out, o.DeepCopy())
		}
	}
	return out
}

// values resolves subcharts (conditions, tags, aliases, import-values), merges
// the user's values over the charts' own and checks them against the schemas.
func (c *Chart) values(hc *helmchart.Chart, user map[string]any) (map[string]any, error) {
	user, _ = normalize(user).(map[string]any)
	if user == nil {
		user = map[string]any{}
	}
	// Helm's messages on values that do not fit quote them; ours do not.
	if err := checkTables(hc, user, ""); err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(hc, user); err != nil {
		return nil, fmt.Errorf("%w: they do not merge with those of the subcharts", ErrInvalidValues)
	}
	values, err := commonutil.CoalesceValues(hc, user)
	if err != nil {
		return nil, fmt.Errorf("%w: they do not merge with the chart's own", ErrInvalidValues)
	}
	if err := c.validate(hc, values); err != nil {
		return nil, err
	}
	return values, nil
}

// checkTables refuses a scalar where the values of a subchart belong.
func checkTables(hc *helmchart.Chart, values map[string]any, prefix string) error {
	for name, sub := range subchartNames(hc) {
		table, isTable := values[name].(map[string]any)
		if values[name] != nil && !isTable {
			return fmt.Errorf("%w: %s%s: must be an object, as it holds the values of a subchart", ErrInvalidValues, prefix, name)
		}
		if err := checkTables(sub, table, prefix+name+"."); err != nil {
			return err
		}
	}
	return nil
}

// subchartNames returns the subcharts by the keys of their values: an alias, or
// the name.
func subchartNames(hc *helmchart.Chart) map[string]*helmchart.Chart {
	byName, out := map[string]*helmchart.Chart{}, map[string]*helmchart.Chart{}
	for _, sub := range hc.Dependencies() {
		byName[sub.Name()], out[sub.Name()] = sub, sub
	}
	for _, d := range hc.Metadata.Dependencies {
		if d.Alias != "" {
			delete(out, d.Name)
		}
	}
	for _, d := range hc.Metadata.Dependencies {
		if sub := byName[d.Name]; sub != nil {
			out[cmp.Or(d.Alias, d.Name)] = sub
		}
	}
	return out
}

// execute runs the templates of the chart and its subcharts and returns what
// each wrote.
func (c *Chart) execute(ctx context.Context, hc *helmchart.Chart, values map[string]any, rel Release, record *recorder) (map[string]string, error) {
	top := common.Values{
		"Values": common.Values(values),
		// The engine hands this on to subcharts as it is.
		"Capabilities": &templateCapabilities{record: record, whole: c.wholeVersions},
		"Release": map[string]any{
			"Name":      rel.Name,
			"Namespace": rel.Namespace,
			"Revision":  int(rel.Revision),
			"IsInstall": rel.Install,
			"IsUpgrade": !rel.Install,
			"Service":   "Helm",
		},
	}
	// EnableDNS stays false: a template's getHostByName finds nothing.
	e := engine.Engine{CustomTemplateFuncs: templateFuncs(record.lookupFunc(ctx))}
	files, err := e.RenderWithContext(ctx, hc, top)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case record.lookupErr != nil:
		return nil, record.lookupErr
	case err != nil:
		return nil, record.redact.engineError(err)
	}
	n := 0
	for _, text := range files {
		n += len(text)
	}
	if n > maxOutput {
		return nil, fmt.Errorf("it renders %d bytes, more than the %d allowed", n, maxOutput)
	}
	return files, nil
}

const notesFile = "NOTES.txt"

// takeNotes removes every NOTES.txt from files and returns the one named.
func takeNotes(files map[string]string, name string) string {
	notes := files[name]
	for file := range files {
		if strings.HasSuffix(file, notesFile) {
			delete(files, file)
		}
	}
	return notes
}
