package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// watchesFile adds, to the repository's watches.yaml, kinds of example.com whose chart is the shop of the end-to-end tests.
func watchesFile(t *testing.T, kinds ...string) string {
	t.Helper()
	var all []map[string]any
	if err := yaml.Unmarshal(must[[]byte](t)(os.ReadFile(filepath.Join(root, "watches.yaml"))), &all); err != nil {
		t.Fatal(err)
	}
	absolute := func(path string) string { return must[string](t)(filepath.Abs(filepath.Join(root, path))) }
	for _, entry := range all {
		entry["chart"] = absolute(fmt.Sprint(entry["chart"]))
	}
	for _, kind := range kinds {
		all = append(all, map[string]any{"group": "example.com", "version": "v1", "kind": kind, "chart": absolute("test/e2e/testdata/charts/shop")})
	}
	path := filepath.Join(t.TempDir(), "watches.yaml")
	if err := os.WriteFile(path, must[[]byte](t)(yaml.Marshal(all)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// grantKinds lets the operator of a namespace run the kinds of example.com in it, by a role like the one in deploy/.
// What their chart makes is in that one.
func grantKinds(t *testing.T, namespace string, kinds ...string) {
	t.Helper()
	rule := func(suffix string, verbs ...any) map[string]any {
		var resources []any
		for _, kind := range kinds {
			resources = append(resources, strings.ToLower(kind)+"s"+suffix)
		}
		return map[string]any{"apiGroups": []any{"example.com"}, "resources": resources, "verbs": verbs}
	}
	role, binding := objects(t, "role.yaml", namespace)[0], objects(t, "role_binding.yaml", namespace)[0]
	role.SetName("kinds")
	role.Object["rules"] = []any{rule("", "get", "list", "patch", "update", "watch"), rule("/status", "get", "patch", "update"), rule("/finalizers", "update")}
	binding.SetName("kinds")
	if err := unstructured.SetNestedField(binding.Object, "kinds", "roleRef", "name"); err != nil {
		t.Fatal(err)
	}
	apply(t, namespace, role, binding)
}

// TestKinds runs two kinds in one process: LibertyApp, and one that nothing is generated for.
func TestKinds(t *testing.T) {
	t.Parallel()
	own := clustertest.Namespace(t)
	deploy(t, own, own)
	grantKinds(t, own, "Shop")
	op := start(t, own, startOptions{watch: own, watches: watchesFile(t, "Shop")})
	op.awaitReady(t)
	apps := []app{liberty(t, own, "plants", nil), create(t, shops, "Shop", own, "tools", map[string]any{"port": int64(8080)})}
	for _, app := range apps {
		app.awaitReady(t)
		app.awaitHealed(t)
	}
	for _, app := range apps {
		app.remove(t)
	}
	allowed(t, op)
}
