package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/release"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestUnreadableSpecIsToldAndDoesNotBlockRemoval(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", map[string]any{})
	awaitReady(t, shops, namespace, "shop")
	change(t, shops, namespace, "shop", map[string]any{"operator": "x"})
	status := awaitStatus(t, shops, namespace, "shop", hasCondition("Irreconcilable", metav1.ConditionTrue, "InvalidSpec", "spec.operator"))
	if err := hasCondition("Ready", metav1.ConditionFalse, "InvalidSpec", "spec.operator")(status); err != nil {
		t.Error(err)
	}
	awaitEvent(t, namespace, "InvalidSpec")
	if status.Release == nil || len(status.Inventory) != 5 {
		t.Errorf("release %v with inventory %v, want those of before", status.Release, status.Inventory)
	}
	change(t, shops, namespace, "shop", map[string]any{"operator": nil})
	awaitReady(t, shops, namespace, "shop")
	change(t, shops, namespace, "shop", map[string]any{"operator": "x"})
	remove(t, shops, namespace, "shop")
}

// TestUnreadableStatusIsNoMissingRecord has somebody write over the record.
func TestUnreadableStatusIsNoMissingRecord(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", map[string]any{})
	awaitReady(t, shops, namespace, "shop")
	before := objects(t, namespace, "shop")
	patchStatus(t, shops, namespace, "shop", `{"release":"x"}`)
	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome"})
	raw := awaitRaw(t, shops, namespace, "shop", func(status map[string]any) error {
		conditions, _, _ := unstructured.NestedSlice(status, "conditions")
		for _, c := range conditions {
			m := c.(map[string]any)
			if m["type"] == "Irreconcilable" && m["status"] == "True" && m["reason"] == "InvalidStatus" && strings.Contains(fmt.Sprint(m["message"]), "status.release") {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", conditions)
	})
	if raw["release"] != "x" {
		t.Errorf("the record became %v", raw["release"])
	}
	if diff := cmp.Diff(before, objects(t, namespace, "shop")); diff != "" {
		t.Errorf("objects changed: %s", diff)
	}
	awaitEvent(t, namespace, "InvalidStatus")
	remove(t, shops, namespace, "shop")
}

func TestStatusOfOthersIsLeftAlone(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{})
	create(t, shops, namespace, "shop", map[string]any{})
	awaitReady(t, shops, namespace, "shop")
	patchStatus(t, shops, namespace, "shop", `{"visitors":5}`)
	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome"})
	awaitReady(t, shops, namespace, "shop")
	raw := awaitRaw(t, shops, namespace, "shop", func(map[string]any) error { return nil })
	if raw["visitors"] != int64(5) {
		t.Errorf("the field of another controller became %v", raw["visitors"])
	}
}

func TestClusterScopedKindsAreRefused(t *testing.T) {
	namespace := clustertest.Namespace(t)
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Fair"}
	start(t, namespace, operatorOptions{add: func(mgr manager.Manager, engine *reconciler.Engine) error {
		r, err := reconciler.New(reconciler.WithGroupVersionKind(gvk), reconciler.WithChart(chartPath(t, "shop")))
		if err != nil {
			return err
		}
		err = r.SetupWithManager(mgr, engine)
		if err == nil || !strings.Contains(err.Error(), "Fair.example.com is cluster-scoped") {
			return fmt.Errorf("setting up a cluster-scoped kind: %w", errors.Join(errors.New("want a refusal"), err))
		}
		return nil
	}})
}

// door is an input that holds releases while it is shut.
type door struct {
	shut   atomic.Bool
	passes atomic.Int64
}

func (d *door) Prepare(context.Context, *reconciler.Pass) (reconciler.Prepared, error) {
	d.passes.Add(1)
	if d.shut.Load() {
		return nil, &release.HoldError{Reason: "Shut", Message: "waiting for the door"}
	}
	return open{}, nil
}
func (d *door) Cleanup(context.Context, *reconciler.Pass) error { return nil }
func (d *door) Forget(reconciler.Key)                           {}

type open struct{}

func (open) Digest() string                                              { return "" }
func (open) Resolve(context.Context, []*unstructured.Unstructured) error { return nil }
func (open) Transform(*unstructured.Unstructured) error                  { return nil }
func (open) Recorded()                                                   {}

// TestAHeldGenerationIsNotReady holds a release before and after its generation
// is rolled out.
func TestAHeldGenerationIsNotReady(t *testing.T) {
	namespace := clustertest.Namespace(t)
	d := &door{}
	start(t, namespace, operatorOptions{add: func(mgr manager.Manager, engine *reconciler.Engine) error {
		r, err := reconciler.New(reconciler.WithGroupVersionKind(shops.GroupVersion().WithKind("Shop")),
			reconciler.WithChart(chartPath(t, "shop")), reconciler.WithInput(d))
		if err != nil {
			return err
		}
		return r.SetupWithManager(mgr, engine)
	}})
	create(t, shops, namespace, "shop", map[string]any{})
	awaitReady(t, shops, namespace, "shop")
	d.shut.Store(true)
	change(t, shops, namespace, "shop", map[string]any{"greeting": "welcome"})
	awaitStatus(t, shops, namespace, "shop", hasCondition("Ready", metav1.ConditionFalse, "Progressing", "waiting for the door"))
	d.shut.Store(false)
	annotate := func(value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"look":%q}}}`, value)
		if _, err := resources(t, shops, namespace).Patch(t.Context(), "shop", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	annotate("open")
	awaitReady(t, shops, namespace, "shop")

	// What is in place does not become unready because an input cannot tell.
	d.shut.Store(true)
	for _, again := range []string{"once", "twice"} { // when the second pass begins the first is on record
		passes := d.passes.Load()
		annotate(again)
		eventually(t, "another pass", func(context.Context) error {
			if d.passes.Load() == passes {
				return errors.New("none yet")
			}
			return nil
		})
	}
	awaitReady(t, shops, namespace, "shop")
}

func patchStatus(t *testing.T, gvr schema.GroupVersionResource, namespace, name, status string) {
	t.Helper()
	patch := []byte(`{"status":` + status + `}`)
	if _, err := resources(t, gvr, namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// awaitRaw waits for a status of the present generation, whatever is in it.
func awaitRaw(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, check func(map[string]any) error) map[string]any {
	t.Helper()
	var status map[string]any
	eventually(t, "status of "+name, func(ctx context.Context) error {
		obj, err := resources(t, gvr, namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, _, _ = unstructured.NestedMap(obj.Object, "status")
		if status["observedGeneration"] != obj.GetGeneration() {
			return fmt.Errorf("generation %v observed, %d is there", status["observedGeneration"], obj.GetGeneration())
		}
		return check(status)
	})
	return status
}

func awaitEvent(t *testing.T, namespace, reason string) {
	t.Helper()
	eventually(t, "event "+reason, func(ctx context.Context) error {
		list, err := clustertest.Client(t).EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == reason }) {
			return nil
		}
		return fmt.Errorf("none among %d", len(list.Items))
	})
}
