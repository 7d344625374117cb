package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// interrupt upgrades the shop to another greeting and an extra object and dies
// after all of them are applied and before that is on record.
func interrupt(t *testing.T, namespace string, engine reconciler.EngineOptions) {
	t.Helper()
	op := start(t, namespace, operatorOptions{engine: engine})
	create(t, shops, namespace, "shop", nil)
	awaitReady(t, shops, namespace, "shop")
	settle(t, mark(t), namespace, "InstallSuccessful")
	op.stop()
	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome", "extra": true})
	// payload (a status, if it is kept there), password, greeting, extra object
	start(t, namespace, operatorOptions{engine: engine, dieAfter: 4}).crash()
	if _, ok := objects(t, namespace, "shop")["ConfigMap/shop-extra"]; !ok {
		t.Fatal("the extra object was not applied before the crash")
	}
}

// gone waits until the extra object is.
func extraGone(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "the extra object's end", func(ctx context.Context) error {
		_, err := clustertest.Client(t).CoreV1().ConfigMaps(namespace).Get(ctx, "shop-extra", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there: %w", err)
	})
}

// TestUpgradeIsTakenBackAfterACrash reverts the wish while the operator is dead:
// the record is as wanted then, the objects are not.
func TestUpgradeIsTakenBackAfterACrash(t *testing.T) {
	namespace := clustertest.Namespace(t)
	interrupt(t, namespace, reconciler.EngineOptions{})
	change(t, shops, namespace, "shop", map[string]any{"greeting": nil, "extra": nil})
	start(t, namespace, operatorOptions{})
	awaitData(t, namespace, "shop", "hello")
	extraGone(t, namespace)
	status := awaitReady(t, shops, namespace, "shop")
	if status.Release.Revision != 1 || len(status.Inventory) != 5 {
		t.Errorf("revision %d with %d objects, want 1 with 5", status.Release.Revision, len(status.Inventory))
	}
	if n := len(payloads(t, namespace, "shop")); n != 1 {
		t.Errorf("%d payloads are stored, want 1", n)
	}
	remove(t, shops, namespace, "shop")
}

// TestWishChangesAfterACrash asks for a third thing while the operator is dead.
func TestWishChangesAfterACrash(t *testing.T) {
	for name, engine := range map[string]reconciler.EngineOptions{
		"payload in a Secret":   {},
		"payload in the status": {ReleaseStorage: reconciler.StorageStatus, SecretsInStatus: true},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := clustertest.Namespace(t)
			interrupt(t, namespace, engine)
			change(t, shops, namespace, "shop", map[string]any{"greeting": nil, "extra": nil, "port": int64(81)})
			start(t, namespace, operatorOptions{engine: engine})
			awaitReady(t, shops, namespace, "shop")
			awaitData(t, namespace, "shop", "hello")
			extraGone(t, namespace)
			remove(t, shops, namespace, "shop")
		})
	}
}

// TestRecordIsLost drops the status, as a restore from a backup does: revisions
// go on counting and the password stays.
func TestRecordIsLost(t *testing.T) {
	namespace := clustertest.Namespace(t)
	op := start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", nil)
	awaitReady(t, shops, namespace, "shop")
	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome"})
	awaitReady(t, shops, namespace, "shop")
	settle(t, mark(t), namespace, "UpgradeSuccessful")
	drawn := password(t, namespace, "shop")
	op.stop()
	if _, err := resources(t, shops, namespace).Patch(t.Context(), "shop", "application/merge-patch+json", []byte(`{"status":null}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}

	start(t, namespace, operatorOptions{})
	status := awaitReady(t, shops, namespace, "shop")
	if status.Release.Revision != 3 || len(status.Inventory) != 5 {
		t.Errorf("revision %d with %d objects, want 3 with 5", status.Release.Revision, len(status.Inventory))
	}
	if password(t, namespace, "shop") != drawn {
		t.Error("the password was drawn anew")
	}
	remove(t, shops, namespace, "shop")
}

// TestObjectIsTakenWhileNobodyLooks gives an object of a suspended release to
// somebody else.
func TestObjectIsTakenWhileNobodyLooks(t *testing.T) {
	namespace := clustertest.Namespace(t)
	op := start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", nil)
	awaitReady(t, shops, namespace, "shop")
	settle(t, mark(t), namespace, "InstallSuccessful")
	op.stop()
	maps := clustertest.Client(t).CoreV1().ConfigMaps(namespace)
	if err := maps.Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Data: map[string]string{"theirs": "yes"}}
	if _, err := maps.Create(t.Context(), theirs, metav1.CreateOptions{FieldManager: "neighbour"}); err != nil {
		t.Fatal(err)
	}
	start(t, namespace, operatorOptions{})
	awaitStatus(t, shops, namespace, "shop", hasCondition("ReleaseFailed", metav1.ConditionTrue, "Conflict", "ConfigMap"))
	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome"})
	awaitStatus(t, shops, namespace, "shop", hasCondition("ReleaseFailed", metav1.ConditionTrue, "Conflict", "neighbour"))
	got, err := maps.Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || len(got.Data) != 1 || got.Data["theirs"] != "yes" {
		t.Errorf("their object is %v, %v", got.Data, err)
	}
	if err := resources(t, shops, namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "removal of all but theirs", func(context.Context) error {
		if left := objects(t, namespace, "shop"); len(left) != 1 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	if err := maps.Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Errorf("their object is gone: %v", err)
	}
}

// TestFirstInstallFailsAndIsMended: what follows is still an install, for hooks
// and templates.
func TestFirstInstallFailsAndIsMended(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	seen := jobsSeen(t, namespace)
	create(t, shops, namespace, "shop", map[string]any{"hooks": true, "port": int64(99999)})
	awaitStatus(t, shops, namespace, "shop", hasCondition("ReleaseFailed", metav1.ConditionTrue, "InstallError", "port"))
	change(t, shops, namespace, "shop", map[string]any{"port": int64(80)})
	status := awaitReady(t, shops, namespace, "shop")
	awaitStatus(t, shops, namespace, "shop", hasCondition("Deployed", metav1.ConditionTrue, "InstallSuccessful", ""))
	if len(status.Inventory) != 5 {
		t.Errorf("%d objects, want 5", len(status.Inventory))
	}
	for _, job := range seen() {
		if strings.Contains(job, "upgrade") {
			t.Errorf("hook %s ran, though nothing was ever deployed", job)
		}
	}
	remove(t, shops, namespace, "shop")
}

// TestChangeOfAHookAloneIsARevision, because it brings another hook.
func TestChangeOfAHookAloneIsARevision(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, stalls, namespace, "stall", map[string]any{"hooks": true, "hookImage": "1", "fixed": true})
	awaitReady(t, stalls, namespace, "stall")
	change(t, stalls, namespace, "stall", map[string]any{"hookImage": "2"})
	awaitStatus(t, stalls, namespace, "stall", func(s *releasev1alpha1.Status) error {
		if s.Release.Revision != 2 {
			return fmt.Errorf("revision %d, want 2", s.Release.Revision)
		}
		return nil
	})
	remove(t, stalls, namespace, "stall")
}
