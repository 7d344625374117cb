package deploy

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// watched is the WATCH_NAMESPACE that the operator deployed in a namespace gets, "own" for the one it is in.
func watched(t *testing.T, namespace string) string {
	t.Helper()
	for _, env := range available(t, namespace).Spec.Template.Spec.Containers[0].Env {
		if env.Name != "WATCH_NAMESPACE" {
			continue
		}
		if env.ValueFrom != nil && env.ValueFrom.FieldRef != nil && env.ValueFrom.FieldRef.FieldPath == "metadata.namespace" {
			return "own"
		}
		return env.Value
	}
	t.Fatal("the operator is deployed without WATCH_NAMESPACE")
	return ""
}

// TestScopes deploys the same operator with one scope after the other: each gives the rights it needs and takes back those of the last.
func TestScopes(t *testing.T) {
	namespace, second, outside := clustertest.Namespace(t), clustertest.Namespace(t), clustertest.Namespace(t)
	undeployAfter(t, namespace)
	all := []string{namespace, second, outside, "kube-system", ""}
	for _, test := range []struct {
		name               string
		env                map[string]string
		watch              string
		watched, unwatched []string
	}{
		{name: "several namespaces become", env: map[string]string{"WATCH_NAMESPACE": namespace + "," + second}, watch: namespace + "," + second,
			watched: []string{namespace, second}, unwatched: []string{outside, "kube-system", ""}},
		{name: "all namespaces", env: map[string]string{"SCOPE": "cluster"}, watch: "", watched: all},
		{name: "its own namespace", watch: "own", watched: []string{namespace}, unwatched: []string{second, outside, "kube-system", ""}},
		{
			name: "several namespaces", env: map[string]string{"WATCH_NAMESPACE": namespace + "," + second}, watch: namespace + "," + second,
			watched: []string{namespace, second}, unwatched: []string{outside, "kube-system", ""},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"NAMESPACE": namespace}
			for name, value := range test.env {
				env[name] = value
			}
			deployWithoutBuild(t, env)
			if diff := cmp.Diff(test.watch, watched(t, namespace)); diff != "" {
				t.Errorf("WATCH_NAMESPACE, -want +got:\n%s", diff)
			}
			checkRights(t, namespace, test.watched, test.unwatched)
		})
	}
	runScript(t, map[string]string{"NAMESPACE": namespace}, "hack/undeploy_operator.sh").succeed(t)
	checkGone(t, namespace)
	if left := kubectl(t, "get", "roles,rolebindings", "-n", second, "-o", "name"); left != "" {
		t.Errorf("undeploying has left %s in a watched namespace", left)
	}
}

// TestPlainApply deploys as the README says, without scripts.
func TestPlainApply(t *testing.T) {
	namespace := restricted(t)
	undeployAfter(t, namespace)
	kubectl(t, "apply", "-f", filepath.Join(root, "deploy/crds"))
	kubectl(t, "apply", "-n", namespace, "-f", filepath.Join(root, "deploy"))
	kubectl(t, "set", "image", "-n", namespace, "deployment/"+operator, "manager="+anImage)
	kubectl(t, "rollout", "status", "-n", namespace, "deployment/"+operator, "--timeout=60s")
	if got := available(t, namespace).Spec.Template.Spec.Containers[0].Image; got != anImage {
		t.Errorf("deployed image is %s, want %s", got, anImage)
	}
	checkRights(t, namespace, []string{namespace}, []string{"default", "kube-system", ""})
	output := kubectl(t, "apply", "-n", namespace, "-f", filepath.Join(root, "deploy/samples"), "--dry-run=server")
	if !strings.Contains(output, "created (server dry run)") {
		t.Errorf("the API server says to the sample: %s", output)
	}
}
