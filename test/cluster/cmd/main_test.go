package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jkwong888/go-helm-operator/test/cluster"
)

// run runs the command for the cluster in dir.
func run(t *testing.T, dir string, args ...string) (output string, err error) {
	t.Helper()
	root := command()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(append(args, "--dir", dir))
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}

// mustRun also checks what the command says.
func mustRun(t *testing.T, want, dir string, args ...string) {
	t.Helper()
	output, err := run(t, dir, args...)
	if err != nil || !strings.Contains(output, want) {
		t.Fatalf("%v: %v\n%s\nwant %q", args, err, output, want)
	}
}

// place returns a folder for a cluster that is down when the test ends.
func place(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	t.Cleanup(func() {
		c, err := cluster.Open(dir)
		if errors.Is(err, cluster.ErrNoCluster) {
			return
		}
		if err == nil {
			err = c.Stop()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return dir
}

func open(t *testing.T, dir string) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// uid returns what tells one cluster from the next.
func uid(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(namespace.UID)
}

func TestUpStatusDown(t *testing.T) {
	dir := place(t)
	if output, err := run(t, dir, "status"); !errors.Is(err, cluster.ErrNoCluster) {
		t.Errorf("status before up: %v\n%s", err, output)
	}
	mustRun(t, "There is no control plane", dir, "down")

	mustRun(t, "export KUBECONFIG="+filepath.Join(dir, "kubeconfig"), dir, "up", "--crds", "../testdata/crds")
	first := uid(t, open(t, dir))
	mustRun(t, "is up already", dir, "up")
	if again := uid(t, open(t, dir)); again != first {
		t.Error("up replaced a cluster that runs")
	}
	mustRun(t, "kube-apiserver           runs", dir, "status")

	// A cluster that has lost a part is of no use to anybody and is replaced.
	if err := open(t, dir).Signal(cluster.Kwok, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for open(t, dir).Components()[cluster.Kwok] { // dying
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := run(t, dir, "status"); err == nil || !strings.Contains(err.Error(), "kwok does not run") {
		t.Errorf("status without kwok: %v\n%s", err, output)
	}
	mustRun(t, "Kubernetes "+cluster.Version+" is up", dir, "up")
	if again := uid(t, open(t, dir)); again == first {
		t.Error("up kept a cluster that had lost a part")
	}

	c := open(t, dir)
	mustRun(t, "is gone", dir, "down")
	for name, running := range c.Components() {
		if running {
			t.Errorf("%s still runs after down", name)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder after down: %v; want none", err)
	}
}

func TestUpTwiceAtOnceStartsOne(t *testing.T) {
	dir := place(t)
	var group sync.WaitGroup
	outputs, errs := make([]string, 2), make([]error, 2)
	for i := range outputs {
		group.Go(func() { outputs[i], errs[i] = run(t, dir, "up") })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	both := strings.Join(outputs, "")
	if strings.Count(both, "is up in") != 1 || strings.Count(both, "is up already") != 1 {
		t.Errorf("output:\n%s", both)
	}
}

func TestUpThatFailsLeavesNothing(t *testing.T) {
	dir := place(t)
	notCRD := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(notCRD, []byte("apiVersion: v1\nkind: Service\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := run(t, dir, "up", "--crds", notCRD)
	if err == nil || !strings.Contains(err.Error(), notCRD) {
		t.Errorf("up with a Service for a definition: %v\n%s", err, output)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder afterwards: %v; want none", err)
	}
}
