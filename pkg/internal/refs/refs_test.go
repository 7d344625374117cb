package refs_test

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{AuditLog: true}))
}

const patience = time.Minute

// watcher starts a watcher whose notifications arrive on the channel.
func watcher(t *testing.T, cfg *rest.Config) (*refs.Watcher[string], chan string) {
	t.Helper()
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	http, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, http)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1000)
	w := refs.NewWatcher(client, mapper, func(owner string) { told <- owner })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w, told
}

// await waits for notifications until holds.
func await(t *testing.T, told <-chan string, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for !holds() {
		select {
		case <-told:
		case <-timeout:
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func secret(namespace, name string) refs.Reference {
	return refs.Reference{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: name}
}

func TestVersionFollowsTheObject(t *testing.T) {
	namespace := clustertest.Namespace(t)
	secrets := clustertest.Client(t).CoreV1().Secrets(namespace)
	w, told := watcher(t, clustertest.Config(t))
	ref := secret(namespace, "pull")
	if v := w.Version(ref); v != "" {
		t.Errorf("version %q before anybody refers to it, want none", v)
	}
	w.Set("app", ref)
	await(t, told, "absent", func() bool { return w.Version(ref) == refs.Absent })

	made, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, told, "present", func() bool { return w.Version(ref) == made.ResourceVersion })
	made.StringData = map[string]string{"a": "b"}
	changed, err := secrets.Update(t.Context(), made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, told, "changed", func() bool { return w.Version(ref) == changed.ResourceVersion })

	dyn, err := dynamic.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	object, err := dyn.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).Get(t.Context(), "pull", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := refs.ObjectVersion(object.Object); got != w.Version(ref) {
		t.Errorf("the object that is read has version %q, the watch says %q", got, w.Version(ref))
	}
	if err := secrets.Delete(t.Context(), "pull", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, told, "gone", func() bool { return w.Version(ref) == refs.Absent })
}

func TestCollectionsHaveAVersionToo(t *testing.T) {
	namespace := clustertest.Namespace(t)
	w, told := watcher(t, clustertest.Config(t))
	ref := secret(namespace, "")
	w.Set("app", ref)
	await(t, told, "listed", func() bool { return w.Version(ref) != "" })
	before := w.Version(ref)
	if _, err := clustertest.Client(t).CoreV1().Secrets(namespace).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, told, "another version", func() bool { return w.Version(ref) != before })
	dyn, err := dynamic.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	list, err := dyn.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := refs.ObjectVersion(list.UnstructuredContent()); got != w.Version(ref) {
		t.Errorf("the list that is read has version %q, the watch says %q", got, w.Version(ref))
	}
}

// TestOneWatchForAll counts the watches: two owners share one, and it ends with
// the last of them.
func TestOneWatchForAll(t *testing.T) {
	namespace := clustertest.Namespace(t)
	whole := clustertest.Cluster(t)
	cfg := clustertest.Config(t)
	cfg.UserAgent = "refs-under-test"
	w, told := watcher(t, cfg)
	from, err := whole.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ref := secret(namespace, "shared")
	w.Set("a", ref)
	w.Set("b", ref)
	await(t, told, "known", func() bool { return w.Version(ref) == refs.Absent })
	w.Set("a")
	if v := w.Version(ref); v != refs.Absent {
		t.Errorf("version %q while one owner is left, want %q", v, refs.Absent)
	}
	watches, err := whole.Requests(t.Context(), from, cluster.ByUserAgent(cfg.UserAgent), cluster.ByNamespace(namespace), cluster.ByVerb("watch"))
	if err != nil {
		t.Fatal(err)
	}
	if len(watches) > 1 {
		t.Errorf("%d watches, want one: %v", len(watches), watches)
	}
	w.Set("b")
	if v := w.Version(ref); v != "" {
		t.Errorf("version %q when nobody refers to it any more, want none", v)
	}
}

func TestForbiddenIsTold(t *testing.T) {
	namespace := clustertest.Namespace(t)
	cfg := clustertest.Config(t)
	// A user without any right but to discover what there is.
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":default", Groups: []string{"system:authenticated"}}
	w, told := watcher(t, cfg)
	ref := secret(namespace, "pull")
	w.Set("app", ref)
	await(t, told, "the reason", func() bool { return w.Err(ref) != nil })

	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"}}}
	client := clustertest.Client(t).RbacV1()
	name := metav1.ObjectMeta{Name: "reader"}
	if _, err := client.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, told, "the end of it", func() bool { return w.Err(ref) == nil && w.Version(ref) == refs.Absent })

	// Losing the right later is told too, and so is its return. Watches are cut
	// by a restart of the API server.
	setRules := func(rules []rbacv1.PolicyRule) {
		t.Helper()
		if _, err := client.Roles(namespace).Update(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: rules}, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	setRules(nil)
	if err := clustertest.Cluster(t).Restart(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	await(t, told, "the loss", func() bool { return w.Err(ref) != nil })
	setRules(rules)
	await(t, told, "the return", func() bool { return w.Err(ref) == nil && w.Version(ref) == refs.Absent })
}
