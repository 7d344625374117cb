// Package deploy tests what installs the operator: the image, deploy/ and the scripts in hack/, with buildah, a real
// registry and a real control plane. The node is simulated, so where the operator has to work the tests run the image's
// own content as a process, with the token of the ServiceAccount that was deployed.
package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
	"github.com/jkwong888/go-helm-operator/test/registry"
)

const (
	root     = "../.."
	operator = "go-helm-operator"

	username = "deployer"
	password = "pa:ss w0rd" // what is hard to quote
)

var libertyApps = schema.GroupVersionResource{Group: "liberty.ibm.com", Version: "v1alpha1", Resource: "libertyapps"}

// images is the registry of this package's tests.
var images *registry.Registry

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	ctx := context.Background() //nolint:forbidigo // TestMain has no t
	if images, err = registry.Start(ctx, registry.Options{Username: username, Password: password, Progress: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := images.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return clustertest.Run(m, cluster.Options{})
}

// script is one run of a script of ours.
type script struct {
	stdout, stderr string
	err            error
	took           time.Duration
}

// run starts a script, given by its path from the root, with the cluster's kubectl first in PATH and the cluster as its context.
// env comes on top of the environment; of what the scripts read, nothing but that is set.
func runScript(t *testing.T, env map[string]string, path string, args ...string) script {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, path), args...)
	cmd.Env = environment(t, env)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	s := script{stdout: stdout.String(), stderr: stderr.String(), err: err, took: time.Since(start)}
	t.Logf("%s %s took %v", path, strings.Join(args, " "), s.took.Round(time.Millisecond))
	return s
}

func environment(t *testing.T, env map[string]string) []string {
	t.Helper()
	own := map[string]string{
		"PATH":                    filepath.Join(clustertest.Cluster(t).Dir, "bin") + ":" + os.Getenv("PATH"),
		"KUBECONFIG":              clustertest.Kubeconfig(t),
		"CONTAINERS_STORAGE_CONF": storage(t),
		"CONTAINER_TOOL":          "buildah",
		"REGISTRY_TLS_VERIFY":     "false",
		"USERNAME":                username,
		"PASSWORD":                password,
	}
	for name, value := range env {
		own[name] = value
	}
	var all []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		switch name {
		case "IMAGE", "NAMESPACE", "SCOPE", "WATCH_NAMESPACE", "BUILD", "TIMEOUT", "VERSION", "PUSH", "MAKEFLAGS", "MAKELEVEL":
		default:
			if _, set := own[name]; !set {
				all = append(all, pair)
			}
		}
	}
	for name, value := range own {
		all = append(all, name+"="+value)
	}
	return all
}

// storage configures buildah to keep its images in a folder that goes with the test.
func storage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "storage.conf")
	conf := fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", filepath.Join(dir, "graph"), filepath.Join(dir, "run"))
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// succeed fails the test unless the script did what it says.
func (s script) succeed(t *testing.T) script {
	t.Helper()
	if s.err != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", s.err, s.stdout, s.stderr)
	}
	return s
}

// refuse fails the test unless the script ended by itself with an error that says all of this.
func (s script) refuse(t *testing.T, says ...string) {
	t.Helper()
	var exit *exec.ExitError
	if !errors.As(s.err, &exit) || exit.ExitCode() < 1 {
		t.Fatalf("the script ended with %v, want an exit status above 0\nstdout:\n%s\nstderr:\n%s", s.err, s.stdout, s.stderr)
	}
	for _, text := range says {
		if !strings.Contains(s.stderr, text) {
			t.Errorf("the script does not say %q, but:\n%s", text, s.stderr)
		}
	}
}

// clusterCommand is the cluster's own kubectl.
func clusterCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(clustertest.Cluster(t).Dir, "bin", "kubectl"), args...)
	cmd.Env = environment(t, nil)
	return cmd
}

func needBuildah(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Fatalf("this test builds the operator's image: %v; install it with: apt-get install buildah", err)
	}
}

// restricted makes a namespace in which Pod Security admits only what satisfies the standard "restricted".
func restricted(t *testing.T) string {
	t.Helper()
	namespace := clustertest.Namespace(t)
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	namespaces := clustertest.Client(t).CoreV1().Namespaces()
	if _, err := namespaces.Patch(t.Context(), namespace, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "unrestricted"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
	}
	_, err := clustertest.Client(t).CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Fatalf("creating an unrestricted pod: %v, want it refused by PodSecurity, else this namespace proves nothing", err)
	}
	return namespace
}

// eventually waits until the condition holds; its second result says how things are.
func eventually(t *testing.T, what string, condition func(context.Context) (bool, string, error)) {
	t.Helper()
	var state string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (done bool, err error) {
		done, state, err = condition(ctx)
		return done, err
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v; at last: %s", what, err, state)
	}
}

func dynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}
