package storage_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

var deployed = time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)

func object(kind, name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kind,
		"metadata": map[string]any{"name": name, "labels": map[string]any{"app.kubernetes.io/managed-by": "Helm"}},
		"data":     data,
	}}
}

func manifest(t testing.TB, objects ...*unstructured.Unstructured) string {
	t.Helper()
	text, err := storage.EncodeManifest(objects)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func payload(t testing.TB, namespace string, revision int64) *storage.Payload {
	hook := object("ConfigMap", "hook", map[string]any{"port": "9080"})
	hook.Object["large"] = int64(9007199254740993)
	return &storage.Payload{
		Name: "plants", Namespace: namespace, Revision: revision,
		Status:   releasev1alpha1.StateDeployed,
		Chart:    &helmchart.Metadata{Name: "web", Version: "1.2.3", AppVersion: "9.8", APIVersion: "v2"},
		Config:   map[string]any{"size": int64(9007199254740993), "ratio": 0.5, "on": true, "none": nil, "list": []any{int64(1), "a"}},
		Manifest: manifest(t, object("ConfigMap", "settings", map[string]any{"color": "green"})),
		Hooks: []chart.Hook{{
			Name: "hook", Kind: "ConfigMap", Path: "web/templates/hook.yaml", Object: hook,
			Events: []chart.HookEvent{chart.HookPreUpgrade}, Weight: -2, DeletePolicies: []chart.HookDeletePolicy{chart.HookSucceeded},
		}},
		Notes:         "Water the plants.\n",
		FirstDeployed: deployed, LastDeployed: deployed.Add(time.Hour),
		Description: "Install complete",
		Owner: storage.Owner{
			GroupKind: schema.GroupKind{Group: "liberty.ibm.com", Kind: "LibertyApp"},
			Namespace: namespace, Name: "plants", UID: "2c7b1c5e-5d3c-4e2f-9a3b-0d6f5b0f7a11",
		},
		InputsDigest: "1:abc",
	}
}

// counter counts requests on their way to the API server.
type counter struct {
	next http.RoundTripper
	n    atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.next.RoundTrip(r)
}

func secretsGetter(t testing.TB, requests *counter) typedcorev1.SecretsGetter {
	t.Helper()
	config := clustertest.Config(t)
	if requests != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			requests.next = next
			return requests
		})
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1()
}

func secretDriver(t testing.TB, requests *counter) storage.Driver {
	return storage.NewSecret(secretsGetter(t, requests), clocktesting.NewFakePassiveClock(deployed))
}

// suite is a driver under test.
type suite struct {
	driver    storage.Driver
	namespace string
	// corrupt spoils what is stored of revision 1.
	corrupt func(t *testing.T)
	// requests to the API server that an operation may take.
	requests func() int64
	want     int64
}

func TestDrivers(t *testing.T) {
	t.Run("Secret", func(t *testing.T) {
		conformance(t, func(t *testing.T) suite {
			requests := &counter{}
			namespace := clustertest.Namespace(t)
			return suite{
				driver: secretDriver(t, requests), namespace: namespace, requests: requests.n.Load, want: 1,
				corrupt: func(t *testing.T) {
					patch := []byte(`{"data": {"release": "bm90IGEgcmVsZWFzZQ=="}}`)
					_, err := clustertest.Client(t).CoreV1().Secrets(namespace).
						Patch(t.Context(), "sh.helm.release.v1.plants.v1", "application/merge-patch+json", patch, metav1.PatchOptions{})
					if err != nil {
						t.Fatal(err)
					}
				},
			}
		})
	})
	t.Run("status", func(t *testing.T) {
		conformance(t, func(*testing.T) suite {
			slot := new([]byte)
			find := func(context.Context, string, string) (*[]byte, error) { return slot, nil }
			return suite{
				driver: storage.NewStatus(find, false), namespace: "garden", requests: func() int64 { return 0 },
				corrupt: func(*testing.T) { *slot = []byte("not a release") },
			}
		})
	})
}

// conformance is what every driver has to do.
func conformance(t *testing.T, start func(t *testing.T) suite) {
	t.Run("a payload comes back as it was", func(t *testing.T) {
		s := start(t)
		p := payload(t, s.namespace, 1)
		if err := s.driver.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		got, err := s.driver.Get(t.Context(), s.namespace, "plants", 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Error(diff)
		}
		if storage.Digest(p) != storage.Digest(got) {
			t.Error("the digest changed on the way")
		}
	})
	t.Run("create refuses a revision that exists", func(t *testing.T) {
		s := start(t)
		for i, want := range []error{nil, storage.ErrExists} {
			if err := s.driver.Create(t.Context(), payload(t, s.namespace, 1)); !errors.Is(err, want) {
				t.Fatalf("create number %d: %v, want %v", i+1, err, want)
			}
		}
	})
	t.Run("what is not there is not found", func(t *testing.T) {
		s := start(t)
		if err := s.driver.Create(t.Context(), payload(t, s.namespace, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.driver.Get(t.Context(), s.namespace, "plants", 2); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("get: %v", err)
		}
		if err := s.driver.Update(t.Context(), payload(t, s.namespace, 2)); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("update: %v", err)
		}
		if err := s.driver.Delete(t.Context(), s.namespace, "plants", 2); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("delete: %v", err)
		}
	})
	t.Run("update writes over, delete removes", func(t *testing.T) {
		s := start(t)
		p := payload(t, s.namespace, 1)
		if err := s.driver.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		p.Status, p.Description = releasev1alpha1.StateSuperseded, "replaced"
		if err := s.driver.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		got, err := s.driver.Get(t.Context(), s.namespace, "plants", 1)
		if err != nil || got.Status != releasev1alpha1.StateSuperseded || got.Description != "replaced" {
			t.Fatalf("got %+v, %v", got, err)
		}
		if revisions, err := s.driver.Revisions(t.Context(), s.namespace, "plants"); err != nil || !cmp.Equal(revisions, []int64{1}) {
			t.Errorf("revisions %v, %v", revisions, err)
		}
		if err := s.driver.Delete(t.Context(), s.namespace, "plants", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := s.driver.Get(t.Context(), s.namespace, "plants", 1); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("after delete: %v", err)
		}
		if revisions, err := s.driver.Revisions(t.Context(), s.namespace, "plants"); err != nil || len(revisions) != 0 {
			t.Errorf("revisions %v, %v", revisions, err)
		}
	})
	t.Run("a spoilt payload is corrupt, and can be written over", func(t *testing.T) {
		s := start(t)
		p := payload(t, s.namespace, 1)
		if err := s.driver.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		s.corrupt(t)
		if _, err := s.driver.Get(t.Context(), s.namespace, "plants", 1); !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("get: %v", err)
		}
		if err := s.driver.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if _, err := s.driver.Get(t.Context(), s.namespace, "plants", 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("a spoilt payload can be deleted", func(t *testing.T) {
		s := start(t)
		if err := s.driver.Create(t.Context(), payload(t, s.namespace, 1)); err != nil {
			t.Fatal(err)
		}
		s.corrupt(t)
		if err := s.driver.Delete(t.Context(), s.namespace, "plants", 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("what does not fit is refused with a way out", func(t *testing.T) {
		s := start(t)
		p := payload(t, s.namespace, 1)
		p.Notes = noise(2 << 20)
		err := s.driver.Create(t.Context(), p)
		if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), "revision 1 of release plants") {
			t.Errorf("create: %v", err)
		}
	})
	t.Run("each operation costs one request at most", func(t *testing.T) {
		s := start(t)
		p := payload(t, s.namespace, 1)
		for _, op := range []struct {
			name string
			do   func() error
		}{
			{"create", func() error { return s.driver.Create(t.Context(), p) }},
			{"get", func() error { _, err := s.driver.Get(t.Context(), s.namespace, "plants", 1); return err }},
			{"update", func() error { return s.driver.Update(t.Context(), p) }},
			{"revisions", func() error { _, err := s.driver.Revisions(t.Context(), s.namespace, "plants"); return err }},
			{"delete", func() error { return s.driver.Delete(t.Context(), s.namespace, "plants", 1) }},
		} {
			before := s.requests()
			if err := op.do(); err != nil {
				t.Fatalf("%s: %v", op.name, err)
			}
			if got := s.requests() - before; got != s.want {
				t.Errorf("%s made %d requests, want %d", op.name, got, s.want)
			}
		}
	})
}

// noise is text that does not compress well.
func noise(n int) string {
	source := rand.New(rand.NewPCG(1, 2))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte('!' + source.IntN(90))
	}
	return string(out)
}

func TestSecretNamesItsOwner(t *testing.T) {
	namespace := clustertest.Namespace(t)
	if err := secretDriver(t, nil).Create(t.Context(), payload(t, namespace, 3)); err != nil {
		t.Fatal(err)
	}
	secret, err := clustertest.Client(t).CoreV1().Secrets(namespace).Get(t.Context(), "sh.helm.release.v1.plants.v3", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if secret.Type != "helm.sh/release.v1" || len(secret.OwnerReferences) != 0 {
		t.Errorf("type %s, owners %v", secret.Type, secret.OwnerReferences)
	}
	want := map[string]string{
		"name": "plants", "owner": "helm", "status": "deployed", "version": "3", "createdAt": "1795170600",
		"go-helm-operator/owner": "2c7b1c5e-5d3c-4e2f-9a3b-0d6f5b0f7a11.3",
	}
	if diff := cmp.Diff(want, secret.Labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	want = map[string]string{
		"operator-sdk/primary-resource":      namespace + "/plants",
		"operator-sdk/primary-resource-type": "LibertyApp.liberty.ibm.com",
	}
	if diff := cmp.Diff(want, secret.Annotations); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
}

func TestSecretOfAnotherReleaseIsCorrupt(t *testing.T) {
	namespace := clustertest.Namespace(t)
	client := clustertest.Client(t).CoreV1().Secrets(namespace)
	driver := secretDriver(t, nil)
	if err := driver.Create(t.Context(), payload(t, namespace, 1)); err != nil {
		t.Fatal(err)
	}
	secret, err := client.Get(t.Context(), "sh.helm.release.v1.plants.v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*corev1.Secret){
		"another revision": func(s *corev1.Secret) { s.Name = "sh.helm.release.v1.plants.v2" },
		"another type":     func(s *corev1.Secret) { s.Name, s.Type = "sh.helm.release.v1.plants.v3", corev1.SecretTypeOpaque },
	} {
		t.Run(name, func(t *testing.T) {
			copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret.Name, Namespace: namespace}, Type: secret.Type, Data: secret.Data}
			spoil(copied)
			if _, err := client.Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			revision := int64(copied.Name[len(copied.Name)-1] - '0')
			if _, err := driver.Get(t.Context(), namespace, "plants", revision); !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestStatusRefusesSecrets(t *testing.T) {
	secret := object("Secret", "password", map[string]any{"p": "aHVudGVyMg=="})
	for name, test := range map[string]struct {
		allow bool
		spoil func(t *testing.T, p *storage.Payload)
		want  error
	}{
		"a Secret": {
			spoil: func(t *testing.T, p *storage.Payload) { p.Manifest += manifest(t, secret) },
			want:  storage.ErrSecretsInStatus,
		},
		"a Secret in a hook": {
			spoil: func(_ *testing.T, p *storage.Payload) { p.Hooks[0].Object = secret },
			want:  storage.ErrSecretsInStatus,
		},
		"a Secret that is allowed": {
			allow: true,
			spoil: func(t *testing.T, p *storage.Payload) { p.Manifest += manifest(t, secret) },
		},
		"no Secret": {spoil: func(*testing.T, *storage.Payload) {}},
	} {
		t.Run(name, func(t *testing.T) {
			var slot []byte
			find := func(context.Context, string, string) (*[]byte, error) { return &slot, nil }
			p := payload(t, "garden", 1)
			test.spoil(t, p)
			err := storage.NewStatus(find, test.allow).Create(t.Context(), p)
			if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if stored := len(slot) > 0; stored != (test.want == nil) {
				t.Errorf("stored %d bytes", len(slot))
			}
		})
	}
}

func TestStatusHoldsTheNewestRevisionOnly(t *testing.T) {
	var slot []byte
	driver := storage.NewStatus(func(context.Context, string, string) (*[]byte, error) { return &slot, nil }, false)
	for _, revision := range []int64{1, 2} {
		if err := driver.Create(t.Context(), payload(t, "garden", revision)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := driver.Get(t.Context(), "garden", "plants", 1); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("revision 1: %v", err)
	}
	if p, err := driver.Get(t.Context(), "garden", "plants", 2); err != nil || p.Revision != 2 {
		t.Errorf("revision 2: %v, %v", p, err)
	}
}
