package chart

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const libertyChart = "../../../helm-charts/ibm-websphere-liberty"

// asHelm renders as `helm template` does.
func asHelm(t testing.TB, dir string, values map[string]any) *release.Release {
	t.Helper()
	hc, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = "plants", "garden"
	install.Replace = true
	install.APIVersions = common.VersionSet{"v1", "apps/v1", "apps/v1/Deployment"}
	kube, err := common.ParseKubeVersion("v1.37.2")
	if err != nil {
		t.Fatal(err)
	}
	install.KubeVersion = kube
	out, err := install.Run(hc, values)
	if err != nil {
		t.Fatal(err)
	}
	rel, ok := out.(*release.Release)
	if !ok {
		t.Fatalf("a release of type %T", out)
	}
	return rel
}

// asHelmReads gives every number the type it has in a values file.
func asHelmReads(t testing.TB, values map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func byKey(t testing.TB, objects []*unstructured.Unstructured) map[ObjectKey]any {
	t.Helper()
	out := map[ObjectKey]any{}
	for _, o := range objects {
		out[KeyOf(o)] = o.Object
	}
	return out
}

// TestRendersAsHelm compares whole renders with Helm's own. The charts' numbers
// are small here, so that Helm prints them as they are.
func TestRendersAsHelm(t *testing.T) {
	for name, test := range map[string]struct {
		dir    string
		values map[string]any
	}{
		"web":    {"testdata/web", map[string]any{"size": 12, "nested": map[string]any{"drop": nil}}},
		"parent": {"testdata/parent", map[string]any{"archive": map[string]any{"enabled": true}, "cache": map[string]any{"size": 5, "ttl": 6}, "store": map[string]any{"size": 7, "exported": map[string]any{"size": 8}}, "imported": map[string]any{"size": 4}, "fromChild": 3}},
		"crds":   {"testdata/crds", nil},
		"mutating": {
			"testdata/mutating", map[string]any{"count": 5, "nested": map[string]any{"table": map[string]any{"x": 7}}},
		},
		"liberty": {libertyChart, nil},
		"liberty with everything on": {libertyChart, map[string]any{
			"image":        map[string]any{"repository": "registry.example.com/app", "tag": "1.0", "pullSecret": "pull"},
			"replicaCount": 2,
			"iiopService":  map[string]any{"enabled": true},
			"jmsService":   map[string]any{"enabled": true},
			"ingress":      map[string]any{"enabled": true, "host": "plants.example.com"},
			"autoscaling":  map[string]any{"enabled": true, "minReplicas": 2, "maxReplicas": 5},
			"persistence":  map[string]any{"size": "2Gi"},
			"logs":         map[string]any{"persistLogs": true, "persistTransactionLogs": true},
			"ssl":          map[string]any{"useClusterSSLConfiguration": true, "createClusterSSLConfiguration": true},
			"monitoring":   map[string]any{"enabled": true},
			"resources":    map[string]any{"constraints": map[string]any{"enabled": true}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := asHelm(t, test.dir, asHelmReads(t, test.values))
			c, err := Load(filepath.FromSlash(test.dir))
			if err != nil {
				t.Fatal(err)
			}
			got := mustRender(t, c, request(t, test.values))
			wanted := &Rendered{}
			if err := wanted.parse(map[string]string{"manifest": want.Manifest}, "garden"); err != nil {
				t.Fatal(err)
			}
			if len(got.Objects) == 0 {
				t.Error("no objects")
			}
			if diff := cmp.Diff(byKey(t, wanted.Objects), byKey(t, got.Objects)); diff != "" {
				t.Errorf("objects: %s", diff)
			}
			hooks := map[string]any{}
			for _, h := range want.Hooks {
				documents, err := parseFile(h.Path, h.Manifest)
				if err != nil || len(documents) != 1 {
					t.Fatalf("hook %s: %v", h.Name, err)
				}
				hooks[h.Kind+"/"+h.Name] = map[string]any{"path": h.Path, "object": documents[0].object.Object, "events": h.Events, "weight": h.Weight}
			}
			gotHooks := map[string]any{}
			for _, h := range got.Hooks {
				gotHooks[h.Kind+"/"+h.Name] = map[string]any{"path": h.Path, "object": h.Object.Object, "events": h.Events, "weight": h.Weight}
			}
			if diff := cmp.Diff(hooks, gotHooks); diff != "" {
				t.Errorf("hooks: %s", diff)
			}
			if diff := cmp.Diff(want.Info.Notes, got.Notes); diff != "" {
				t.Errorf("notes: %s", diff)
			}
		})
	}
}

func BenchmarkRender(b *testing.B) {
	for _, name := range []string{"testdata/web", "testdata/parent", libertyChart} {
		b.Run(filepath.Base(name), func(b *testing.B) {
			c, err := Load(name)
			if err != nil {
				b.Fatal(err)
			}
			req := request(b, nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Render(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHelmRender is what `helm template` takes for the same, without
// reading the chart.
func BenchmarkHelmRender(b *testing.B) {
	for b.Loop() {
		_ = asHelm(b, libertyChart, nil)
	}
}
