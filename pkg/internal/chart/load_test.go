package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

func TestLoadErrors(t *testing.T) {
	sub := "apiVersion: v2\nname: sub\nversion: 1.0.0\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no Chart.yaml":      {map[string]string{"Chart.yaml": ""}, []string{"Chart.yaml"}},
		"library chart":      {map[string]string{"Chart.yaml": "apiVersion: v2\nname: broken\nversion: 1.0.0\ntype: library\n"}, []string{"library chart"}},
		"later chart format": {map[string]string{"Chart.yaml": "apiVersion: v3\nname: broken\nversion: 1.0.0\n"}, []string{"apiVersion v3"}},
		"subchart missing": {
			map[string]string{"Chart.yaml": "apiVersion: v2\nname: broken\nversion: 1.0.0\ndependencies: [{name: redis, version: 1.x.x}]\n"},
			[]string{"redis", "helm dependency build"},
		},
		"values no YAML":        {map[string]string{"values.yaml": "a: [\n"}, []string{"values.yaml"}},
		"subchart's values":     {map[string]string{"charts/sub/Chart.yaml": sub, "charts/sub/values.yaml": "a: [\n"}, []string{"sub", "values.yaml"}},
		"schema no JSON":        {map[string]string{"values.schema.json": "{"}, []string{"broken/values.schema.json"}},
		"schema no JSON schema": {map[string]string{"values.schema.json": `{"type": 5}`}, []string{"broken/values.schema.json"}},
		"crds no YAML":          {map[string]string{"crds/a.yaml": "a: [\n"}, []string{"broken/crds/a.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeChart(t, test.files)
			_, err := Load(dir)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(test.want, "load chart "+dir) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestLoadOfSomethingElse(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.tgz")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxArchive+1); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text.tgz")
	if err := os.WriteFile(text, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "missing"): "no such file",
		large:                         fmt.Sprint(maxArchive),
		text:                          "gzip",
	} {
		_, err := Load(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v does not say %q", path, err, want)
		}
	}
}

func TestLoadOfTooMuch(t *testing.T) {
	dir := writeChart(t, map[string]string{"files/large": strings.Repeat("x", maxChart)})
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxChart)) {
		t.Errorf("error %v", err)
	}
}

func TestMetadata(t *testing.T) {
	c := mustLoad(t, "web")
	if c.Name() != "web" || c.Version() != "1.2.3" || c.AppVersion() != "9.8" || c.Metadata().KubeVersion == "" {
		t.Errorf("metadata %s %s %s %+v", c.Name(), c.Version(), c.AppVersion(), c.Metadata())
	}
	c.Metadata().Name = "changed"
	if c.Name() != "web" {
		t.Error("the chart's metadata can be changed from outside")
	}
}

// TestDigestOfAFolderAndItsArchive packages charts as `helm package` does.
func TestDigestOfAFolderAndItsArchive(t *testing.T) {
	for _, name := range []string{"web", "parent", "crds", "mutating"} {
		t.Run(name, func(t *testing.T) {
			hc, err := loader.Load(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			archive, err := chartutil.Save(hc, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			packed, err := Load(archive)
			if err != nil {
				t.Fatal(err)
			}
			folder := mustLoad(t, name)
			if folder.Digest() != packed.Digest() {
				t.Errorf("folder %s, archive %s", folder.Digest(), packed.Digest())
			}
			if !strings.HasPrefix(folder.Digest(), "1:") || len(folder.Digest()) != 66 {
				t.Errorf("digest %s", folder.Digest())
			}
			// The archive renders the same, integers included.
			a, b := mustRender(t, folder, request(t, nil)), mustRender(t, packed, request(t, nil))
			if Digest(a.Objects) != Digest(b.Objects) {
				t.Error("folder and archive render differently")
			}
		})
	}
}

func TestDigestTellsChartsApart(t *testing.T) {
	base := map[string]string{
		"values.yaml": "a: 1\n", "templates/a.yaml": "# a\n", "files/a": "x",
		"charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n", "charts/sub/values.yaml": "b: 1\n",
	}
	digest := func(changes map[string]string) string {
		files := map[string]string{}
		for name, text := range base {
			files[name] = text
		}
		for name, text := range changes {
			files[name] = text
		}
		dir := writeChart(t, files)
		if err := os.Chtimes(filepath.Join(dir, "values.yaml"), time.Time{}, time.Unix(int64(len(changes)), 0)); err != nil {
			t.Fatal(err)
		}
		c, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return c.Digest()
	}
	want := digest(nil)
	for name, test := range map[string]struct {
		changes map[string]string
		same    bool
	}{
		"other time":        {nil, true},
		"lock file":         {map[string]string{"Chart.lock": "generated: '2026-11-20T00:00:00Z'\n"}, true},
		"spelling of chart": {map[string]string{"Chart.yaml": "# comment\nversion: 1.0.0\nname: broken\napiVersion: v2\n"}, true},
		"chart":             {map[string]string{"Chart.yaml": "apiVersion: v2\nname: broken\nversion: 1.0.1\n"}, false},
		"values":            {map[string]string{"values.yaml": "a: 2\n"}, false},
		"template":          {map[string]string{"templates/a.yaml": "# b\n"}, false},
		"file":              {map[string]string{"files/a": "y"}, false},
		"new file":          {map[string]string{"files/b": ""}, false},
		"schema":            {map[string]string{"values.schema.json": "{}"}, false},
		"subchart's values": {map[string]string{"charts/sub/values.yaml": "b: 2\n"}, false},
		"new subchart":      {map[string]string{"charts/more/Chart.yaml": "apiVersion: v2\nname: more\nversion: 1.0.0\n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := digest(test.changes); (got == want) != test.same {
				t.Errorf("digest %s, of the base %s", got, want)
			}
		})
	}
}

func TestDigestOfValues(t *testing.T) {
	a := Digest(map[string]any{"a": int64(1), "b": []any{"x", nil}})
	for name, test := range map[string]struct {
		value any
		same  bool
	}{
		"equal":         {map[string]any{"b": []any{"x", nil}, "a": int64(1)}, true},
		"whole float":   {map[string]any{"a": float64(1), "b": []any{"x", nil}}, true},
		"other number":  {map[string]any{"a": int64(2), "b": []any{"x", nil}}, false},
		"text, no int":  {map[string]any{"a": "1", "b": []any{"x", nil}}, false},
		"null, no key":  {map[string]any{"a": int64(1), "b": []any{"x"}}, false},
		"order of list": {map[string]any{"a": int64(1), "b": []any{nil, "x"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Digest(test.value); (got == a) != test.same {
				t.Errorf("digest %s of %s", got, a)
			}
		})
	}
}

func BenchmarkDigest(b *testing.B) {
	values := map[string]any{}
	for i := range 100 {
		values[fmt.Sprint("key", i)] = map[string]any{"name": "value", "size": int64(i), "list": []any{"a", "b"}}
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = Digest(values)
	}
}
