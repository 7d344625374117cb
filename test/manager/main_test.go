// Package manager tests the operator's process: the command as it is built, under the token of the ServiceAccount that
// deploy/ makes, with the rights that deploy/ gives and no others.
//
// Tests that watch all namespaces, or stop the API server, run alone and first; the others run side by side.
package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
	"github.com/jkwong888/go-helm-operator/test/registry"
)

const root = "../.."

// patience is how long a condition may take to come true on a busy machine.
const patience = 90 * time.Second

// shared is what all tests use, made when the first asks for it.
var shared struct {
	dir      string
	registry *registry.Registry
	mu       sync.Mutex
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if shared.dir, err = os.MkdirTemp("", "manager-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if shared.registry != nil {
			err = shared.registry.Close()
		}
		if err := errors.Join(err, os.RemoveAll(shared.dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return clustertest.Run(m, cluster.Options{CRDs: []string{root + "/deploy/crds", "../e2e/testdata/crds"}, AuditLog: true})
}

// binary builds the operator once.
func binary(t *testing.T) string {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	path := filepath.Join(shared.dir, "manager")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/manager")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, output)
	}
	return path
}

// The account of the registry. The password must not show up anywhere.
const (
	registryUser     = "puller"
	registryPassword = "seeded-registry-password"
)

// images starts the registry once.
func images(t *testing.T) *registry.Registry {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.registry == nil {
		var err error
		options := registry.Options{Username: registryUser, Password: registryPassword}
		if shared.registry, err = registry.Start(context.WithoutCancel(t.Context()), options); err != nil {
			t.Fatal(err)
		}
	}
	return shared.registry
}

// eventually waits until condition returns nil.
func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v; last: %v", what, err, last)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
