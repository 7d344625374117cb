package chart_test

import (
	"flag"
	"os"
	"testing"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(clustertest.Run(m, cluster.Options{}))
}
