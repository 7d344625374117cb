package libertyapp

import (
	"os"
	"testing"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{}))
}
