package watches

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "watches.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	path := write(t, `
- group: liberty.ibm.com
  version: v1alpha1
  kind: LibertyApp
  chart: helm-charts/ibm-websphere-liberty
  operatorKey: operator
- version: v1
  kind: Plain
  chart: /charts/plain.tgz
`)
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Watch{
		{Group: "liberty.ibm.com", Version: "v1alpha1", Kind: "LibertyApp", OperatorKey: "operator",
			Chart: filepath.Join(filepath.Dir(path), "helm-charts/ibm-websphere-liberty")},
		{Version: "v1", Kind: "Plain", Chart: "/charts/plain.tgz"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("watches differ (-want +got):\n%s", diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"an empty file":    {"", "names no kind"},
		"no version":       {"- {kind: A, chart: a}", "version is missing"},
		"no kind":          {"- {version: v1, chart: a}", "kind is missing"},
		"no chart":         {"- {version: v1, kind: A}", "chart is missing"},
		"an unknown field": {"- {version: v1, kind: A, chart: a, chrat: b}", "chrat"},
		"a kind twice": {"- {version: v1, kind: A, chart: a}\n- {version: v2, kind: A, chart: b}",
			"A is named twice"},
		"a large file": {"#" + strings.Repeat("x", maxBytes), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(write(t, c.content))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want one about %q", err, c.want)
			}
		})
	}
}
