package deploy

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// TestScriptsSayWhatIsMissing runs them without something they need.
func TestScriptsSayWhatIsMissing(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead := deadContext(t)
	for _, test := range []struct {
		name, script string
		env          map[string]string
		says         []string
	}{
		{"run_local without a context", "hack/run_local.sh", map[string]string{"KUBECONFIG": empty}, []string{"no current kube context", "make cluster-up", "use-context"}},
		{"undeploy without a context", "hack/undeploy_operator.sh", map[string]string{"KUBECONFIG": empty}, []string{"no current kube context"}},
		{"deploy without a context", "hack/deploy_operator.sh", map[string]string{"KUBECONFIG": empty, "IMAGE": anImage}, []string{"no current kube context"}},
		{"run_local with a cluster that is down", "hack/run_local.sh", map[string]string{"KUBECONFIG": dead}, []string{`"dead" does not answer`}},
		{"deploy without an image", "hack/deploy_operator.sh", nil, []string{"set IMAGE"}},
		{"deploy with a wrong scope", "hack/deploy_operator.sh", map[string]string{"IMAGE": anImage, "SCOPE": "galaxy"}, []string{"galaxy", "namespace or cluster"}},
		{"build without an image", "hack/build_image.sh", nil, []string{"set IMAGE"}},
		{"build with a password for nobody", "hack/build_image.sh", map[string]string{"IMAGE": anImage, "USERNAME": ""}, []string{"USERNAME is not"}},
		{"build without a tool", "hack/build_image.sh", map[string]string{"IMAGE": anImage, "CONTAINER_TOOL": "no-such-tool"}, []string{"no-such-tool", "apt-get install buildah"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			runScript(t, test.env, test.script).refuse(t, test.says...)
		})
	}
}

// deadContext is a kubeconfig whose API server nobody runs.
func deadContext(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: dead, clusters: [{name: c, cluster: {server: "http://%s"}}],
contexts: [{name: dead, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}`, freeAddress(t))
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPushRefused gives a wrong password: the script fails, deploys nothing and keeps the password to itself.
func TestPushRefused(t *testing.T) {
	needBuildah(t)
	const wrong = "not-the-password"
	env := map[string]string{"IMAGE": images.Host() + "/ops/refused:1", "NAMESPACE": clustertest.Namespace(t), "PASSWORD": wrong}
	run := runScript(t, env, "hack/deploy_operator.sh")
	run.refuse(t, "ops/refused:1")
	if strings.Contains(run.stdout+run.stderr, wrong) {
		t.Error("the script has printed the password")
	}
	if left := kubectl(t, "get", "deployments", "-n", env["NAMESPACE"], "-o", "name"); left != "" {
		t.Errorf("deployed %s without an image", left)
	}
}

// TestRunLocal runs the operator on this machine against the current context.
func TestRunLocal(t *testing.T) {
	namespace := clustertest.Namespace(t)
	undeployAfter(t, namespace)
	health := freeAddress(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "hack/run_local.sh"), "--health-probe-bind-address="+health)
	cmd.Env = environment(t, map[string]string{"WATCH_NAMESPACE": namespace})
	// The script becomes the operator, so its process gets the signal that Ctrl-C would send.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	output := &safeBuffer{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run_local.sh:\n%s", output)
		}
	})
	eventually(t, "the operator is ready", func(ctx context.Context) (bool, string, error) {
		select {
		case err := <-done:
			return false, "", fmt.Errorf("run_local.sh has ended: %w", err)
		default:
		}
		status, err := get(ctx, http.DefaultClient, "http://"+health+"/readyz", "")
		return status == http.StatusOK, fmt.Sprintf("/readyz answers %d, %v", status, err), nil
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after SIGTERM run_local.sh ends with %v, want success", err)
	}

	deployWithoutBuild(t, map[string]string{"NAMESPACE": namespace})
	runScript(t, map[string]string{"WATCH_NAMESPACE": namespace}, "hack/run_local.sh").
		refuse(t, "already deployed in namespace "+namespace, "--replicas=0")
}
