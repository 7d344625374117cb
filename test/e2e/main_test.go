// Package e2e tests the engine on a whole control plane: what each flow costs in
// requests, and that it ends well wherever the operator dies in it. Operators run
// in the test process, so that a test can cut them off at any request; the
// scenarios run the real binary.
package e2e

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: []string{"testdata/crds"}, AuditLog: true}))
}
