package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// writesOfInstall is how many writes an install of the five objects takes until
// the record is written: finalizer, payload, objects, status. Dying after any of
// them, or before the first, is a case of its own.
const writesOfInstall = 8

func TestInstallSurvivesDeathAfterEachWrite(t *testing.T) {
	for k := range writesOfInstall {
		t.Run(fmt.Sprintf("after %d writes", k+1), func(t *testing.T) {
			t.Parallel()
			namespace := clustertest.Namespace(t)
			first := start(t, namespace, operatorOptions{dieAfter: int64(k + 1)})
			create(t, shops, namespace, "shop", nil)
			first.crash()
			drawn := ""
			if _, ok := objects(t, namespace, "shop")["Secret/shop"]; ok {
				drawn = password(t, namespace, "shop")
			}
			start(t, namespace, operatorOptions{})
			status := awaitReady(t, shops, namespace, "shop")
			if status.Release.Revision != 1 || len(status.Inventory) != 5 {
				t.Errorf("revision %d with %d objects, want 1 with 5", status.Release.Revision, len(status.Inventory))
			}
			if drawn != "" && password(t, namespace, "shop") != drawn {
				t.Error("the password was drawn twice")
			}
			if n := len(payloads(t, namespace, "shop")); n != 1 {
				t.Errorf("%d payloads are stored, want 1", n)
			}
			remove(t, shops, namespace, "shop")
		})
	}
}

func TestUpgradeSurvivesDeathAfterEachWrite(t *testing.T) {
	// payload, two changed objects, one new, the old payload's mark, status
	const writes = 6
	for k := range writes {
		t.Run(fmt.Sprintf("after %d writes", k+1), func(t *testing.T) {
			t.Parallel()
			namespace := clustertest.Namespace(t)
			op := start(t, namespace, operatorOptions{})
			create(t, shops, namespace, "shop", nil)
			awaitReady(t, shops, namespace, "shop")
			settle(t, mark(t), namespace, "InstallSuccessful")
			op.stop()

			change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome", "extra": true})
			start(t, namespace, operatorOptions{dieAfter: int64(k + 1)}).crash()
			start(t, namespace, operatorOptions{})
			status := awaitReady(t, shops, namespace, "shop")
			if status.Release.Revision != 2 || len(status.Inventory) != 6 {
				t.Errorf("revision %d with %d objects, want 2 with 6", status.Release.Revision, len(status.Inventory))
			}
			awaitData(t, namespace, "shop", "welcome")
			settle(t, mark(t), namespace, "")
			statuses := map[string]string{}
			for _, p := range payloads(t, namespace, "shop") {
				statuses[p.Name] = p.Labels["status"]
			}
			want := map[string]string{"sh.helm.release.v1.shop.v1": "superseded", "sh.helm.release.v1.shop.v2": "deployed"}
			if diff := cmp.Diff(want, statuses); diff != "" {
				t.Errorf("payloads (-want +got):\n%s", diff)
			}
			remove(t, shops, namespace, "shop")
		})
	}
}

func TestUninstallSurvivesDeathAfterEachWrite(t *testing.T) {
	// five objects, payload, finalizer
	const writes = 7
	for k := range writes {
		t.Run(fmt.Sprintf("after %d writes", k+1), func(t *testing.T) {
			t.Parallel()
			namespace := clustertest.Namespace(t)
			op := start(t, namespace, operatorOptions{})
			create(t, shops, namespace, "shop", nil)
			awaitReady(t, shops, namespace, "shop")
			settle(t, mark(t), namespace, "InstallSuccessful")
			op.stop()

			if err := resources(t, shops, namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			dying := start(t, namespace, operatorOptions{dieAfter: int64(k + 1)})
			if k == writes-1 {
				// The last write ends the flow; there is no next one to die at.
				awaitGone(t, shops, namespace, "shop")
				dying.stop()
				return
			}
			dying.crash()
			start(t, namespace, operatorOptions{})
			awaitGone(t, shops, namespace, "shop")
		})
	}
}

func TestDeathBetweenInstallAndDeletionLeavesNothing(t *testing.T) {
	namespace := clustertest.Namespace(t)
	first := start(t, namespace, operatorOptions{dieAfter: 5}) // some objects are there, no record is
	create(t, shops, namespace, "shop", nil)
	first.crash()
	if len(objects(t, namespace, "shop")) < 2 {
		t.Fatalf("only %v were applied before the crash", slices.Collect(maps.Keys(objects(t, namespace, "shop"))))
	}
	if err := resources(t, shops, namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	start(t, namespace, operatorOptions{})
	awaitGone(t, shops, namespace, "shop")
}

func TestPayloadLost(t *testing.T) {
	namespace := clustertest.Namespace(t)
	op := start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", nil)
	awaitReady(t, shops, namespace, "shop")
	settle(t, mark(t), namespace, "InstallSuccessful")
	op.stop()
	for _, p := range payloads(t, namespace, "shop") {
		if err := clustertest.Client(t).CoreV1().Secrets(namespace).Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	start(t, namespace, operatorOptions{}) // nothing to heal: nothing is missed
	patch(t, namespace, "configmaps", "shop", `{"data":{"greeting":"hacked"}}`)
	awaitData(t, namespace, "shop", "hello")
	awaitStatus(t, shops, namespace, "shop", func(s *releasev1alpha1.Status) error {
		if s.Release.Revision != 2 {
			return fmt.Errorf("revision %d, want 2: rendered anew", s.Release.Revision)
		}
		return nil
	})
	if !hasEvent(t, namespace, "PayloadLost") {
		t.Error("no event tells that the payload was lost")
	}
	remove(t, shops, namespace, "shop")
}
