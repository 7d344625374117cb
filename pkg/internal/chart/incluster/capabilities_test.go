// Package incluster tests what the chart package asks of a cluster against a
// real API server. It stands apart so that the other tests need none.
package incluster

import (
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{}))
}

// requests notes the paths that are asked for.
type requests struct {
	next http.RoundTripper

	mu    sync.Mutex
	paths []string
}

func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.paths = append(r.paths, req.URL.Path)
	r.mu.Unlock()
	return r.next.RoundTrip(req)
}

func discover(t *testing.T, before *chart.Capabilities) (*chart.Capabilities, []string) {
	t.Helper()
	seen := &requests{}
	config := clustertest.Config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		seen.next = next
		return seen
	})
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	caps, err := chart.DiscoverCapabilities(client, before)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(seen.paths)
	return caps, seen.paths
}

func TestDiscoverCapabilities(t *testing.T) {
	caps, paths := discover(t, nil)
	if diff := cmp.Diff([]string{"/api", "/apis", "/version"}, paths); diff != "" {
		t.Errorf("requests: %s", diff)
	}
	version, err := clustertest.Client(t).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if caps.KubeVersion() != version.GitVersion {
		t.Errorf("version %s, want %s", caps.KubeVersion(), version.GitVersion)
	}
	for name, want := range map[string]bool{
		"v1": true, "v1/Pod": true, "apps/v1": true, "apps/v1/Deployment": true, "networking.k8s.io/v1/Ingress": true,
		"apps/v1beta1": false, "extensions/v1beta1/Ingress": false, "route.openshift.io/v1": false, "": false,
	} {
		if caps.Has(name) != want {
			t.Errorf("%q: %t, want %t", name, caps.Has(name), want)
		}
	}
}

// TestDiscoverCapabilitiesBesideABrokenAPI registers an API whose server does
// not exist.
func TestDiscoverCapabilitiesBesideABrokenAPI(t *testing.T) {
	client, err := dynamic.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	broken := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.broken.example.com"},
		"spec": map[string]any{
			"group": "broken.example.com", "version": "v1", "groupPriorityMinimum": int64(1), "versionPriority": int64(1),
			"insecureSkipTLSVerify": true, "service": map[string]any{"name": "missing", "namespace": "default"},
		},
	}}
	if _, err := services.Create(t.Context(), broken, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := services.Delete(context.WithoutCancel(t.Context()), broken.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		found, err := services.Get(ctx, broken.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(found.Object, "status", "conditions")
		return len(conditions) > 0, err
	})
	if err != nil {
		t.Fatalf("waiting until the API server knows that the API is broken: %v", err)
	}
	caps, _ := discover(t, nil)
	if diff := cmp.Diff([]string{"broken.example.com/v1"}, caps.Failed()); diff != "" {
		t.Errorf("failed API versions: %s", diff)
	}
	if !caps.Has("apps/v1/Deployment") {
		t.Error("one broken API hides the others")
	}
	if caps.Has("broken.example.com/v1/Anything") {
		t.Error("a broken API has kinds")
	}

	// What was known of it when it was there stays; what was not is as recorded.
	asked := []string{"broken.example.com/v1/Anything=true", "broken.example.com/v1/Other=false", "apps/v1=true", "gone.example.com/v1=true"}
	want := []string{"broken.example.com/v1/Anything=true", "broken.example.com/v1/Other=false", "apps/v1=true", "gone.example.com/v1=false"}
	if diff := cmp.Diff(want, caps.Remembering(asked).Answers(asked)); diff != "" {
		t.Errorf("answers of an operator that just started: %s", diff)
	}
	known, err := chart.NewCapabilities(caps.KubeVersion(), []string{"broken.example.com/v1", "broken.example.com/v1/Anything", "gone.example.com/v1"})
	if err != nil {
		t.Fatal(err)
	}
	later, _ := discover(t, known)
	if diff := cmp.Diff(want, later.Answers(asked)); diff != "" {
		t.Errorf("answers of an operator that knew the API before: %s", diff)
	}
	if again, _ := discover(t, later); !again.Equal(later) || again.Equal(caps) {
		t.Error("snapshots of the same APIs differ, or those of different ones do not")
	}
}
