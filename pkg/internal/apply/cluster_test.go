package apply_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: []string{"testdata/crds.yaml"}}))
}

type entryType = releasev1alpha1.InventoryEntry

// patience is how long a test waits for what the control plane does on its own.
const patience = 20 * time.Second

var (
	appKind    = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	appsOf     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "apps"}
	secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

// bench is an operator's client and cache on the test's own namespace, with a
// second pair of hands: the dynamic client of somebody else.
type bench struct {
	*testing.T
	namespace string
	owner     apply.Owner
	client    *apply.Client
	cache     *apply.Cache
	others    dynamic.Interface
	requests  *counter
	enqueued  *log
}

// options of a bench; the zero value watches the test's namespace only.
type options struct {
	config     *rest.Config // who the operator is; an administrator by default
	namespaces func(own string) []string
	notStarted bool
}

func newBench(t *testing.T, o options) *bench {
	t.Helper()
	b := &bench{T: t, namespace: clustertest.Namespace(t), requests: &counter{}, enqueued: &log{}}
	cfg := o.config
	if cfg == nil {
		cfg = clustertest.Config(t)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(b.requests.wrap)
	httpClient := must(rest.HTTPClientFor(cfg))(t)
	mapper := must(apiutil.NewDynamicRESTMapper(clustertest.Config(t), must(rest.HTTPClientFor(clustertest.Config(t)))(t)))(t)
	b.client = must(apply.NewClient(cfg, httpClient, mapper))(t)
	b.others = must(dynamic.NewForConfig(clustertest.Config(t)))(t)
	namespaces := []string{b.namespace}
	if o.namespaces != nil {
		namespaces = o.namespaces(b.namespace)
	}
	b.cache = must(apply.NewCache(cfg, apply.CacheOptions{
		Namespaces: namespaces, Owners: []schema.GroupKind{appKind.GroupKind()},
		Mapper: mapper, HTTPClient: httpClient, Enqueue: b.enqueued.add,
	}))(t)
	b.client.WriteThrough(b.cache)
	b.owner = b.app("plants")
	if !o.notStarted {
		b.start()
	}
	return b
}

func (b *bench) start() {
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- b.cache.Start(ctx) }()
	b.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				b.Error(err)
			}
		case <-time.After(patience):
			b.Error("the cache does not stop")
		}
	})
}

// app creates an owner: without a living one the garbage collector takes its
// dependents.
func (b *bench) app(name string) apply.Owner {
	b.Helper()
	obj := b.parse("{apiVersion: example.com/v1, kind: App, metadata: {name: " + name + "}}")
	created := must(b.others.Resource(appsOf).Namespace(b.namespace).Create(b.Context(), obj, metav1.CreateOptions{}))(b.T)
	return apply.Owner{
		GVK: appKind, Namespace: b.namespace, Name: name, UID: created.GetUID(),
		ReleaseName: name, ReleaseNamespace: b.namespace,
	}
}

func (b *bench) parse(manifest string) *unstructured.Unstructured {
	b.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(manifest, "NAMESPACE", b.namespace)), &obj.Object); err != nil {
		b.Fatal(err)
	}
	return obj
}

// wanted parses a manifest and marks it as the owner's.
func (b *bench) wanted(manifest string) *unstructured.Unstructured {
	b.Helper()
	obj := b.parse(manifest)
	mapping := must(b.client.Mapping(obj.GroupVersionKind()))(b.T)
	b.owner.Mark(obj, mapping.Scope.Name() == "namespace")
	return obj
}

// install watches the object's kind and applies it.
func (b *bench) install(manifest string) (*unstructured.Unstructured, entryType) {
	b.Helper()
	obj := b.wanted(manifest)
	b.use(obj.GroupVersionKind())
	return obj, b.apply(obj, "")
}

func (b *bench) apply(obj *unstructured.Unstructured, uid types.UID) entryType {
	b.Helper()
	return must(b.client.Apply(b.Context(), obj, uid))(b.T)
}

func (b *bench) use(gvks ...schema.GroupVersionKind) {
	b.Helper()
	if err := b.cache.Use(b.Context(), b.owner, gvks); err != nil {
		b.Fatal(err)
	}
}

// watched says whether a kind is watched in the bench's namespace and was listed.
func (b *bench) watched(gvk schema.GroupVersionKind) bool {
	observed, _ := b.cache.Get(entryType{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: b.namespace, Name: "any"})
	return !observed.Unknown
}

// resource is the object as somebody else reaches it.
func (b *bench) resource(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	b.Helper()
	mapping := must(b.client.Mapping(obj.GroupVersionKind()))(b.T)
	return b.others.Resource(mapping.Resource).Namespace(obj.GetNamespace())
}

// patch is somebody else changing the object with a merge patch.
func (b *bench) patch(obj *unstructured.Unstructured, patch string, subresources ...string) {
	b.Helper()
	must(b.resource(obj).Patch(b.Context(), obj.GetName(), types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "somebody"}, subresources...))(b.T)
}

func (b *bench) get(obj *unstructured.Unstructured) *unstructured.Unstructured {
	b.Helper()
	return must(b.resource(obj).Get(b.Context(), obj.GetName(), metav1.GetOptions{}))(b.T)
}

// delete is somebody else deleting the object; it returns when it is gone.
func (b *bench) delete(obj *unstructured.Unstructured) {
	b.Helper()
	if err := b.resource(obj).Delete(b.Context(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	await(b.T, "the deletion of "+obj.GetName(), func() error {
		_, err := b.resource(obj).Get(b.Context(), obj.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errors.New("it still exists")
		}
		return err
	})
}

// deleteQuietly is for cleaning up, also after the test's context ended.
func (b *bench) deleteQuietly(obj *unstructured.Unstructured) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), patience)
	defer cancel()
	if err := b.resource(obj).Delete(ctx, obj.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		b.Error(err)
	}
}

// awaitDrift waits until the cache sees the drift; "" for none.
func (b *bench) awaitDrift(entry entryType, want apply.Drift) {
	b.Helper()
	await(b.T, fmt.Sprintf("drift %q of %s", want, apply.EntryKey(entry)), func() error {
		observed, exists := b.cache.Get(entry)
		if got, _ := b.owner.Drifted(entry, observed, exists); got != want || observed.Unknown {
			return fmt.Errorf("drift is %q, observed %+v", got, observed)
		}
		return nil
	})
}

// marker is the owner of settle's objects, whom nobody counts.
const marker = "marker"

// settle waits until the watch delivered everything up to now, by the
// appearance of a marker object of the same kind and owner.
func (b *bench) settle(like *unstructured.Unstructured) {
	b.Helper()
	marked := like.DeepCopy()
	marked.SetName(fmt.Sprintf(marker+"-%d", time.Now().UnixNano()))
	owner := b.owner
	owner.Name = marker
	owner.UID = ""
	marked.SetOwnerReferences(nil)
	marked.SetFinalizers(nil)
	owner.Mark(marked, marked.GetNamespace() != "")
	must(b.resource(like).Create(b.Context(), marked, metav1.CreateOptions{}))(b.T)
	entry := apply.Entry(marked)
	await(b.T, "the watch", func() error {
		if _, exists := b.cache.Get(entry); !exists {
			return errors.New("the marker was not seen")
		}
		return nil
	})
	b.deleteQuietly(marked)
}

// await polls until check returns nil.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waited %v for %s: %v", patience, what, last)
	}
}

func must[V any](v V, err error) func(t *testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// counter records the requests of the operator.
type counter struct {
	mu   sync.Mutex
	seen []string
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		verb := r.Method
		if r.URL.Query().Get("watch") == "true" {
			verb = "WATCH"
		}
		c.mu.Lock()
		c.seen = append(c.seen, verb+" "+r.URL.Path)
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// during returns what was asked while f ran.
func (c *counter) during(f func()) []string {
	c.mu.Lock()
	before := len(c.seen)
	c.mu.Unlock()
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen[before:]...)
}

// log records whom the cache enqueued.
type log struct {
	mu    sync.Mutex
	names []string
}

func (l *log) add(kind schema.GroupKind, owner types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == appKind.GroupKind() && owner.Name != marker {
		l.names = append(l.names, owner.Name)
	}
}

// take returns what was recorded and begins anew.
func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.names
	l.names = nil
	return taken
}
