package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// jobsSeen notes the hook Jobs of a namespace in the order of their creation.
func jobsSeen(t *testing.T, namespace string) func() []string {
	t.Helper()
	w, err := clustertest.Client(t).BatchV1().Jobs(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return func() []string {
		var names []string
		for {
			select {
			case e := <-w.ResultChan():
				if e.Type == watch.Added {
					names = append(names, e.Object.(*batchv1.Job).Name)
				}
			case <-time.After(time.Second): // what was created before is delivered by now
				return names
			}
		}
	}
}

func TestHooksRunInOrder(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	seen := jobsSeen(t, namespace)
	create(t, shops, namespace, "shop", map[string]any{"hooks": true})
	awaitReady(t, shops, namespace, "shop")
	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome"})
	awaitReady(t, shops, namespace, "shop")
	awaitData(t, namespace, "shop", "welcome")
	left, err := clustertest.Client(t).BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(left.Items, func(j batchv1.Job) bool { return j.Name == "shop-post-install" }) {
		t.Error("the hook that is to be deleted when it succeeds is still there")
	}
	remove(t, shops, namespace, "shop")
	want := []string{"shop-pre-install", "shop-post-install", "shop-pre-upgrade", "shop-post-upgrade", "shop-pre-delete", "shop-post-delete"}
	if diff := cmp.Diff(want, seen()); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

func TestFailingHookStopsTheUpgradeUntilItIsMended(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", map[string]any{"hooks": true})
	awaitReady(t, shops, namespace, "shop")
	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome", "hookFails": true})
	awaitStatus(t, shops, namespace, "shop", hasCondition("ReleaseFailed", metav1.ConditionTrue, "UpgradeError", "shop-pre-upgrade"))
	awaitData(t, namespace, "shop", "hello")
	change(t, shops, namespace, "shop", map[string]any{"hookFails": false})
	awaitReady(t, shops, namespace, "shop")
	awaitData(t, namespace, "shop", "welcome")
	remove(t, shops, namespace, "shop")
}

func TestPayloadInStatus(t *testing.T) {
	namespace := clustertest.Namespace(t)
	op := start(t, namespace, operatorOptions{engine: reconciler.EngineOptions{ReleaseStorage: reconciler.StorageStatus, SecretsInStatus: true}})
	create(t, shops, namespace, "shop", nil)
	status := awaitReady(t, shops, namespace, "shop")
	if len(status.Release.Payload) == 0 {
		t.Error("the status holds no payload")
	}
	if n := len(payloads(t, namespace, "shop")); n != 0 {
		t.Errorf("%d payloads are stored in Secrets, want none", n)
	}
	drawn := password(t, namespace, "shop")
	patch(t, namespace, "configmaps", "shop", `{"data":{"greeting":"hacked"}}`)
	awaitData(t, namespace, "shop", "hello")
	op.stop()

	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome", "extra": true})
	// Dies in the middle of the upgrade: status, then three objects.
	start(t, namespace, operatorOptions{dieAfter: 2,
		engine: reconciler.EngineOptions{ReleaseStorage: reconciler.StorageStatus, SecretsInStatus: true}}).crash()
	start(t, namespace, operatorOptions{engine: reconciler.EngineOptions{ReleaseStorage: reconciler.StorageStatus, SecretsInStatus: true}})
	status = awaitReady(t, shops, namespace, "shop")
	awaitData(t, namespace, "shop", "welcome")
	if status.Release.Revision != 2 || len(status.Inventory) != 6 {
		t.Errorf("revision %d with %d objects, want 2 with 6", status.Release.Revision, len(status.Inventory))
	}
	if password(t, namespace, "shop") == drawn {
		t.Error("the upgrade did not render")
	}
	remove(t, shops, namespace, "shop")
}

func TestPayloadInStatusRefusesSecrets(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{engine: reconciler.EngineOptions{ReleaseStorage: reconciler.StorageStatus}})
	create(t, shops, namespace, "shop", nil)
	awaitStatus(t, shops, namespace, "shop", hasCondition("ReleaseFailed", metav1.ConditionTrue, "InstallError", "renders Secrets"))
	if left := objects(t, namespace, "shop"); len(left) != 0 {
		t.Errorf("objects were applied: %v", left)
	}
	remove(t, shops, namespace, "shop")
}

func TestReleaseNameIsTakenByAnotherKind(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", nil)
	awaitReady(t, shops, namespace, "shop")
	before := objects(t, namespace, "shop")
	create(t, stalls, namespace, "shop", nil)
	awaitStatus(t, stalls, namespace, "shop", hasCondition("ReleaseFailed", metav1.ConditionTrue, "Conflict", "Shop "+namespace+"/shop"))

	// Removing the refused one takes nothing from the other.
	if err := resources(t, stalls, namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "removal of the stall", func(ctx context.Context) error {
		_, err := resources(t, stalls, namespace).Get(ctx, "shop", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there: %w", err)
	})
	if diff := cmp.Diff(before, objects(t, namespace, "shop")); diff != "" {
		t.Errorf("objects of the shop (-before +after):\n%s", diff)
	}
	remove(t, shops, namespace, "shop")
}

func TestKeptObjectStays(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", map[string]any{"keep": true})
	awaitReady(t, shops, namespace, "shop")
	if err := resources(t, shops, namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "removal of all but the kept", func(context.Context) error {
		left := slices.Sorted(maps.Keys(objects(t, namespace, "shop")))
		if !slices.Equal(left, []string{"ConfigMap/shop"}) {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

func TestSuspendedReleaseIsLeftAlone(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", nil)
	awaitReady(t, shops, namespace, "shop")
	change(t, shops, namespace, "shop", map[string]any{"operator": map[string]any{"suspend": true}, "greeting": "welcome"})
	awaitStatus(t, shops, namespace, "shop", hasCondition("Ready", metav1.ConditionTrue, "Suspended", ""))
	from := mark(t)
	patch(t, namespace, "configmaps", "shop", `{"data":{"greeting":"hacked"}}`)
	budget(t, from, namespace, "drift while suspended", 0, "")
	awaitData(t, namespace, "shop", "hacked")
	change(t, shops, namespace, "shop", map[string]any{"operator": nil})
	awaitReady(t, shops, namespace, "shop")
	awaitData(t, namespace, "shop", "welcome")
	remove(t, shops, namespace, "shop")
}

// TestFightIsNamed lets another manager undo each heal.
func TestFightIsNamed(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", nil)
	awaitReady(t, shops, namespace, "shop")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	client := clustertest.Client(t)
	w, err := client.CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=shop"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for e := range w.ResultChan() {
			if cm, ok := e.Object.(*corev1.ConfigMap); ok && cm.Data["greeting"] != "mine" {
				cm.Data["greeting"] = "mine"
				_, _ = client.CoreV1().ConfigMaps(namespace).Update(ctx, cm, metav1.UpdateOptions{FieldManager: "rival"})
			}
		}
	}()
	awaitStatus(t, shops, namespace, "shop", hasCondition("ReleaseFailed", metav1.ConditionTrue, "Contested", "rival"))
	stop()
	awaitData(t, namespace, "shop", "hello")
	awaitReady(t, shops, namespace, "shop")
	remove(t, shops, namespace, "shop")
}

func TestNamespaceIsDeleted(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	client := clustertest.Client(t).CoreV1().Namespaces()
	own, err := client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "passing-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, own.Name, operatorOptions{})
	create(t, shops, own.Name, "shop", map[string]any{"hooks": true})
	awaitReady(t, shops, own.Name, "shop")
	if err := client.Delete(t.Context(), own.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace's end", func(ctx context.Context) error {
		ns, err := client.Get(ctx, own.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		var why []string
		if err == nil {
			for _, c := range ns.Status.Conditions {
				why = append(why, c.Message)
			}
		}
		return errors.Join(err, errors.New(strings.Join(why, "; ")))
	})
}

func TestHistoryIsBounded(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	limit := map[string]any{"release": map[string]any{"maxHistory": int64(3)}}
	create(t, shops, namespace, "shop", map[string]any{"operator": limit})
	awaitReady(t, shops, namespace, "shop")
	for i := range 4 {
		change(t, shops, namespace, "shop", map[string]any{"greeting": fmt.Sprint("hello ", i)})
		awaitReady(t, shops, namespace, "shop")
	}
	status := awaitStatus(t, shops, namespace, "shop", func(*releasev1alpha1.Status) error { return nil })
	var kept []int64
	for _, h := range status.History {
		kept = append(kept, h.Revision)
	}
	if diff := cmp.Diff([]int64{4, 3}, kept); diff != "" || status.Release.Revision != 5 {
		t.Errorf("revision %d, history (-want +got):\n%s", status.Release.Revision, diff)
	}
	if n := len(payloads(t, namespace, "shop")); n != 3 {
		t.Errorf("%d payloads, want 3", n)
	}
	remove(t, shops, namespace, "shop")
}
