package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// TestRequestBudgets walks a release through its life and counts what each flow
// costs the API server.
func TestRequestBudgets(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "warm", nil) // the kinds are watched from here on
	awaitReady(t, shops, namespace, "warm")
	const objectCount = 5

	from := mark(t)
	create(t, shops, namespace, "shop", nil)
	installed := awaitReady(t, shops, namespace, "shop")
	if len(installed.Inventory) != objectCount {
		t.Fatalf("inventory has %d objects, want %d", len(installed.Inventory), objectCount)
	}
	budget(t, from, namespace, "install", 2*objectCount+5, "InstallSuccessful")

	from = mark(t)
	change(t, shops, namespace, "shop", map[string]any{"operator": map[string]any{}})
	awaitReady(t, shops, namespace, "shop")
	budget(t, from, namespace, "a change that changes no object", 1, "")

	before := password(t, namespace, "shop")
	from = mark(t)
	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome"})
	awaitReady(t, shops, namespace, "shop")
	// Two objects change: the greeting, and the password that a render draws anew.
	budget(t, from, namespace, "upgrade", 2+4, "UpgradeSuccessful")

	drawn := password(t, namespace, "shop")
	if drawn == before {
		t.Error("the upgrade did not render the password anew; the test counts the wrong objects")
	}
	from = mark(t)
	patch(t, namespace, "configmaps", "shop", `{"data":{"greeting":"hacked"}}`)
	awaitData(t, namespace, "shop", "welcome")
	budget(t, from, namespace, "heal of a changed object", 2, "Healed")

	from = mark(t)
	services := clustertest.Client(t).CoreV1().Services(namespace)
	if err := services.Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "healing the Service", func(ctx context.Context) error {
		_, err := services.Get(ctx, "shop", metav1.GetOptions{})
		return err
	})
	budget(t, from, namespace, "heal of a deleted object", 2, "Healed")
	if got := password(t, namespace, "shop"); got != drawn {
		t.Error("healing drew another password")
	}

	from = mark(t)
	annotate(t, namespace, "deployments", "shop") // somebody else's field: no drift
	budget(t, from, namespace, "a foreign field", 0, "")
	if size := statusBytes(t, namespace, "shop"); size > 4<<10 {
		t.Errorf("the status takes %d bytes, want at most 4 KiB", size)
	}
}

// budget waits until the operator is quiet and checks what it asked since. With
// an event it first waits for that, because events are sent beside the flow.
func budget(t *testing.T, from cluster.Mark, namespace, flow string, most int, event string) {
	t.Helper()
	settle(t, from, namespace, event)
	all := requests(t, from, namespace)
	t.Logf("%s: %d requests, %d allowed", flow, len(all), most)
	if len(all) <= most {
		return
	}
	t.Errorf("%s took %d requests, want at most %d:", flow, len(all), most)
	for _, r := range all {
		t.Log(r)
	}
}

// quiet is how long nothing may be asked before a flow counts as over: longer
// than any delay of the operator's own (a write of mere progress waits 1 s).
const quiet = 1500 * time.Millisecond

// settle waits until the event was sent and no request came for a while.
func settle(t *testing.T, from cluster.Mark, namespace, event string) {
	t.Helper()
	since, count := time.Now(), -1
	eventually(t, "quiet after "+event, func(context.Context) error {
		all := requests(t, from, namespace)
		if len(all) != count {
			since, count = time.Now(), len(all)
		}
		if event != "" && !hasEvent(t, namespace, event) {
			return fmt.Errorf("no event %s yet", event)
		}
		if left := quiet - time.Since(since); left > 0 {
			return fmt.Errorf("quiet for %s less than wanted", left)
		}
		return nil
	})
}

func hasEvent(t *testing.T, namespace, reason string) bool {
	t.Helper()
	list, err := clustertest.Client(t).EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason {
			return true
		}
	}
	return false
}

func patch(t *testing.T, namespace, resource, name, body string) {
	t.Helper()
	gvr := corev1.SchemeGroupVersion.WithResource(resource)
	if resource == "deployments" {
		gvr.Group = "apps"
	}
	if _, err := resources(t, gvr, namespace).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
}

func annotate(t *testing.T, namespace, resource, name string) {
	t.Helper()
	patch(t, namespace, resource, name, `{"metadata":{"annotations":{"example.com/note":"mine"}}}`)
}

func awaitData(t *testing.T, namespace, name, greeting string) {
	t.Helper()
	eventually(t, "ConfigMap "+name, func(ctx context.Context) error {
		cm, err := clustertest.Client(t).CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && cm.Data["greeting"] != greeting {
			return fmt.Errorf("greeting is %q, want %q", cm.Data["greeting"], greeting)
		}
		return err
	})
}

func statusBytes(t *testing.T, namespace, name string) int {
	t.Helper()
	obj, err := resources(t, shops, namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status, _, err := unstructured.NestedMap(obj.Object, "status")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}
