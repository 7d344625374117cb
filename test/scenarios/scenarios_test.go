package scenarios

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
	"github.com/jkwong888/go-helm-operator/test/registry"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: []string{"../../deploy/crds", "testdata/crds"}, AuditLog: true}))
}

// together is how many scenarios play at the same time. Each is a process of the operator that mostly waits.
const together = 3

// TestScenarios plays every folder that has a scenario.yaml; -run TestScenarios/NAME plays one.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("*/scenario.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no scenarios: %v", err)
	}
	env := start(t)
	places := make(chan struct{}, together)
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(dir, func(t *testing.T) {
			s, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(s.Description)
			if !s.Alone {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
			}
			env.play(t, s)
		})
	}
}

// start builds the operator and starts the registry that the scenarios share.
func start(t *testing.T) *environment {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	env := &environment{cluster: clustertest.Cluster(t), root: root, manager: filepath.Join(t.TempDir(), "manager")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", env.manager, "./cmd/manager")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, output)
	}
	// Subtests end after this function returns, but before its cleanups.
	env.registry, err = registry.Start(context.WithoutCancel(t.Context()), registry.Options{Username: registryUser, Password: registryPassword()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.registry.Close(); err != nil {
			t.Error(err)
		}
	})
	return env
}
