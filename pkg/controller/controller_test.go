package controller_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	libertyv1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/liberty/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/controller"
	"github.com/jkwong888/go-helm-operator/pkg/controller/libertyapp"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/watches"
	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
	"github.com/jkwong888/go-helm-operator/test/registry"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: []string{"../../deploy/crds"}, AuditLog: true}))
}

const (
	// agent is the user agent of the operators, by which their requests are known.
	agent = "operator-under-test"
	// patience is how long a test waits for what must come.
	patience = 30 * time.Second
	password = "open-sesame-6021"
)

// world is a namespace with an operator that watches it, and a registry.
type world struct {
	*testing.T
	namespace string
	client    client.Client
	registry  *registry.Registry
	stop      func()
}

func newWorld(t *testing.T, r registry.Options) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, libertyv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(clustertest.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, namespace: clustertest.Namespace(t), client: c}
	if w.registry, err = registry.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.registry.Close(); err != nil {
			t.Error(err)
		}
	})
	w.start()
	return w
}

// start runs an operator until stop is called or the test ends.
func (w *world) start() {
	w.Helper()
	cfg := clustertest.Config(w)
	cfg.UserAgent = agent
	cfg.QPS = -1
	skip := true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Logger:     logr.Discard(),
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skip}, // several operators live in this process
	})
	if err != nil {
		w.Fatal(err)
	}
	engine, err := reconciler.NewEngine(mgr, reconciler.EngineOptions{Namespaces: []string{w.namespace}})
	if err != nil {
		w.Fatal(err)
	}
	kinds, err := watches.Load("../../watches.yaml")
	if err != nil {
		w.Fatal(err)
	}
	if err := controller.AddToManager(mgr, engine, kinds, controller.Options{ImagePollInterval: time.Second}); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the operator ended with: %v", err)
		}
	}
	w.Cleanup(w.stop)
}

// push pushes an image and returns its digest; the same seed makes the same.
func (w *world) push(seed int64) string {
	w.Helper()
	digest, err := w.registry.PushIndex(w.Context(), "team/app", "1.0", seed)
	if err != nil {
		w.Fatal(err)
	}
	return digest
}

// image is what push pushes.
func (w *world) image() string { return w.registry.Host() + "/team/app:1.0" }

// apply creates a LibertyApp of the test's image, with these lines of spec.
func (w *world) apply(name, spec string) {
	w.Helper()
	app := &libertyv1alpha1.LibertyApp{}
	manifest := fmt.Sprintf("metadata: {name: %s, namespace: %s}\nspec:\n%s", name, w.namespace,
		strings.ReplaceAll(spec, "REPOSITORY", w.registry.Host()+"/team/app"))
	if err := yaml.UnmarshalStrict([]byte(manifest), app); err != nil {
		w.Fatalf("%v\n%s", err, manifest)
	}
	if err := w.client.Create(w.Context(), app); err != nil {
		w.Fatal(err)
	}
}

// patch changes the LibertyApp plants.
func (w *world) patch(patch string) {
	w.Helper()
	app := &libertyv1alpha1.LibertyApp{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "plants"}}
	if err := w.client.Patch(w.Context(), app, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.Fatal(err)
	}
}

// pullSecret creates the Secret for the registry's password.
func (w *world) pullSecret(name string) {
	w.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte("user:" + password))
	data, err := json.Marshal(map[string]any{"auths": map[string]any{w.registry.Host(): map[string]any{"auth": auth}}})
	if err != nil {
		w.Fatal(err)
	}
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: data},
	})
}

func (w *world) create(obj client.Object) {
	w.Helper()
	if err := w.client.Create(w.Context(), obj); err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(obj client.Object, name string) {
	w.Helper()
	obj.SetNamespace(w.namespace)
	obj.SetName(name)
	if err := w.client.Delete(w.Context(), obj); err != nil {
		w.Fatal(err)
	}
}

// eventually waits until a check of the cluster finds nothing wrong.
func (w *world) eventually(what string, check func() error) {
	w.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			w.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

func (w *world) app(name string) *libertyv1alpha1.LibertyApp {
	w.Helper()
	app := &libertyv1alpha1.LibertyApp{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, app); err != nil {
		w.Fatal(err)
	}
	return app
}

// awaitCondition waits until a resource says so of its present generation.
func (w *world) awaitCondition(name, condition string, status metav1.ConditionStatus, reason string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s of %s becoming %s %s", condition, name, status, reason), func() error {
		app := w.app(name)
		c := meta.FindStatusCondition(app.Status.Conditions, condition)
		if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != app.Generation {
			return fmt.Errorf("conditions are %+v", app.Status.Conditions)
		}
		return nil
	})
}

func (w *world) awaitReady(name string) {
	w.Helper()
	w.awaitCondition(name, "Ready", metav1.ConditionTrue, "Ready")
}

// awaitImage waits until the Deployment of plants runs this image.
func (w *world) awaitImage(want string) {
	w.Helper()
	w.eventually("plants running "+want, func() error {
		if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != want {
			return fmt.Errorf("the image is %s", got)
		}
		return nil
	})
}

func (w *world) deployment() *appsv1.Deployment {
	w.Helper()
	d := &appsv1.Deployment{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "plants-ibm-websphere-liberty"}, d); err != nil {
		w.Fatal(err)
	}
	return d
}

// awaitAccount waits until the default ServiceAccount lists these pull secrets.
func (w *world) awaitAccount(want ...string) {
	w.Helper()
	w.eventually("the default ServiceAccount", func() error {
		var names []string
		for _, r := range w.account().ImagePullSecrets {
			names = append(names, r.Name)
		}
		if !slices.Equal(names, want) {
			return fmt.Errorf("it lists %v, want %v", names, want)
		}
		return nil
	})
}

func (w *world) account() *corev1.ServiceAccount {
	w.Helper()
	account := &corev1.ServiceAccount{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "default"}, account); err != nil {
		w.Fatal(err)
	}
	return account
}

func (w *world) awaitGone(name string) {
	w.Helper()
	w.eventually(name+" going", func() error {
		err := w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &libertyv1alpha1.LibertyApp{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there (%w)", err)
	})
}

func (w *world) mark() cluster.Mark {
	w.Helper()
	m, err := clustertest.Cluster(w).Mark(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return m
}

// requests are those of the operator for objects in the namespace.
func (w *world) requests(since cluster.Mark, filters ...cluster.Filter) []cluster.Request {
	w.Helper()
	got, err := clustertest.Cluster(w).Requests(w.Context(), since,
		append(filters, cluster.ByUserAgent(agent), cluster.ByNamespace(w.namespace))...)
	if err != nil {
		w.Fatal(err)
	}
	return got
}

// awaitPolls waits until the registry has been asked so many times more.
func (w *world) awaitPolls(n int) {
	w.Helper()
	from, err := w.registry.Mark()
	if err != nil {
		w.Fatal(err)
	}
	w.eventually(fmt.Sprintf("%d polls", n), func() error {
		got, err := w.registry.Requests(from)
		if err == nil && len(got) < n {
			err = fmt.Errorf("there were %d", len(got))
		}
		return err
	})
}

// secretFree fails if the password is in a status or an event.
func (w *world) secretFree() {
	w.Helper()
	apps, events := &libertyv1alpha1.LibertyAppList{}, &corev1.EventList{}
	for _, list := range []client.ObjectList{apps, events} {
		if err := w.client.List(w.Context(), list, client.InNamespace(w.namespace)); err != nil {
			w.Fatal(err)
		}
		data, err := json.Marshal(list)
		if err != nil {
			w.Fatal(err)
		}
		for _, form := range []string{password, base64.StdEncoding.EncodeToString([]byte("user:" + password))} {
			if strings.Contains(string(data), form) {
				w.Errorf("the password is in a %T", list)
			}
		}
	}
}

// private is the spec of an app from the private registry.
const private = `
  image: {repository: REPOSITORY, tag: "1.0", pullSecret: pull}
  operator: {images: {insecure: true}}
`

func TestPrivateImageFromSecretToRollOut(t *testing.T) {
	w := newWorld(t, registry.Options{Username: "user", Password: password})
	first := w.push(1)
	w.apply("plants", private)
	w.awaitCondition("plants", libertyapp.ConditionPullSecretReady, metav1.ConditionFalse, libertyapp.ReasonSecretNotFound)
	w.awaitCondition("plants", "Ready", metav1.ConditionFalse, libertyapp.ReasonSecretNotFound)
	if got := w.app("plants").Status.Inventory; got != nil {
		t.Errorf("installed without the pull secret: %v", got)
	}

	w.pullSecret("pull")
	w.awaitReady("plants")
	w.awaitCondition("plants", libertyapp.ConditionPullSecretReady, metav1.ConditionTrue, libertyapp.ReasonSecretReady)
	w.awaitCondition("plants", libertyapp.ConditionImageResolved, metav1.ConditionTrue, "Resolved")
	if got, want := w.deployment().Spec.Template.Spec.Containers[0].Image, w.image()+"@"+first; got != want {
		t.Errorf("revision 1 runs %s, want %s", got, want)
	}
	if got := w.app("plants").Status.Release.Revision; got != 1 {
		t.Errorf("pinning took %d revisions, want 1", got)
	}
	w.awaitAccount("pull")

	t.Log("a push rolls out")
	w.awaitImage(w.image() + "@" + w.push(2))
	var app *libertyv1alpha1.LibertyApp
	w.eventually("the record of revision 2, with when the digest changed", func() error { // the objects come first
		app = w.app("plants")
		if app.Status.Release.Revision != 2 || len(app.Status.Images) != 1 || app.Status.Images[0].LastChanged == nil {
			return fmt.Errorf("revision %d, images %+v", app.Status.Release.Revision, app.Status.Images)
		}
		return nil
	})
	w.awaitReady("plants")

	// All conditions, an image, a history: as large as the status of an app of this size gets.
	if data, err := json.Marshal(app.Status); err != nil || len(data) > 4<<10 {
		t.Errorf("the status takes %d bytes, %v; want at most 4 KiB: %s", len(data), err, data)
	} else {
		t.Logf("the status takes %d bytes", len(data))
	}

	t.Log("while nothing changes nothing is asked of the API server")
	w.awaitPolls(1)
	from := w.mark()
	w.awaitPolls(3)
	if got := w.requests(from, cluster.Not(cluster.ByVerb("watch"))); len(got) > 0 {
		t.Errorf("requests while idle: %v", got)
	}

	t.Log("a push while the operator is down is seen")
	w.stop()
	digest := w.push(3)
	w.start()
	w.awaitImage(w.image() + "@" + digest)
	w.awaitReady("plants")

	t.Log("the secret going lets the app run")
	w.remove(&corev1.Secret{}, "pull")
	w.awaitCondition("plants", libertyapp.ConditionPullSecretReady, metav1.ConditionFalse, libertyapp.ReasonSecretNotFound)
	w.awaitCondition("plants", libertyapp.ConditionImageResolved, metav1.ConditionFalse, "AuthenticationFailed")
	w.awaitReady("plants")
	w.pullSecret("pull")
	w.awaitCondition("plants", libertyapp.ConditionImageResolved, metav1.ConditionTrue, "Resolved")

	t.Log("an outage of the registry lets the app run")
	if err := w.registry.Stop(); err != nil {
		t.Fatal(err)
	}
	w.awaitCondition("plants", libertyapp.ConditionImageResolved, metav1.ConditionFalse, "Unreachable")
	w.awaitReady("plants")
	if err := w.registry.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.patch(`{"metadata":{"annotations":{"` + libertyapp.AnnotationPollImages + `":"now"}}}`)
	w.awaitCondition("plants", libertyapp.ConditionImageResolved, metav1.ConditionTrue, "Resolved")
	w.secretFree()
	w.remove(&libertyv1alpha1.LibertyApp{}, "plants")
	w.awaitGone("plants")
	w.awaitAccount()
}

func TestUnusablePullSecretHoldsTheInstall(t *testing.T) {
	w := newWorld(t, registry.Options{})
	w.push(1)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pull"}, StringData: map[string]string{"a": password}})
	w.apply("plants", private)
	w.awaitCondition("plants", libertyapp.ConditionPullSecretReady, metav1.ConditionFalse, libertyapp.ReasonInvalidSecret)
	w.remove(&corev1.Secret{}, "pull")
	w.awaitCondition("plants", libertyapp.ConditionPullSecretReady, metav1.ConditionFalse, libertyapp.ReasonSecretNotFound)
	// One entry is broken, the other good: the broken one is named, never shown.
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: `{"auths":{"broken.example":{"auth":"` + password + `"},"other.example":{"username":"u","password":"` + password + `"}}}`},
	})
	w.awaitReady("plants")
	c := meta.FindStatusCondition(w.app("plants").Status.Conditions, libertyapp.ConditionPullSecretReady)
	if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "broken.example") {
		t.Errorf("condition = %+v, want True, naming the broken entry", c)
	}
	w.secretFree()
}

func TestTwoAppsShareAPullSecret(t *testing.T) {
	for name, c := range map[string]struct{ first, last string }{
		"who added it goes first": {"one", "two"},
		"who added it goes last":  {"two", "one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, registry.Options{})
			w.push(1)
			w.pullSecret("pull")
			for _, app := range []string{"one", "two"} {
				w.apply(app, private)
				w.awaitReady(app)
			}
			w.awaitAccount("pull")
			version := w.account().ResourceVersion
			w.remove(&libertyv1alpha1.LibertyApp{}, c.first)
			w.awaitGone(c.first)
			if got := w.account().ResourceVersion; got != version {
				t.Error("the ServiceAccount changed although an app uses the pull secret")
			}
			w.remove(&libertyv1alpha1.LibertyApp{}, c.last)
			w.awaitGone(c.last)
			w.awaitAccount()
			if got := w.account().Annotations[libertyapp.AnnotationPullSecretsAdded]; got != "" {
				t.Errorf("the note of what was added is %q", got)
			}
		})
	}
}

func TestDefaultServiceAccountFollowsSpec(t *testing.T) {
	w := newWorld(t, registry.Options{})
	w.push(1)
	w.pullSecret("pull")
	w.pullSecret("other")
	w.apply("plants", private)
	w.awaitReady("plants")
	w.awaitAccount("pull")

	w.patch(`{"spec":{"image":{"pullSecret":"other"}}}`)
	w.awaitAccount("other")
	w.patch(`{"spec":{"operator":{"release":{"patchServiceAccount":false}}}}`)
	w.awaitAccount()
	w.patch(`{"spec":{"operator":{"release":{"patchServiceAccount":true}}}}`)
	w.awaitAccount("other")

	// Somebody takes it off: it is put back.
	account := w.account()
	account.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "theirs"}}
	if err := w.client.Update(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	w.awaitAccount("theirs", "other")
	w.patch(`{"spec":{"image":{"pullSecret":null}}}`)
	w.awaitAccount("theirs")
	w.awaitReady("plants")
	if app := w.app("plants"); app.Status.PullSecret != nil || meta.FindStatusCondition(app.Status.Conditions, libertyapp.ConditionPullSecretReady) != nil {
		t.Errorf("status.pullSecret = %+v, conditions = %+v; want nothing of a pull secret", app.Status.PullSecret, app.Status.Conditions)
	}
}

func TestCredentialsOfTheServiceAccount(t *testing.T) {
	w := newWorld(t, registry.Options{Username: "user", Password: password})
	digest := w.push(1)
	w.pullSecret("theirs")
	account := w.account()
	account.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "theirs"}}
	if err := w.client.Update(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	w.apply("plants", `
  image: {repository: REPOSITORY, tag: "1.0"}
  rbac: {install: false}
  operator: {images: {insecure: true}}
`)
	w.awaitReady("plants")
	w.awaitImage(w.image() + "@" + digest)
	w.awaitCondition("plants", libertyapp.ConditionImageResolved, metav1.ConditionTrue, "Resolved")
	w.awaitAccount("theirs")
}

func TestPrivateAuthority(t *testing.T) {
	w := newWorld(t, registry.Options{TLS: true})
	digest := w.push(1)
	w.apply("plants", `
  image: {repository: REPOSITORY, tag: "1.0"}
  operator: {images: {caSecretRef: {name: authority}}}
`)
	// The install goes on without the digest, and is not restarted for it.
	w.awaitReady("plants")
	w.awaitCondition("plants", libertyapp.ConditionImageResolved, metav1.ConditionFalse, libertyapp.ReasonInvalidCASecret)
	w.awaitImage(w.image())
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "authority"}, Data: map[string][]byte{"ca.crt": w.registry.CA()}})
	w.awaitCondition("plants", libertyapp.ConditionImageResolved, metav1.ConditionTrue, "Resolved")
	app := w.app("plants")
	if len(app.Status.Images) != 1 || app.Status.Images[0].Digest != digest || app.Status.Images[0].Pinned != "" || app.Status.Release.Revision != 1 {
		t.Errorf("revision %d, images %+v; want the digest noted and no roll-out", app.Status.Release.Revision, app.Status.Images)
	}
}

func TestMissingTag(t *testing.T) {
	w := newWorld(t, registry.Options{})
	w.apply("plants", `
  image: {repository: REPOSITORY, tag: "9.9"}
  operator: {images: {insecure: true}}
`)
	w.awaitCondition("plants", libertyapp.ConditionImageResolved, metav1.ConditionFalse, "TagNotFound")
	w.awaitReady("plants")
}

func TestJobKeepsItsImage(t *testing.T) {
	w := newWorld(t, registry.Options{})
	first := w.push(1)
	w.apply("plants", `
  image: {repository: REPOSITORY, tag: "1.0"}
  ssl: {createClusterSSLConfiguration: true}
  operator: {images: {insecure: true}}
`)
	w.awaitReady("plants")
	second := w.push(2)
	w.awaitImage(w.image() + "@" + second)
	w.awaitReady("plants")
	w.patch(`{"spec":{"replicaCount":2}}`) // a fresh render
	w.awaitReady("plants")
	jobs := clustertest.Client(t).BatchV1().Jobs(w.namespace)
	list, err := jobs.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d Jobs, err = %v; want one", len(list.Items), err)
	}
	if got, want := list.Items[0].Spec.Template.Spec.Containers[0].Image, w.image()+"@"+first; got != want {
		t.Errorf("the Job runs %s, want %s", got, want)
	}
	if got := w.app("plants").Status.Release.Revision; got != 3 {
		t.Errorf("revision %d, want 3", got)
	}
}
