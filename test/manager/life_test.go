package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// TestElection runs two operators on one Lease.
func TestElection(t *testing.T) {
	t.Parallel()
	own := clustertest.Namespace(t)
	deploy(t, own, own)
	first := start(t, own, startOptions{watch: own})
	first.awaitLeading(t)
	second := start(t, own, startOptions{watch: own})
	second.awaitLog(t, "attempting to acquire leader lease")
	second.awaitReady(t) // it knows all resources, and a rolling update waits for it

	app := liberty(t, own, "plants", nil)
	app.awaitReady(t)
	if began := strings.Count(second.output(t), "Starting workers"); began > 0 {
		t.Error("the second operator works while the first holds the Lease")
	}

	began := time.Now()
	if took, status := first.terminate(t); status != 0 {
		t.Errorf("the first operator ended after %v with status %d", took, status)
	}
	app.patch(t, map[string]any{"replicaCount": 2})
	second.awaitLeading(t)
	// client-go asks for a Lease every 2 s and a bit (RetryPeriod, JitterFactor 1.2); one that is not given back takes 15 s to run out.
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the second operator took over after %v; was the Lease given back?", took)
	}
	app.awaitReady(t)
	app.awaitHealed(t)
	app.remove(t)

	second.terminate(t)
	lease := must[*coordinationv1.Lease](t)(clustertest.Client(t).CoordinationV1().Leases(own).Get(t.Context(), "go-helm-operator", metav1.GetOptions{}))
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		t.Errorf("the Lease is still held by %q", *holder)
	}
}

// TestTermination stops operators as the kubelet does, in the states that may keep them.
func TestTermination(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		busy  func(t *testing.T, own string, op *operator) // returns when the operator is in that state
		wider bool                                         // it watches more than it may
	}{
		{name: "idle", busy: func(t *testing.T, own string, _ *operator) {
			t.Helper()
			liberty(t, own, "plants", nil).awaitReady(t)
		}},
		{name: "in the middle of installs", busy: func(t *testing.T, own string, op *operator) {
			t.Helper()
			before := mark(t)
			for i := range 10 {
				liberty(t, own, fmt.Sprint("plants-", i), nil)
			}
			eventually(t, "the operator installs", func(context.Context) error {
				if len(op.requests(t, before, cluster.ByVerb("patch"), cluster.ByResource("deployments"))) == 0 {
					return errors.New("it has applied no Deployment")
				}
				return nil
			})
		}},
		{name: "without rights", wider: true, busy: func(t *testing.T, _ string, op *operator) {
			t.Helper()
			op.awaitLog(t, "the operator may not list and watch")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			own := clustertest.Namespace(t)
			watch := own
			deploy(t, own, own)
			if test.wider {
				watch = ""
			}
			op := start(t, own, startOptions{watch: watch})
			test.busy(t, own, op)
			took, status := op.terminate(t)
			if status != 0 {
				t.Errorf("the operator ended with status %d", status)
			}
			if took > 3*time.Second { // idle: a tenth of a second on an idle machine
				t.Errorf("the operator took %v to end", took)
			}
			t.Logf("the operator took %v to end", took.Round(time.Millisecond))
			for _, complaint := range op.messages(t, "error") {
				// client-go gives up the events and the look at the Lease that are under way.
				if !test.wider && !strings.Contains(complaint, "context canceled") {
					t.Errorf("an orderly end logs %s", complaint)
				}
			}
			start(t, own, startOptions{watch: own}) // finishes what was left
			apps := list(t, own)
			for _, app := range apps {
				app.awaitReady(t)
			}
			remove(t, apps)
		})
	}
}

// idle are the requests of an operator that has nothing to do: watches, and its Lease.
func idle(r cluster.Request) bool {
	return r.Verb == "watch" || r.Resource == "leases"
}

// TestIdle leaves an operator of twenty apps alone, and starts it anew.
func TestIdle(t *testing.T) {
	t.Parallel()
	const apps, quiet = 20, 20 * time.Second
	own := clustertest.Namespace(t)
	deploy(t, own, own)
	first := start(t, own, startOptions{watch: own})
	for i := range apps {
		liberty(t, own, fmt.Sprint("plants-", i), nil)
	}
	all := list(t, own)
	for _, app := range all {
		app.awaitReady(t)
	}
	first.settle(t)

	before := mark(t)
	select {
	case <-time.After(quiet): // nothing is awaited: that nothing happens is the point
	case <-t.Context().Done():
	}
	if busy := first.requests(t, before, cluster.Not(idle)); len(busy) > 0 {
		t.Errorf("with %d apps at rest the operator sent %d requests in %v: %v", apps, len(busy), quiet, busy)
	}
	if leases := first.requests(t, before, cluster.ByResource("leases")); len(leases) == 0 {
		t.Error("the audit log has not even the Lease's renewals, so it proves nothing")
	}
	first.terminate(t)

	before = mark(t)
	second := start(t, own, startOptions{watch: own})
	second.awaitLeading(t)
	second.settle(t)
	checkRestart(t, second, before)

	for _, app := range all {
		if err := app.ready(t.Context(), t); err != nil {
			t.Errorf("after the restart %s is not ready: %v", app.name, err)
		}
	}
	remove(t, all)
}

// checkRestart fails the test unless the operator only looked: once at each kind.
func checkRestart(t *testing.T, op *operator, before cluster.Mark) {
	t.Helper()
	lists := map[string]int{}
	for _, r := range op.requests(t, before) {
		switch {
		case r.Resource == "" && r.Verb == "get": // discovery
		case r.Resource == "leases", r.Resource == "selfsubjectaccessreviews":
		case r.Verb == "create" && r.Resource == "events" && r.Group == "": // who leads; events about resources are in events.k8s.io
		case r.Verb == "list", r.Verb == "watch" && strings.Contains(r.URI, "sendInitialEvents=true"):
			lists[r.Resource]++
		case r.Verb == "watch":
		default:
			t.Errorf("the restarted operator sent %s", r)
		}
	}
	// The resources, the kinds of their objects, and, for what a crash may have left, the names of the payloads.
	want := map[string]int{"libertyapps": 1, "deployments": 1, "services": 1, "configmaps": 1, "serviceaccounts": 1, "secrets": 1}
	if diff := cmp.Diff(want, lists); diff != "" {
		t.Errorf("lists of the restarted operator, -want +got:\n%s", diff)
	}
}

// settle waits until the operator has sent nothing that changes or reads objects for three seconds.
func (o *operator) settle(t *testing.T) {
	t.Helper()
	const still = 3 * time.Second
	eventually(t, "the operator settles", func(ctx context.Context) error {
		before := mark(t)
		select {
		case <-time.After(still):
		case <-ctx.Done():
			return ctx.Err()
		}
		if busy := o.requests(t, before, cluster.Not(idle)); len(busy) > 0 {
			return fmt.Errorf("it sent %v", busy)
		}
		return nil
	})
}
