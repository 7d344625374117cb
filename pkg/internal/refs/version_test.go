package refs_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func dynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// readList returns the version of the Secrets of a namespace as they are read.
func readList(t *testing.T, namespace, selector string) string {
	t.Helper()
	list, err := dynamicClient(t).Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).
		List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return refs.ObjectVersion(list.UnstructuredContent())
}

func TestWhatReleasesMakeIsNotOfACollection(t *testing.T) {
	namespace := clustertest.Namespace(t)
	secrets := clustertest.Client(t).CoreV1().Secrets(namespace)
	for name, label := range map[string]map[string]string{
		"applied": {releasev1alpha1.OwnerLabel: "app.example.com"}, "payload": {"owner": "helm"}, "other": {"foreign": "yes"},
	} {
		if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: label}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want := readList(t, namespace, "foreign")
	if empty := readList(t, namespace, "nobody"); want == empty {
		t.Fatalf("a list of one and an empty one have the same version, %q", want)
	}
	if got := readList(t, namespace, ""); got != want {
		t.Errorf("the list that is read has version %q, what is not ours has %q", got, want)
	}
	w, told := watcher(t, clustertest.Config(t))
	ref := secret(namespace, "")
	w.Set("app", ref)
	await(t, told, "listed", func() bool { return w.Version(ref) == want })
}

// TestOwnRecordIsNoChange has a resource with a release, whose status is the
// operator's record; it tells by the finalizer.
func TestOwnRecordIsNoChange(t *testing.T) {
	resource := func(revision string, generation int64, note string) map[string]any {
		return map[string]any{"apiVersion": "example.com/v1", "kind": "App", "metadata": map[string]any{
			"name": "app", "uid": "1", "resourceVersion": revision, "generation": generation,
			"annotations": map[string]any{"note": note}, "finalizers": []any{releasev1alpha1.Finalizer},
		}}
	}
	version := refs.ObjectVersion(resource("1", 1, "a"))
	if got := refs.ObjectVersion(resource("2", 1, "a")); got != version {
		t.Errorf("a change of the status makes version %q of %q", got, version)
	}
	for what, changed := range map[string]map[string]any{"spec": resource("2", 2, "a"), "an annotation": resource("2", 1, "b")} {
		if refs.ObjectVersion(changed) == version {
			t.Errorf("a change of %s makes no other version", what)
		}
	}
}

func TestALaggingWatchIsNotBelieved(t *testing.T) {
	namespace := clustertest.Namespace(t)
	secrets := clustertest.Client(t).CoreV1().Secrets(namespace)
	made, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, told := watcher(t, clustertest.Config(t))
	ref := secret(namespace, "pull")
	w.Set("app", ref)
	await(t, told, "present", func() bool { return w.Version(ref) == made.ResourceVersion })

	// Somebody reads it in a version that the watch has not brought yet.
	revision, err := strconv.ParseInt(readListRevision(t, namespace), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]any{"metadata": map[string]any{"resourceVersion": strconv.FormatInt(revision+1, 10)}}
	w.Read("app", ref, made.ResourceVersion, next)
	if v := w.Version(ref); v != "" {
		t.Errorf("version %q while the watch lags behind what was read, want none", v)
	}
	made.StringData = map[string]string{"a": "b"}
	changed, err := secrets.Update(t.Context(), made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, told, "caught up", func() bool { return w.Version(ref) == changed.ResourceVersion })

	// Somebody finds that it is gone before the watch tells.
	w.Read("app", ref, changed.ResourceVersion, nil)
	if v := w.Version(ref); v != "" {
		t.Errorf("version %q after it was read to be gone, want none", v)
	}
	if err := secrets.Delete(t.Context(), "pull", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, told, "gone", func() bool { return w.Version(ref) == refs.Absent })
}

// readListRevision is how far the API server is.
func readListRevision(t *testing.T, namespace string) string {
	t.Helper()
	list, err := clustertest.Client(t).CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}

func TestNamesWithoutNamespaceNameNothing(t *testing.T) {
	namespace := clustertest.Namespace(t)
	if _, err := clustertest.Client(t).CoreV1().Secrets(namespace).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "somewhere"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, told := watcher(t, clustertest.Config(t))
	ref := secret("", "somewhere")
	w.Set("app", ref)
	await(t, told, "absent", func() bool { return w.Version(ref) == refs.Absent })

	whole := refs.Reference{APIVersion: "v1", Kind: "Namespace", Namespace: "ignored", Name: namespace}
	w.Set("app", whole)
	await(t, told, "present", func() bool { v := w.Version(whole); return v != "" && v != refs.Absent })
}

// TestMissingKindsAreAskedForOnce counts the requests.
func TestMissingKindsAreAskedForOnce(t *testing.T) {
	cfg := clustertest.Config(t)
	cfg.UserAgent = "refs-missing-kind"
	w, told := watcher(t, cfg)
	ref := refs.Reference{APIVersion: "missing.example.com/v1", Kind: "Gadget", Name: "one"}
	w.Set("app", ref)
	await(t, told, "absent", func() bool { return w.Version(ref) == refs.Absent })
	if err := w.Err(ref); err != nil {
		t.Errorf("a kind that does not exist is an error: %v", err)
	}
	from, err := clustertest.Cluster(t).Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		w.Set("app", ref)
	}
	asked, err := clustertest.Cluster(t).Requests(t.Context(), from, cluster.ByUserAgent(cfg.UserAgent))
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) > 0 {
		t.Errorf("%d requests for a kind that is known to be missing: %v", len(asked), asked)
	}

	names := map[string]any{"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gadgets.missing.example.com"},
		"spec": map[string]any{"group": "missing.example.com", "scope": "Cluster", "names": names, "versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
		}}},
	}}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := dynamicClient(t).Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gadget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "missing.example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "one"},
	}}
	resource := dynamicClient(t).Resource(schema.GroupVersionResource{Group: "missing.example.com", Version: "v1", Resource: "gadgets"})
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := resource.Create(ctx, gadget, metav1.CreateOptions{})
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("creating an object of the new kind: %v", err)
	}
	w.Retry()
	await(t, told, "present", func() bool { v := w.Version(ref); return v != "" && v != refs.Absent })
}
