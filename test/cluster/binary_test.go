package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// source writes a program that builds at once, as a stand-in for the control plane.
func source(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "go.sum"), "")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() {"+body+"}\n")
	return dir
}

func TestKeyChangesWithWhatIsBuiltAlone(t *testing.T) {
	dir := source(t, "")
	key := func() string {
		t.Helper()
		key, err := sourceKey(dir)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := key()
	write(t, filepath.Join(dir, "main_test.go"), "package main\n")
	write(t, filepath.Join(dir, "README.md"), "text\n")
	if key() != first {
		t.Error("the key changed with a test and a text")
	}
	for _, file := range []string{"main.go", "go.mod", "go.sum"} {
		before := key()
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, file), string(content)+"\n")
		if key() == before {
			t.Errorf("the key did not change with %s", file)
		}
	}
}

func TestBuild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kube")
	var log bytes.Buffer
	// What a vendored build of the main module sets does not reach the build.
	t.Setenv("GOFLAGS", "-mod=vendor")
	if err := build(t.Context(), source(t, ""), path, newReporter(&log)); err != nil {
		t.Fatal(err)
	}
	if !executable(path) {
		t.Error("there is no executable")
	}
	// Where nobody watches, one line when it begins and one when it ends.
	want := regexp.MustCompile(`^building the Kubernetes v[^\n]*\nbuilt ` + regexp.QuoteMeta(path) + ` \(\d+ s\)\n$`)
	if !want.MatchString(log.String()) {
		t.Errorf("progress:\n%s", log.String())
	}
	left, err := filepath.Glob(path + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, %v; want the executable alone", left, err)
	}
}

func TestBuildThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kube")
	err := build(t.Context(), source(t, "undefinedFunction()"), path, newReporter(nil))
	if err == nil || !strings.Contains(err.Error(), "undefined: undefinedFunction") {
		t.Errorf("error %v; want the compiler's", err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 0 {
		t.Errorf("files %v, %v; want none", left, err)
	}
}

func TestBuildOutputBecomesProgress(t *testing.T) {
	report := newReporter(nil)
	output := &buildOutput{report: report}
	for _, step := range []struct{ write, want string }{
		{"go: downloading k8s.io/kube", ""},
		{"rnetes v1.37.1\n", "downloading k8s.io/kubernetes v1.37.1"},
		{"k8s.io/api/core/v1\nk8s.io/api/apps/v1\n", "compiling, 2 packages done, now k8s.io/api/apps/v1"},
	} {
		if _, err := output.Write([]byte(step.write)); err != nil {
			t.Fatal(err)
		}
		if report.doing != step.want {
			t.Errorf("after %q: %q; want %q", step.write, report.doing, step.want)
		}
	}
}

func TestBinariesUnusedForAMonthArePruned(t *testing.T) {
	cache := t.TempDir()
	for name, age := range map[string]time.Duration{"kube-old": 31 * 24 * time.Hour, "kube-new": 29 * 24 * time.Hour, "other": 400 * 24 * time.Hour} {
		path := filepath.Join(cache, name)
		write(t, path, "")
		then := time.Now().Add(-age)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	prune(cache)
	left, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(cache, "kube-new"), filepath.Join(cache, "other")}, left); diff != "" {
		t.Error(diff)
	}
}

func TestLockIsHeldByOneAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	unlock, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock: %v; want to wait in vain", err)
	}
	unlock()
	unlock, err = Lock(t.Context(), dir)
	if err != nil {
		t.Fatalf("a lock after the first was given back: %v", err)
	}
	unlock()
}

func TestSourceIsFoundFromBelowTheRootOnly(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sourceDir(); err != nil || got != filepath.Join(here, "kube") {
		t.Errorf("source in %s, %v; want %s", got, err, filepath.Join(here, "kube"))
	}
	t.Chdir(t.TempDir())
	if got, err := sourceDir(); err == nil || !strings.Contains(err.Error(), "not inside a checkout") {
		t.Errorf("source outside of the repository: %s, %v", got, err)
	}
}

func TestDefinitionsAreReadFromFilesAndFolders(t *testing.T) {
	dir := t.TempDir()
	crd := func(name string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + "}\n"
	}
	write(t, filepath.Join(dir, "folder", "two.yaml"), "# a comment\n---\n"+crd("one")+"---\n"+crd("two"))
	write(t, filepath.Join(dir, "folder", "notes.md"), "not YAML: [")
	write(t, filepath.Join(dir, "three.json"), `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"three"}}`)
	definitions, err := readCRDs([]string{filepath.Join(dir, "folder"), filepath.Join(dir, "three.json")})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, definition := range definitions {
		names = append(names, definition.Name)
	}
	if got := strings.Join(names, " "); got != "one two three" {
		t.Errorf("definitions %s", got)
	}
	for behaviour, content := range map[string]string{
		"a misspelt field": crd("one") + "spek: {}\n",
		"another kind":     "apiVersion: v1\nkind: Secret\n",
		"no YAML":          "a: [",
	} {
		path := filepath.Join(dir, "bad.yaml")
		write(t, path, content)
		if _, err := readCRDs([]string{path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want an error that names the file", behaviour, err)
		}
	}
	if _, err := readCRDs([]string{filepath.Join(dir, "missing")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path that does not exist: %v", err)
	}
}
