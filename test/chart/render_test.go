package chart_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	chartDir = "../../helm-charts/ibm-websphere-liberty"
	// The release of the golden files.
	releaseName      = "plants"
	releaseNamespace = "garden"
)

// release is what a render depends on besides the chart.
type release struct {
	name, namespace string
	values          map[string]any
	// integers makes the values as the operator hands them over: whole numbers are int64, where Helm has float64.
	integers bool
}

// rendering is the outcome of a render.
type rendering struct {
	files map[string]string // by path within the chart, templates that render to nothing left out
	notes string
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the chart with Helm's own engine after its checks, and fails the test if a template changes the values.
func render(t *testing.T, r release) (rendering, error) {
	t.Helper()
	c := loadChart(t)
	values := r.values
	if r.integers {
		c.Values = wholeNumbers(c.Values).(map[string]any)
		values = wholeNumbers(values).(map[string]any)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = common.KubeVersion{Version: "v1.37.0", Major: "1", Minor: "37"}
	top, err := util.ToRenderValues(c, values, common.ReleaseOptions{
		Name: r.name, Namespace: r.namespace, Revision: 1, IsInstall: true,
	}, capabilities)
	if err != nil {
		return rendering{}, err
	}
	before := runtime.DeepCopyJSON(jsonTypes(t, top["Values"]))
	files, err := engine.Render(c, top)
	if err != nil {
		return rendering{}, err
	}
	if diff := cmp.Diff(before, jsonTypes(t, top["Values"])); diff != "" {
		t.Errorf("a template changed the values (-before +after):\n%s", diff)
	}
	out := rendering{files: map[string]string{}}
	for name, content := range files {
		name = strings.TrimPrefix(name, c.Name()+"/")
		switch {
		case path.Base(name) == "NOTES.txt":
			out.notes = strings.TrimSpace(content) + "\n"
		case strings.TrimSpace(content) != "":
			out.files[name] = content
		}
	}
	return out, nil
}

func mustRender(t *testing.T, r release) rendering {
	t.Helper()
	out, err := render(t, r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func jsonTypes(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// wholeNumbers returns a copy with each float64 that is a whole number turned into an int64.
func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = wholeNumbers(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = wholeNumbers(value)
		}
		return out
	case float64:
		if v == math.Trunc(v) {
			return int64(v)
		}
	}
	return v
}

// text is the rendering as one YAML stream, for golden files.
func (r rendering) text() string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(r.notes), "\n") {
		fmt.Fprintln(&b, strings.TrimSpace("# "+line))
	}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		fmt.Fprintf(&b, "---\n# %s\n%s\n", name, strings.TrimSpace(r.files[name]))
	}
	return b.String()
}

// object is one rendered object and whether it is a hook, which a test pod of the chart is.
type object struct {
	*unstructured.Unstructured
	hook bool
}

// objects parses the rendering, in the order Helm installs it. Duplicate keys, nulls and fields that the built-in types do
// not have fail the test.
func (r rendering) objects(t *testing.T) []object {
	t.Helper()
	hooks, manifests, err := releaseutil.SortManifests(r.files, nil, releaseutil.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	var out []object
	for _, m := range manifests {
		out = append(out, object{parse(t, m.Name, m.Content), false})
	}
	for _, h := range hooks {
		out = append(out, object{parse(t, h.Path, h.Manifest), true})
	}
	return out
}

// find returns the only object of a kind, or fails the test.
func find(t *testing.T, objects []object, kind string) *unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == kind && !o.hook {
			found = append(found, o.Unstructured)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s, want one", len(found), kind)
	}
	return found[0]
}

func parse(t *testing.T, source, manifest string) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	if err := yaml.UnmarshalStrict([]byte(manifest), &content); err != nil {
		t.Fatalf("%s: %v\n%s", source, err, manifest)
	}
	if at := firstNull(content, ""); at != "" {
		t.Errorf("%s: %s is null, which server-side apply takes for a value", source, at)
	}
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	strict := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		jsonserializer.SerializerOptions{Yaml: true, Strict: true})
	if _, _, err := strict.Decode(text, nil, nil); err != nil {
		t.Errorf("%s: %v\n%s", source, err, manifest)
	}
	return &unstructured.Unstructured{Object: wholeNumbers(content).(map[string]any)}
}

func firstNull(v any, at string) string {
	switch v := v.(type) {
	case nil:
		return at
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if found := firstNull(v[key], at+"."+key); found != "" {
				return found
			}
		}
	case []any:
		for i := range v {
			if found := firstNull(v[i], fmt.Sprintf("%s[%d]", at, i)); found != "" {
				return found
			}
		}
	}
	return ""
}

// cases are the folders of testdata.
func cases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no values files in testdata")
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = filepath.Base(filepath.Dir(file))
	}
	return names
}

func caseValues(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return parseValues(t, string(text))
}

func parseValues(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := loader.LoadValues(bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func toYAML(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func selector(t *testing.T, workload *unstructured.Unstructured) map[string]string {
	t.Helper()
	labels, found, err := unstructured.NestedStringMap(workload.Object, "spec", "selector", "matchLabels")
	if err != nil || !found {
		t.Fatalf("%s has no selector (%v)", workload.GetName(), err)
	}
	return labels
}

func containers(t *testing.T, workload *unstructured.Unstructured) []map[string]any {
	t.Helper()
	list, found, err := unstructured.NestedSlice(workload.Object, "spec", "template", "spec", "containers")
	if err != nil || !found {
		t.Fatalf("%s has no containers (%v)", workload.GetName(), err)
	}
	out := make([]map[string]any, len(list))
	for i := range list {
		out[i] = list[i].(map[string]any)
	}
	return out
}

func nestedString(t *testing.T, content map[string]any, path ...string) string {
	t.Helper()
	text, found, err := unstructured.NestedString(content, path...)
	if err != nil || !found {
		t.Fatalf("no text at %s (%v)", strings.Join(path, "."), err)
	}
	return text
}
