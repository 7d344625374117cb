package manager

import (
	"strings"
	"testing"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// TestAllNamespaces comes first and alone, because its operator takes up whatever the cluster has.
func TestAllNamespaces(t *testing.T) {
	own, other := clustertest.Namespace(t), clustertest.Namespace(t)
	deploy(t, own)
	op := start(t, own, startOptions{})
	inOwn, inOther := liberty(t, own, "plants", nil), liberty(t, other, "plants", nil)
	for _, app := range []app{inOwn, inOther} {
		app.awaitReady(t)
		app.awaitHealed(t)
	}
	for _, app := range []app{inOwn, inOther} {
		app.remove(t)
	}
	allowed(t, op)
}

func TestWatchedNamespaces(t *testing.T) {
	for _, test := range []struct {
		name  string
		watch func(own, other string) []string
	}{
		{name: "its own", watch: func(own, _ string) []string { return []string{own} }},
		{name: "another", watch: func(_, other string) []string { return []string{other} }},
		{name: "several", watch: func(own, other string) []string { return []string{own, other} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			own, other, unwatched := clustertest.Namespace(t), clustertest.Namespace(t), clustertest.Namespace(t)
			watched := test.watch(own, other)
			deploy(t, own, watched...)
			alone := liberty(t, unwatched, "plants", nil)
			op := start(t, own, startOptions{watch: strings.Join(watched, ", ")})
			var apps []app
			for _, namespace := range watched {
				apps = append(apps, liberty(t, namespace, "plants", nil))
			}
			for _, app := range apps {
				app.awaitReady(t)
				app.awaitHealed(t)
				app.remove(t)
			}
			alone.untouched(t)
			if touched := op.requests(t, cluster.Mark{}, cluster.ByNamespace(unwatched)); len(touched) > 0 {
				t.Errorf("the operator asked about a namespace that it does not watch: %v", touched)
			}
			allowed(t, op)
		})
	}
}

// allowed fails the test if the API server has refused the operator anything: deploy/ grants all that it asks for.
// What it asks on the chance, it asks by SelfSubjectAccessReview.
func allowed(t *testing.T, op *operator) {
	t.Helper()
	refused := op.requests(t, cluster.Mark{}, func(r cluster.Request) bool { return r.Code == 401 || r.Code == 403 })
	if len(refused) > 0 {
		t.Errorf("the operator was refused %d requests, the first is %s", len(refused), refused[0])
	}
}
