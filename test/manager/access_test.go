package manager

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// TestMissingRights watches more than the roles allow. The operator must say so and go on when the roles come.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		watch   func(own, other string) string
		says    func(own, other string) string // the one error
		provide func(t *testing.T, own, other string)
	}{
		{
			name: "all namespaces with the role of one", watch: func(_, _ string) string { return "" },
			says: func(_, _ string) string {
				return "the operator may not list and watch libertyapps.liberty.ibm.com in all namespaces: " +
					"apply cluster_role.yaml and cluster_role_binding.yaml of deploy/cluster, or let WATCH_NAMESPACE name the namespaces that it may work in"
			},
		},
		{
			name: "two namespaces with the role of one", watch: func(own, other string) string { return own + "," + other },
			says: func(_, other string) string {
				return "the operator may not list and watch libertyapps.liberty.ibm.com in namespace " + other + ": apply deploy/role.yaml and deploy/role_binding.yaml there"
			},
			provide: grant,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			own, other := clustertest.Namespace(t), clustertest.Namespace(t)
			deploy(t, own, own)
			op := start(t, own, startOptions{watch: test.watch(own, other)})
			op.awaitLog(t, test.says(own, other))
			op.awaitLeading(t)
			if status, body, err := op.probe(t.Context(), "/readyz"); err != nil || status == http.StatusOK {
				t.Errorf("/readyz answers %d %q, %v", status, body, err)
			}
			if status, body, err := op.probe(t.Context(), "/healthz"); err != nil || status != http.StatusOK {
				t.Errorf("/healthz answers %d %q, %v", status, body, err)
			}
			if test.provide == nil {
				return
			}
			test.provide(t, own, other)
			op.awaitReady(t)
			app := liberty(t, other, "plants", nil)
			app.awaitReady(t)
			app.remove(t)
			op.awaitLog(t, "the operator now sees its resources")
		})
	}
}

// TestNoLeaderElectionRights runs an operator that may not use the Lease: it must not wait for its turn in silence.
func TestNoLeaderElectionRights(t *testing.T) {
	t.Parallel()
	own := clustertest.Namespace(t)
	deploy(t, own, own)
	op := start(t, own, startOptions{watch: own, args: []string{"--leader-election-id=another-lease"}})
	op.awaitLog(t, `leases.coordination.k8s.io \"another-lease\" is forbidden`, `cannot get resource \"leases\"`)
}

// TestUnservedKind names a kind that the cluster does not have. The others are served, and it is when its CRD comes.
func TestUnservedKind(t *testing.T) {
	t.Parallel()
	own := clustertest.Namespace(t)
	deploy(t, own, own)
	grantKinds(t, own, "Kiosk")
	op := start(t, own, startOptions{watch: own, watches: watchesFile(t, "Kiosk")})
	app := liberty(t, own, "plants", nil)
	app.awaitReady(t)
	op.awaitLog(t, "the cluster has no Kiosk.example.com of version v1: apply its CustomResourceDefinition")
	if status, body, err := op.probe(t.Context(), "/readyz"); err != nil || status == http.StatusOK {
		t.Errorf("/readyz answers %d %q, %v", status, body, err)
	}
	installKiosks(t)
	op.awaitReady(t)
	kiosk := create(t, kiosks, "Kiosk", own, "flowers", map[string]any{})
	kiosk.awaitReady(t)
	kiosk.remove(t)
	app.remove(t)
}

// installKiosks serves the kind until the test ends.
func installKiosks(t *testing.T) {
	t.Helper()
	if err := clustertest.Cluster(t).InstallCRDs(t.Context(), []string{"testdata/kiosks.yaml"}); err != nil {
		t.Fatal(err)
	}
	crds := dynamicClient(t).Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := crds.Delete(ctx, "kiosks.example.com", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			_, err := crds.Get(ctx, "kiosks.example.com", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		if err != nil {
			t.Errorf("waiting until the CRD of Kiosk is gone: %v", err)
		}
	})
}

// TestReadyz holds back what the API server answers.
func TestReadyz(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		hold   string // part of the path of what is not answered
		serves bool   // whether probes are answered meanwhile
		args   []string
	}{
		{name: "resources are not listed", hold: "/libertyapps", serves: true},
		{name: "resources are not listed, without election", hold: "/libertyapps", serves: true, args: []string{"--leader-elect=false"}},
		{name: "nothing is answered", hold: "/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			own := clustertest.Namespace(t)
			deploy(t, own, own)
			gate := startGate(t, test.hold)
			op := start(t, own, startOptions{watch: own, gate: gate, args: test.args})
			eventually(t, "the operator asks", func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if status, _, _ := op.probe(ctx, "/readyz"); status == http.StatusOK {
					t.Error("/readyz answers 200 before the operator has seen its resources")
				}
				select {
				case <-gate.reached:
					return nil
				default:
					return fmt.Errorf("it has not asked")
				}
			})
			for range 3 {
				if !test.serves {
					break
				}
				if status, body, err := op.probe(t.Context(), "/readyz"); err != nil || status != http.StatusInternalServerError {
					t.Errorf("/readyz answers %d %q, %v while the list is not answered", status, body, err)
				}
				if status, body, err := op.probe(t.Context(), "/healthz"); err != nil || status != http.StatusOK {
					t.Errorf("/healthz answers %d %q, %v", status, body, err)
				}
			}
			gate.open()
			op.awaitReady(t)
		})
	}
}
