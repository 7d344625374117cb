package chartref_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	containerregistry "github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/repo/v1"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/chartref"
)

// TestMain keeps Helm's settings and caches of the user out of the tests.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "helm-")
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		if err := os.Setenv(name, filepath.Join(dir, name)); err != nil {
			log.Fatal(err)
		}
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

// archive packages a chart of one template and returns its file.
func archive(t *testing.T, dir, name, version string) string {
	t.Helper()
	source := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Join(source, "templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"Chart.yaml":        fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version),
		"values.yaml":       "a: 1\n",
		"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
	} {
		if err := os.WriteFile(filepath.Join(source, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := loader.LoadDir(source)
	if err != nil {
		t.Fatal(err)
	}
	file, err := chartutil.Save(c, dir)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// repository serves charts as a chart repository does, under a path.
func repository(t *testing.T, charts ...[2]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, c := range charts {
		archive(t, dir, c[0], c[1])
	}
	index, err := repo.IndexDirectory(dir, "") // addresses relative to the index
	if err != nil {
		t.Fatal(err)
	}
	if err := index.WriteFile(filepath.Join(dir, "index.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix("/charts/", http.FileServer(http.Dir(dir))))
	t.Cleanup(server.Close)
	return server.URL + "/charts"
}

// ociRegistry serves one chart from a registry and returns its address.
func ociRegistry(t *testing.T, name, version string) string {
	t.Helper()
	server := httptest.NewServer(containerregistry.New(containerregistry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	content, err := os.ReadFile(archive(t, t.TempDir(), name, version))
	if err != nil {
		t.Fatal(err)
	}
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(server.URL, "http://") + "/team/" + name
	if _, err := client.Push(content, address+":"+version); err != nil {
		t.Fatal(err)
	}
	return "oci://" + address
}

func TestChartsAreFetchedFromWhereverTheyAre(t *testing.T) {
	file := archive(t, t.TempDir(), "web", "1.0.0")
	several := repository(t, [2]string{"web", "1.0.0"}, [2]string{"web", "1.1.0"}, [2]string{"other", "3.0.0"})
	oci := ociRegistry(t, "web", "1.0.0")
	for name, test := range map[string]struct {
		ref  chartref.Ref
		want string
	}{
		"archive":                {chartref.Ref{Location: file}, "web 1.0.0"},
		"archive by URL":         {chartref.Ref{Location: several + "/web-1.0.0.tgz"}, "web 1.0.0"},
		"repository, newest":     {chartref.Ref{Location: several, Name: "web"}, "web 1.1.0"},
		"repository, version":    {chartref.Ref{Location: several, Name: "web", Version: "1.0.0"}, "web 1.0.0"},
		"repository of one":      {chartref.Ref{Location: repository(t, [2]string{"solo", "2.0.0"}) + "/"}, "solo 2.0.0"},
		"registry, newest":       {chartref.Ref{Location: oci, PlainHTTP: true}, "web 1.0.0"},
		"registry, version":      {chartref.Ref{Location: oci, Version: "1.0.0", PlainHTTP: true}, "web 1.0.0"},
		"registry, tag in place": {chartref.Ref{Location: oci + ":1.0.0", PlainHTTP: true}, "web 1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			local, err := chartref.Fetch(test.ref)
			if err != nil {
				t.Fatal(err)
			}
			c, err := loader.Load(local.Path)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Name() + " " + c.Metadata.Version; got != test.want {
				t.Errorf("fetched %s, want %s", got, test.want)
			}
			if err := local.Close(); err != nil {
				t.Fatal(err)
			}
			_, err = os.Stat(local.Path)
			if remote := test.ref.Location != file; remote != os.IsNotExist(err) {
				t.Errorf("after Close, the error of %s is %v", local.Path, err)
			}
		})
	}
}

func TestWhatCannotBeFetchedIsExplained(t *testing.T) {
	several := repository(t, [2]string{"web", "1.0.0"}, [2]string{"other", "3.0.0"})
	for name, test := range map[string]struct {
		ref  chartref.Ref
		want string
	}{
		"no such file":     {chartref.Ref{Location: "nowhere"}, "no folder or file here"},
		"which of several": {chartref.Ref{Location: several}, "--chart-name: other, web"},
		"no such chart":    {chartref.Ref{Location: several, Name: "gone"}, "has no chart gone"},
		"no such version":  {chartref.Ref{Location: several, Name: "web", Version: "9.0.0"}, "has no chart web 9.0.0"},
		"no repository":    {chartref.Ref{Location: several + "/deeper"}, "reading the chart repository"},
		"no such archive":  {chartref.Ref{Location: several + "/gone-1.0.0.tgz"}, "fetching the chart"},
		"not in registry":  {chartref.Ref{Location: ociRegistry(t, "web", "1.0.0") + "-gone", Version: "1.0.0", PlainHTTP: true}, "fetching the chart"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := chartref.Fetch(test.ref)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}
