// Package api_test speaks to a real API server about the LibertyApp API as users do, with kubectl.
package api_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{}))
}

const (
	crdFile    = "../../deploy/crds/liberty.ibm.com_libertyapps.yaml"
	sampleFile = "../../deploy/samples/liberty_v1alpha1_libertyapp.yaml"
)

// kubectl runs kubectl as the administrator and returns what it prints to its standard output and, if it fails, to its
// standard error.
func kubectl(t *testing.T, stdin string, args ...string) (stdout, failure string) {
	t.Helper()
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		binary = filepath.Join(clustertest.Cluster(t).Dir, "bin", "kubectl")
	}
	// Cleanups run it too, when the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, append([]string{"--kubeconfig", clustertest.Kubeconfig(t)}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	// Its discovery cache would outlive the cluster.
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(os.TempDir(), "kubectl-cache", filepath.Base(filepath.Dir(clustertest.Kubeconfig(t)))))
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) && exit.Exited() {
		return out.String(), errOut.String()
	} else if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), ""
}

// mustKubectl is kubectl where failing ends the test.
func mustKubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, failure := kubectl(t, stdin, args...)
	if failure != "" {
		t.Fatalf("kubectl %s: %s", strings.Join(args, " "), failure)
	}
	return out
}

var install sync.Once

// installed applies deploy/crds as README says, once for all tests, and waits until the API server serves the kind.
func installed(t *testing.T) {
	t.Helper()
	install.Do(func() {
		t.Log(mustKubectl(t, "", "apply", "-f", "../../deploy/crds"))
		awaitEstablished(t, "../../deploy/crds")
	})
}

// awaitEstablished waits until the API server serves the kinds of a folder of CRDs.
func awaitEstablished(t *testing.T, folder string) {
	t.Helper()
	// A CRD so new that it has no conditions yet makes kubectl's wait for one fail at once instead of waiting; ask again.
	var failure string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, failure = kubectl(t, "", "wait", "--for=condition=Established", "--timeout=50s", "-f", folder)
		return failure == "", nil
	})
	if err != nil {
		t.Fatalf("waiting for the CRDs in %s: %v; at last: %s", folder, err, failure)
	}
}
