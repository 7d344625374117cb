package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

func mustLoad(t testing.TB, name string) *Chart {
	t.Helper()
	c, err := Load(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writeChart writes a chart named broken of the given files and returns its folder.
func writeChart(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "broken")
	all := map[string]string{"Chart.yaml": "apiVersion: v2\nname: broken\nversion: 1.0.0\n"}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func capabilities(t testing.TB, versions ...string) *Capabilities {
	t.Helper()
	caps, err := NewCapabilities("v1.37.2", versions)
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

func request(t testing.TB, values map[string]any) Request {
	return Request{
		Release:      Release{Name: "plants", Namespace: "garden", Revision: 1, Install: true},
		Values:       values,
		Capabilities: capabilities(t, "v1", "apps/v1", "apps/v1/Deployment"),
	}
}

func mustRender(t testing.TB, c *Chart, req Request) *Rendered {
	t.Helper()
	out, err := c.Render(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// find the object of a kind and name.
func find(t testing.TB, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("no %s %s among %v", kind, name, names(objects))
	return nil
}

func names(objects []*unstructured.Unstructured) []string {
	out := []string{}
	for _, o := range objects {
		out = append(out, o.GetKind()+"/"+o.GetName())
	}
	return out
}

func data(t testing.TB, o *unstructured.Unstructured) map[string]string {
	t.Helper()
	out, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func stringMap(v any) map[string]string {
	out := map[string]string{}
	fields, _ := v.(map[string]any)
	for key, item := range fields {
		out[key] = fmt.Sprint(item)
	}
	return out
}

func TestRenderValues(t *testing.T) {
	c := mustLoad(t, "web")
	got := data(t, find(t, mustRender(t, c, request(t, map[string]any{
		"nested": map[string]any{"drop": nil},
	})).Objects, "ConfigMap", "plants-web"))
	want := map[string]string{
		"size":     "1234567",
		"printed":  "1234567 1234567",
		"float":    "0.50",
		"yaml":     `{"n":1234567}`,
		"reread":   "1234567",
		"rejson":   "1234567",
		"compared": "true",
		"kind":     "true true",
		"message":  "plants runs 9.8",
		"tier":     "back",
		"drop":     "gone",
		"motd":     "one\ntwo\n",
		"host":     "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUserIntegersReachTemplatesAsIntegers(t *testing.T) {
	c := mustLoad(t, "web")
	for name, size := range map[string]any{"int64": int64(9007199254740993), "int": 9007199254740993} {
		t.Run(name, func(t *testing.T) {
			got := data(t, find(t, mustRender(t, c, request(t, map[string]any{"size": size})).Objects, "ConfigMap", "plants-web"))
			if got["size"] != "9007199254740993" || got["reread"] != "9007199254740993" {
				t.Errorf("size %s, reread %s; want 9007199254740993", got["size"], got["reread"])
			}
		})
	}
}

func TestRenderOrder(t *testing.T) {
	out := mustRender(t, mustLoad(t, "web"), request(t, nil))
	want := []string{
		"Secret/first", "ConfigMap/plants-web", "ConfigMap/nested", "Service/plants-web", "Deployment/plants-web", "Ape/a", "Zebra/z",
	}
	if diff := cmp.Diff(want, names(out.Objects)); diff != "" {
		t.Error(diff)
	}
	for _, o := range out.Objects {
		if o.GetNamespace() != "" {
			t.Errorf("%s has namespace %s, which the chart did not write", o.GetName(), o.GetNamespace())
		}
	}
	replicas, _, err := unstructured.NestedInt64(find(t, out.Objects, "Deployment", "plants-web").Object, "spec", "replicas")
	if err != nil || replicas != 2 {
		t.Errorf("replicas %d, %v", replicas, err)
	}
}

func TestRenderNotes(t *testing.T) {
	c := mustLoad(t, "web")
	req := request(t, nil)
	if got, want := mustRender(t, c, req).Notes, "plants revision 1 in garden, new.\n"; got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
	req.Release.Install, req.Release.Revision = false, 7
	if got, want := mustRender(t, c, req).Notes, "plants revision 7 in garden.\n"; got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
}

func TestRenderHooks(t *testing.T) {
	out := mustRender(t, mustLoad(t, "web"), request(t, nil))
	type hook struct {
		Name, Kind, Path string
		Events           []HookEvent
		Weight           int
		DeletePolicies   []HookDeletePolicy
	}
	var got []hook
	for _, h := range out.Hooks {
		if h.Object.GetName() != h.Name {
			t.Errorf("hook %s has the object %s", h.Name, h.Object.GetName())
		}
		got = append(got, hook{h.Name, h.Kind, h.Path, h.Events, h.Weight, h.DeletePolicies})
	}
	want := []hook{
		{"early", "ConfigMap", "web/templates/hooks.yaml", []HookEvent{"pre-install"}, -3, nil},
		{"smoke", "Pod", "web/templates/tests/smoke.yaml", []HookEvent{"test"}, 0, nil},
		{"migrate", "Job", "web/templates/hooks.yaml", []HookEvent{"pre-install", "pre-upgrade"}, 5, []HookDeletePolicy{"before-hook-creation", "hook-succeeded"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "crd-install") {
		t.Errorf("warnings %q", out.Warnings)
	}
}

func TestRenderSubcharts(t *testing.T) {
	c := mustLoad(t, "parent")
	for name, test := range map[string]struct {
		values map[string]any
		want   map[string]map[string]string
	}{
		"defaults": {
			want: map[string]map[string]string{
				"parent": {"imported": "5555555", "default": "1000001", "subcharts": "cache,common,store", "zone": "a"},
				"cache":  {"size": "7654321", "ttl": "86400000", "zone": "a", "monitored": "false", "kube": "v1.37.2 37 v1.37.2"},
				"store":  {"size": "3000000", "zone": "a"},
			},
		},
		"condition off, alias on, global": {
			values: map[string]any{
				"global":  map[string]any{"zone": "b"},
				"cache":   map[string]any{"enabled": false},
				"archive": map[string]any{"enabled": true},
			},
			want: map[string]map[string]string{
				"parent":  {"imported": "5555555", "default": "1000001", "subcharts": "archive,common,store", "zone": "b"},
				"store":   {"size": "3000000", "zone": "b"},
				"archive": {"size": "99", "zone": "b"},
			},
		},
		"tag off": {
			values: map[string]any{"tags": map[string]any{"database": false}, "imported": map[string]any{"size": int64(1)}, "fromChild": int64(2)},
			want: map[string]map[string]string{
				"parent": {"imported": "1", "default": "2", "subcharts": "cache,common", "zone": "a"},
				"cache":  {"size": "7654321", "ttl": "86400000", "zone": "a", "monitored": "false", "kube": "v1.37.2 37 v1.37.2"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]map[string]string{}
			for _, o := range mustRender(t, c, request(t, test.values)).Objects {
				got[o.GetName()] = data(t, o)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRenderCRDs(t *testing.T) {
	c := mustLoad(t, "crds")
	out := mustRender(t, c, request(t, nil))
	want := []string{
		"CustomResourceDefinition/plants.example.com", "CustomResourceDefinition/trees.example.com", "CustomResourceDefinition/more.example.com",
	}
	if diff := cmp.Diff(want, names(out.CRDs)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"More/more", "Tree/oak"}, names(out.Objects)); diff != "" {
		t.Error(diff)
	}
	out.CRDs[0].SetName("changed")
	out = mustRender(t, c, request(t, map[string]any{"extra": map[string]any{"enabled": false}}))
	if diff := cmp.Diff(want[:2], names(out.CRDs)); diff != "" {
		t.Errorf("a disabled subchart brings no CRDs: %s", diff)
	}
}

func TestConcurrentRendersOfAChartThatWritesIntoItsValues(t *testing.T) {
	c := mustLoad(t, "mutating")
	shared := map[string]any{"kind": "ConfigMap", "data": map[string]any{"n": "untouched"}}
	values := map[string]any{"nested": map[string]any{"table": map[string]any{"y": "z"}}}
	want := map[string]string{"added": "plants", "x": "2", "count": "1000001", "list": "none"}
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			req := request(t, values)
			req.Lookup = func(context.Context, releasev1alpha1.LookupReference) (map[string]any, error) { return shared, nil }
			out, err := c.Render(t.Context(), req)
			if err != nil {
				t.Error(err)
				return
			}
			if diff := cmp.Diff(want, stringMap(out.Objects[0].Object["data"])); diff != "" {
				t.Error(diff)
			}
		})
	}
	group.Wait()
	if diff := cmp.Diff(map[string]any{"n": "untouched"}, shared["data"]); diff != "" {
		t.Errorf("what lookup returned was changed: %s", diff)
	}
	if diff := cmp.Diff(map[string]any{"nested": map[string]any{"table": map[string]any{"y": "z"}}}, values); diff != "" {
		t.Errorf("the user's values were changed: %s", diff)
	}
}

func TestRenderRecordsWhatItRead(t *testing.T) {
	ref := releasev1alpha1.LookupReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "garden", Name: "shared"}
	out := mustRender(t, mustLoad(t, "mutating"), request(t, nil))
	if diff := cmp.Diff([]releasev1alpha1.LookupReference{ref}, out.Lookups); diff != "" {
		t.Errorf("lookups: %s", diff)
	}
	for name, test := range map[string]struct {
		chart string
		want  []string
	}{
		"api version and constraint": {"web", []string{"kubeVersion(>=1.25.0-0)=true", "route.openshift.io/v1=false"}},
		"in a subchart":              {"parent", []string{"kubeVersion=v1.37.2", "monitoring.coreos.com/v1/ServiceMonitor=false"}},
		"nothing":                    {"mutating", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustLoad(t, test.chart)
			asked := mustRender(t, c, request(t, nil)).Asked
			if diff := cmp.Diff(test.want, asked); diff != "" {
				t.Error(diff)
			}
			same := capabilities(t, "v1", "irrelevant/v1")
			if diff := cmp.Diff(asked, same.Answers(asked)); diff != "" {
				t.Errorf("capabilities that differ in nothing asked: %s", diff)
			}
		})
	}
}

func TestAnswersTellCapabilitiesApart(t *testing.T) {
	c := mustLoad(t, "web")
	asked := mustRender(t, c, request(t, nil)).Asked
	before := c.AskedDigest(capabilities(t, "v1"), asked)
	if after := c.AskedDigest(capabilities(t, "v1", "route.openshift.io/v1"), asked); after == before {
		t.Error("an API version that the chart asks for arrived, and the digest is the same")
	}
	if other := c.AskedDigest(capabilities(t, "v1", "example.com/v1"), asked); other != before {
		t.Error("an API version that the chart does not ask for changed the digest")
	}
}

func TestListOfAPIVersions(t *testing.T) {
	c, err := Load(writeChart(t, map[string]string{"templates/a.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  all: {{ .Capabilities.APIVersions | join "," }}
  has: {{ .Capabilities.APIVersions.Has "apps/v1" | quote }}
  contains: {{ has "apps/v1" .Capabilities.APIVersions | quote }}
  helm: {{ .Capabilities.HelmVersion.Version }}
`}))
	if err != nil {
		t.Fatal(err)
	}
	out := mustRender(t, c, request(t, nil))
	got := data(t, out.Objects[0])
	if got["all"] != "apps/v1,apps/v1/Deployment,v1" || got["has"] != "true" || got["contains"] != "true" || !strings.HasPrefix(got["helm"], "v4") {
		t.Errorf("data %v", got)
	}
	other := capabilities(t, "v1", "apps/v1", "apps/v1/Deployment", "example.com/v1")
	if cmp.Equal(out.Asked, other.Answers(out.Asked)) {
		t.Errorf("a chart that reads the whole list does not notice a new version: %v", out.Asked)
	}
}

func TestLookup(t *testing.T) {
	c := mustLoad(t, "mutating")
	boom := errors.New("boom")
	req := request(t, nil)
	req.Lookup = func(context.Context, releasev1alpha1.LookupReference) (map[string]any, error) { return nil, boom }
	_, err := c.Render(t.Context(), req)
	if !errors.Is(err, boom) {
		t.Fatalf("error %v does not wrap the lookup's", err)
	}
	if want := "lookup of ConfigMap garden/shared: boom"; !strings.Contains(err.Error(), want) {
		t.Errorf("error %q does not say %q", err, want)
	}
}

func TestCancelledRender(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mustLoad(t, "web").Render(ctx, request(t, nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestTooMuchOutput(t *testing.T) {
	c, err := Load(writeChart(t, map[string]string{
		"templates/a.yaml": `{{ range until 17 }}# {{ repeat 1048576 "x" }}` + "\n" + `{{ end }}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Render(t.Context(), request(t, nil)); err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxOutput)) {
		t.Errorf("error %v", err)
	}
}
