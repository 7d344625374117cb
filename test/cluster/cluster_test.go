package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: []string{"testdata/crds"}, AuditLog: true}))
}

// eventually asks condition until it holds. What an error says is shown when it never does.
func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v; last: %v", what, err, last)
	}
}

func TestVersionIsTheOnePinned(t *testing.T) {
	info, err := clustertest.Client(t).ServerVersion()
	if err != nil || info.GitVersion != cluster.Version {
		t.Errorf("server version %v, %v; want %s", info, err, cluster.Version)
	}
}

func TestAnonymousIsRefused(t *testing.T) {
	client, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(clustertest.Config(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("listing Pods without a token: %v; want unauthorized", err)
	}
}

// asServiceAccount returns a client with the token of a new ServiceAccount.
func asServiceAccount(t *testing.T, namespace, name string) *kubernetes.Clientset {
	t.Helper()
	accounts := clustertest.Client(t).CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(clustertest.Config(t))
	config.BearerToken = token.Status.Token
	config.UserAgent = "test-of-" + namespace
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestServiceAccountMayDoWhatIsBoundToIt(t *testing.T) {
	namespace := clustertest.Namespace(t)
	admin, client := clustertest.Client(t), asServiceAccount(t, namespace, "reader")
	list := func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
	if err := list(t.Context()); !apierrors.IsForbidden(err) {
		t.Fatalf("listing without a binding: %v; want forbidden", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "reader"}},
	}
	if _, err := admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "listing with a binding", list)
}

// TestDependentOfCustomResourceIsCollected fails by time when CRDs come after the controller-manager.
func TestDependentOfCustomResourceIsCollected(t *testing.T) {
	namespace := clustertest.Namespace(t)
	widgets, err := dynamic.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	resource := widgets.Resource(schema.GroupVersionResource{Group: "cluster.test", Version: "v1", Resource: "widgets"}).Namespace(namespace)
	owner, err := resource.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.test/v1", "kind": "Widget", "metadata": map[string]any{"name": "owner"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	maps := clustertest.Client(t).CoreV1().ConfigMaps(namespace)
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "cluster.test/v1", Kind: "Widget", Name: "owner", UID: owner.GetUID(),
	}}}}
	if _, err := maps.Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := resource.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	eventually(t, "collecting the dependent", func(ctx context.Context) error {
		_, err := maps.Get(ctx, "owned", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there (%w)", err)
		}
		return nil
	})
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("collecting the dependent took %s", took)
	}
}

func TestRequestsAreCountedExactly(t *testing.T) {
	c, namespace := clustertest.Cluster(t), clustertest.Namespace(t)
	client := asServiceAccount(t, namespace, "counted")
	user := cluster.ByUser("system:serviceaccount:" + namespace + ":counted")
	get := func(ctx context.Context) error {
		_, err := client.CoreV1().Secrets(namespace).Get(ctx, "none", metav1.GetOptions{})
		return err
	}
	if err := get(t.Context()); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	mark, err := c.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const parallel, each = 8, 25
	group, ctx := errgroup.WithContext(t.Context())
	for range parallel {
		group.Go(func() error {
			for range each {
				if err := get(ctx); !apierrors.IsForbidden(err) {
					return fmt.Errorf("getting a Secret: %w; want forbidden", err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	requests, err := c.Requests(t.Context(), mark, user)
	if err != nil || len(requests) != parallel*each {
		t.Fatalf("%d requests, %v; want %d", len(requests), err, parallel*each)
	}
	got := requests[0]
	got.Time, got.URI = time.Time{}, ""
	want := cluster.Request{
		User: "system:serviceaccount:" + namespace + ":counted", UserAgent: "test-of-" + namespace,
		Verb: "get", Resource: "secrets", Namespace: namespace, Name: "none", Code: 403,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	for filter, tc := range map[string]struct {
		filter cluster.Filter
		want   int
	}{
		"user agent":     {cluster.ByUserAgent("test-of-" + namespace), parallel * each},
		"other user":     {cluster.Not(user), 0},
		"writes":         {cluster.Writes(), 0},
		"resource":       {cluster.ByResource("secrets"), parallel * each},
		"other resource": {cluster.ByResource("pods"), 0},
		"namespace":      {cluster.ByNamespace(namespace), parallel * each},
	} {
		requests, err := c.Requests(t.Context(), mark, tc.filter, cluster.ByUserAgent("test-of-"))
		if err != nil || len(requests) != tc.want {
			t.Errorf("filter by %s: %d requests, %v; want %d", filter, len(requests), err, tc.want)
		}
	}
}

func TestWatchIsCountedOnceWhenItStarts(t *testing.T) {
	c, namespace := clustertest.Cluster(t), clustertest.Namespace(t)
	config := clustertest.Config(t)
	config.UserAgent = "watcher-of-" + namespace
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	count := func(since cluster.Mark) int {
		t.Helper()
		requests, err := c.Requests(t.Context(), since, cluster.ByUserAgent(config.UserAgent), cluster.ByVerb("watch"))
		if err != nil {
			t.Fatal(err)
		}
		return len(requests)
	}
	before, err := c.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watch, err := client.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := count(before); got != 1 {
		t.Errorf("a watch under way counts %d times", got)
	}
	during, err := c.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
	// Its end is written down after the client has left, at a time nobody tells; the log itself shows it.
	eventually(t, "the end of the watch in the audit log", func(context.Context) error {
		return logHolds(c, `"stage":"ResponseComplete"`, config.UserAgent)
	})
	if all, since := count(before), count(during); all != 1 || since != 0 {
		t.Errorf("a watch that ended counts %d times, %d since it was under way; want 1 and 0", all, since)
	}
}

func TestOnlyOneClusterInAFolder(t *testing.T) {
	c := clustertest.Cluster(t)
	if other, err := cluster.Start(t.Context(), cluster.Options{Dir: c.Dir}); err == nil {
		t.Error("a second cluster started in the folder of the first")
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("the first cluster afterwards: %v", err)
	}
}

func TestClustersSideBySideAreSeparateAndStopLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "second")
	second, err := cluster.Start(t.Context(), cluster.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	namespace := clustertest.Namespace(t)
	client, err := kubernetes.NewForConfig(second.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("namespace of the first cluster in the second: %v; want not found", err)
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	for name, running := range second.Components() {
		if running {
			t.Errorf("%s still runs", name)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v; want none", err)
	}
	if err := clustertest.Cluster(t).Ready(t.Context()); err != nil {
		t.Errorf("the first cluster afterwards: %v", err)
	}
}

// TestComponentsBreakAndRecover has a cluster of its own to break.
func TestComponentsBreakAndRecover(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	get := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := maps.Get(ctx, "kept", metav1.GetOptions{})
		return err
	}
	signal := func(component string, sig os.Signal) {
		t.Helper()
		if err := c.Signal(component, sig); err != nil {
			t.Fatal(err)
		}
	}

	signal(cluster.APIServer, syscall.SIGSTOP)
	if err := get(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused API server answers: %v", err)
	}
	signal(cluster.APIServer, syscall.SIGCONT)
	eventually(t, "the API server goes on", get)

	signal(cluster.APIServer, syscall.SIGKILL)
	eventually(t, "the API server is noticed to be dead", func(ctx context.Context) error {
		if c.Ready(ctx) == nil {
			return errors.New("the cluster calls itself ready")
		}
		return nil
	})
	for _, component := range []string{cluster.APIServer, cluster.Etcd, cluster.ControllerManager} {
		if err := c.Restart(t.Context(), component); err != nil {
			t.Fatal(err)
		}
		eventually(t, "data after a restart of "+component, get)
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitServiceAccount(t.Context(), "later"); err != nil {
		t.Errorf("the restarted controller-manager does nothing: %v", err)
	}
	if err := c.Signal("kubelet", syscall.SIGKILL); err == nil {
		t.Error("a component that does not exist was signalled")
	}
}

// logHolds fails unless one line of the audit log holds all words.
func logHolds(c *cluster.Cluster, words ...string) error {
	content, err := os.ReadFile(filepath.Join(c.Logs, "audit.log"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			return nil
		}
	}
	return fmt.Errorf("no line of the audit log holds %q", words)
}

func TestKeptClusterLeavesItsLogs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	c, err := cluster.Start(t.Context(), cluster.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(c.Logs, "kube-apiserver.log")); err != nil || info.Size() == 0 {
		t.Errorf("log of the API server: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("etcd's data: %v; want none", err)
	}
}
