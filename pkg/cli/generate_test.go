package cli_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jkwong888/go-helm-operator/pkg/cli"
	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/output"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// run runs the command line and returns what it prints.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := cli.Command()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

// fixture is one folder of testdata.
type fixture struct {
	dir  string
	kind []string
	// types is its override file, "" when it has none.
	types string
}

func (f fixture) path(name string) string { return filepath.Join("testdata", f.dir, name) }

// commands are the generators with their arguments, the folders they write to last.
func (f fixture) commands() map[string][]string {
	chart := append([]string{"--chart", f.path("chart")}, f.kind...)
	if f.types != "" {
		chart = append(chart, "--types", f.path(f.types))
	}
	command := func(name string, args []string, out string) []string {
		return append(append([]string{"generate", name}, args...), "--out", f.path(out))
	}
	return map[string][]string{
		"types":  command("types", chart, "api"),
		"crds":   command("crds", []string{"--api", f.path("api")}, "deploy/crds"),
		"rbac":   command("rbac", append([]string{"--name", f.dir + "-operator"}, chart...), "deploy"),
		"sample": command("sample", chart, "deploy/samples"),
	}
}

var fixtures = []fixture{
	{dir: "web", types: "types.yaml", kind: []string{"--group", "example.com", "--version", "v1", "--kind", "WebSite"}},
	{dir: "family", kind: []string{"--group", "family.example.com", "--kind", "Family", "--operator-key", ""}},
}

func TestGoldens(t *testing.T) {
	for _, f := range fixtures {
		// In this order: the definition is made of the types.
		for _, name := range []string{"types", "crds", "rbac", "sample"} {
			t.Run(f.dir+" "+name, func(t *testing.T) {
				args := f.commands()[name]
				if !*update {
					args = append(args, "--check")
				}
				if _, _, err := run(t, args...); err != nil {
					t.Errorf("%v\n(-update writes it anew, see testdata/README.md)", err)
				}
			})
		}
	}
}

// TestGeneratingTwiceWritesTheSame into a folder that did not exist.
func TestGeneratingTwiceWritesTheSame(t *testing.T) {
	for name, args := range fixtures[0].commands() {
		dir := filepath.Join(t.TempDir(), "new")
		args = append(args[:len(args)-1], dir)
		for range 2 {
			if _, _, err := run(t, args...); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if _, _, err := run(t, append(args, "--check")...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatCannotBeConfirmedIsSaid(t *testing.T) {
	_, stderr, err := run(t, append(fixtures[0].commands()["rbac"], "--out", t.TempDir())...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"guessed from the kind, check them: ServiceMonitor.monitoring.coreos.com\n",
		"only the ClusterRole allows them: CustomResourceDefinition.apiextensions.k8s.io, PriorityClass.scheduling.k8s.io\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("the standard error lacks %q:\n%s", want, stderr)
		}
	}
}

func TestCheckNamesWhatDiffers(t *testing.T) {
	dir := t.TempDir()
	args := append(fixtures[0].commands()["sample"], "--out", dir)
	_, _, err := run(t, append(args, "--check")...)
	if !errors.Is(err, output.ErrOutdated) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("for a missing file the error is %v", err)
	}
	if _, _, err := run(t, args...); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "example_v1_website.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("kind: WebSite"), []byte("kind: Website"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = run(t, append(args, "--check")...)
	if !errors.Is(err, output.ErrOutdated) || !strings.Contains(err.Error(), "from line 4 on") {
		t.Errorf("for a changed file the error is %v", err)
	}
}

func TestDashWritesToTheStandardOutput(t *testing.T) {
	stdout, _, err := run(t, append(fixtures[1].commands()["sample"], "--out", "-")...)
	if err != nil || !strings.Contains(stdout, "kind: Family") {
		t.Errorf("printed %q, error %v", stdout, err)
	}
}

func TestWhatCannotBeGeneratedIsExplained(t *testing.T) {
	chart := func(t *testing.T, values string) string {
		dir := t.TempDir()
		for name, text := range map[string]string{"Chart.yaml": "apiVersion: v2\nname: bad\nversion: 1.0.0\n", "values.yaml": values} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	kind := []string{"--group", "example.com", "--kind", "Bad", "--out", "-", "--chart"}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no such chart":           {append(kind, "nowhere"), "no folder or file here"},
		"no values":               {append(kind, chart(t, "")), "declares no values"},
		"broken values":           {append(kind, chart(t, "a: [")), "values.yaml"},
		"operator key of its own": {append(kind, chart(t, "operator: {a: 1}")), "--operator-key"},
		"key no Go tag can hold":  {append(kind, chart(t, `"a,b": 1`)), "a,b"},
		"missing override file":   {append(kind, chart(t, "a: 1"), "--types", "nowhere.yaml"), "nowhere.yaml"},
		"override of nothing":     {append(kind, chart(t, "a: 1"), "--types", "testdata/web/types.yaml"), "not declared in the chart"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, append([]string{"generate", "types"}, test.args...)...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestADefinitionOverTheLimitIsRefused(t *testing.T) {
	_, _, err := run(t, "generate", "crds", "--api", fixtures[0].path("api"), "--max-bytes", "1000", "--out", "-")
	if err == nil || !strings.Contains(err.Error(), "at most 1000 are allowed") {
		t.Errorf("error is %v", err)
	}
}

func TestAPackageWithoutKindsIsExplained(t *testing.T) {
	_, _, err := run(t, "generate", "crds", "--api", "../internal/typegen/output", "--out", "-")
	if err == nil || !strings.Contains(err.Error(), "has no kinds") {
		t.Errorf("error is %v", err)
	}
}

func TestMissingFlagsAreNamed(t *testing.T) {
	_, _, err := run(t, "generate", "types")
	if err == nil || !strings.Contains(err.Error(), `"chart"`) {
		t.Errorf("error is %v", err)
	}
	if out, _, err := run(t, "generate", "types", "--help"); err != nil || !strings.Contains(out, "--operator-key") {
		t.Errorf("help is %q, error %v", out, err)
	}
}
