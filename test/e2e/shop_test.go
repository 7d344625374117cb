package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

var (
	shops  = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shops"}
	stalls = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "stalls"}
)

// patience bounds every wait; a healthy machine needs a fraction of it.
const patience = 90 * time.Second

func resources(t *testing.T, gvr schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(gvr).Namespace(namespace)
}

// create creates a shop (or stall) with the given values.
func create(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, spec map[string]any) {
	t.Helper()
	kind := map[string]string{"shops": "Shop", "stalls": "Stall"}[gvr.Resource]
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
	if _, err := resources(t, gvr, namespace).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// change merges values into the spec.
func change(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, spec map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resources(t, gvr, namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// read returns the resource's status, and its generation.
func read(ctx context.Context, r dynamic.ResourceInterface, name string) (*releasev1alpha1.Status, int64, error) {
	obj, err := r.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, 0, err
	}
	status := &releasev1alpha1.Status{}
	if m, ok := obj.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, status); err != nil {
			return nil, 0, err
		}
	}
	return status, obj.GetGeneration(), nil
}

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v; last: %v", what, err, last)
	}
}

// awaitStatus waits until the status of the present generation satisfies check.
func awaitStatus(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, check func(*releasev1alpha1.Status) error) *releasev1alpha1.Status {
	t.Helper()
	r := resources(t, gvr, namespace)
	var status *releasev1alpha1.Status
	eventually(t, gvr.Resource+" "+name, func(ctx context.Context) error {
		s, generation, err := read(ctx, r, name)
		if err != nil {
			return err
		}
		if status = s; s.ObservedGeneration != generation {
			return fmt.Errorf("generation %d observed, %d is there", s.ObservedGeneration, generation)
		}
		return check(s)
	})
	return status
}

// awaitReady waits until the resource is Ready in its present generation.
func awaitReady(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) *releasev1alpha1.Status {
	t.Helper()
	return awaitStatus(t, gvr, namespace, name, hasCondition("Ready", metav1.ConditionTrue, "Ready", ""))
}

// hasCondition checks status and reason of a condition, and that its message has the given part.
func hasCondition(kind string, is metav1.ConditionStatus, reason, part string) func(*releasev1alpha1.Status) error {
	return func(s *releasev1alpha1.Status) error {
		c := meta.FindStatusCondition(s.Conditions, kind)
		if c == nil || c.Status != is || c.Reason != reason || !strings.Contains(c.Message, part) {
			return fmt.Errorf("conditions are %+v, want %s=%s by %s with %q", s.Conditions, kind, is, reason, part)
		}
		return nil
	}
}

// password reads what the chart drew at random.
func password(t *testing.T, namespace, name string) string {
	t.Helper()
	secret, err := clustertest.Client(t).CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["password"])
}

// payloads are the revisions that are stored of a release.
func payloads(t *testing.T, namespace, release string) []corev1.Secret {
	t.Helper()
	list, err := clustertest.Client(t).CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// remove deletes a resource and waits until it and all its objects are gone.
func remove(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	r := resources(t, gvr, namespace)
	if err := r.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, gvr, namespace, name)
}

func awaitGone(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	r := resources(t, gvr, namespace)
	eventually(t, "removal of "+name, func(ctx context.Context) error {
		obj, err := r.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("still there: %v", obj.Object["status"])
	})
	if left := objects(t, namespace, name); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// objects names what there is of a release: objects with its name, by kind.
func objects(t *testing.T, namespace, release string) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "services"}, {Group: "apps", Version: "v1", Resource: "deployments"},
	} {
		list, err := resources(t, gvr, namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			if strings.Contains(item.GetName(), release) {
				out[item.GetKind()+"/"+item.GetName()] = item.GetUID()
			}
		}
	}
	return out
}

// requests returns the operator's requests since a mark, without watches, the
// lists that start them, and leases.
func requests(t *testing.T, since cluster.Mark, namespace string) []cluster.Request {
	t.Helper()
	all, err := clustertest.Cluster(t).Requests(t.Context(), since, cluster.ByUserAgent(agent),
		cluster.ByNamespace(namespace), cluster.Not(cluster.ByVerb("watch", "list")))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func mark(t *testing.T) cluster.Mark {
	t.Helper()
	m, err := clustertest.Cluster(t).Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}
