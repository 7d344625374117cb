package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

var (
	libertyApps = schema.GroupVersionResource{Group: "liberty.ibm.com", Version: "v1alpha1", Resource: "libertyapps"}
	shops       = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shops"}
	kiosks      = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "kiosks"}
)

// app is a custom resource that the operator runs a release for.
type app struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// liberty creates a LibertyApp whose image nobody looks up.
func liberty(t *testing.T, namespace, name string, spec map[string]any) app {
	t.Helper()
	all := map[string]any{
		"image":    map[string]any{"repository": "registry.example.com/app", "tag": "1", "license": "accept"},
		"operator": map[string]any{"images": map[string]any{"pin": "Off"}},
	}
	for key, value := range spec {
		all[key] = value
	}
	return create(t, libertyApps, "LibertyApp", namespace, name, all)
}

func create(t *testing.T, resource schema.GroupVersionResource, kind, namespace, name string, spec map[string]any) app {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	if _, err := dynamicClient(t).Resource(resource).Namespace(namespace).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return app{resource: resource, namespace: namespace, name: name}
}

func (a app) get(ctx context.Context, t *testing.T) (*unstructured.Unstructured, error) {
	t.Helper()
	return dynamicClient(t).Resource(a.resource).Namespace(a.namespace).Get(ctx, a.name, metav1.GetOptions{})
}

// ready says why the resource is not ready, or nothing.
func (a app) ready(ctx context.Context, t *testing.T) error {
	t.Helper()
	obj, err := a.get(ctx, t)
	if err != nil {
		return err
	}
	observed, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if condition := c.(map[string]any); condition["type"] == "Ready" && condition["status"] == "True" && observed == obj.GetGeneration() {
			return nil
		}
	}
	return fmt.Errorf("observed generation %d of %d, conditions %v", observed, obj.GetGeneration(), conditions)
}

func (a app) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, a.resource.Resource+" "+a.name+" is ready", func(ctx context.Context) error { return a.ready(ctx, t) })
}

// patch merges into the spec.
func (a app) patch(t *testing.T, spec map[string]any) {
	t.Helper()
	body := must[[]byte](t)(json.Marshal(map[string]any{"spec": spec}))
	_, err := dynamicClient(t).Resource(a.resource).Namespace(a.namespace).Patch(t.Context(), a.name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// list returns the LibertyApps of a namespace.
func list(t *testing.T, namespace string) []app {
	t.Helper()
	found := must[*unstructured.UnstructuredList](t)(dynamicClient(t).Resource(libertyApps).Namespace(namespace).List(t.Context(), metav1.ListOptions{}))
	var all []app
	for _, obj := range found.Items {
		all = append(all, app{resource: libertyApps, namespace: namespace, name: obj.GetName()})
	}
	return all
}

// remove deletes resources and waits until they, and so their releases, are gone.
func remove(t *testing.T, all []app) {
	t.Helper()
	for _, a := range all {
		client := dynamicClient(t).Resource(a.resource).Namespace(a.namespace)
		if err := client.Delete(t.Context(), a.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range all {
		eventually(t, a.name+" is gone", func(ctx context.Context) error {
			_, err := a.get(ctx, t)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it is there"), err)
		})
	}
}

func (a app) remove(t *testing.T) {
	t.Helper()
	remove(t, []app{a})
}

// service is the name of the app's Service.
func (a app) service() string {
	if a.resource == libertyApps {
		return a.name + "-ibm-websphere-liberty"
	}
	return a.name
}

// awaitHealed deletes the app's Service and waits until it is back.
func (a app) awaitHealed(t *testing.T) {
	t.Helper()
	services := clustertest.Client(t).CoreV1().Services(a.namespace)
	before := must[*corev1.Service](t)(services.Get(t.Context(), a.service(), metav1.GetOptions{}))
	if err := services.Delete(t.Context(), a.service(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Service "+a.service()+" is healed", func(ctx context.Context) error {
		after, err := services.Get(ctx, a.service(), metav1.GetOptions{})
		if err == nil && after.UID == before.UID {
			err = errors.New("it is not deleted yet")
		}
		return err
	})
}

// untouched fails the test if the operator has done anything about the resource.
func (a app) untouched(t *testing.T) {
	t.Helper()
	obj := must[*unstructured.Unstructured](t)(a.get(t.Context(), t))
	if len(obj.GetFinalizers()) > 0 || obj.Object["status"] != nil {
		t.Errorf("the operator took up %s in namespace %s: finalizers %v, status %v", a.name, a.namespace, obj.GetFinalizers(), obj.Object["status"])
	}
}
