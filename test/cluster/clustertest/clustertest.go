// Package clustertest gives a test package its own control plane, started once in TestMain:
//
//	func TestMain(m *testing.M) {
//		os.Exit(clustertest.Run(m, cluster.Options{CRDs: []string{"../../deploy/crds"}, AuditLog: true}))
//	}
//
// With KUBEBUILDER_ASSETS set, controller-runtime's envtest runs the kube-apiserver and etcd found there instead. That is
// an API server and nothing else: no Deployment gets Pods, no owner's deletion collects its dependents, no namespace ever
// finishes terminating, and Cluster is not to be had.
package clustertest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/jkwong888/go-helm-operator/test/cluster"
)

// shared is what Run started for this test binary.
var shared struct {
	config     *rest.Config
	kubeconfig string
	cluster    *cluster.Cluster // nil under envtest
}

// Run starts a control plane, runs the tests of m and stops it. It returns the status for os.Exit. When a test failed, the
// logs are kept and their place is printed.
func Run(m *testing.M, options cluster.Options) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	start := startCluster
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		start = startEnvtest
	}
	stop, err := start(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer context.AfterFunc(ctx, func() { // interrupted: leave nothing behind
		stop(false)
		os.Exit(1) //nolint:forbidigo // the tests that run cannot be told to end
	})()
	code := m.Run()
	stop(code != 0)
	return code
}

func startCluster(ctx context.Context, options cluster.Options) (stop func(failed bool), err error) {
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	shared.cluster, shared.config, shared.kubeconfig = c, c.Config, c.Kubeconfig
	return func(failed bool) {
		if failed {
			c.Keep()
			fmt.Fprintln(os.Stderr, "the logs of the control plane are in", c.Logs)
		}
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}, nil
}

func startEnvtest(_ context.Context, options cluster.Options) (stop func(failed bool), err error) {
	dir, err := os.MkdirTemp("", "envtest-")
	if err != nil {
		return nil, err
	}
	environment := &envtest.Environment{CRDDirectoryPaths: options.CRDs, ErrorIfCRDPathMissing: true}
	stop = func(bool) {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		_ = os.RemoveAll(dir)
	}
	config, err := environment.Start()
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("starting envtest from KUBEBUILDER_ASSETS: %w", err)
	}
	shared.config, shared.kubeconfig = config, filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(shared.kubeconfig, environment.KubeConfig, 0o600); err != nil {
		stop(true)
		return nil, err
	}
	return stop, nil
}

// Config returns the configuration of an administrator, which is the caller's to change.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	if shared.config == nil {
		t.Fatal("no control plane: TestMain has to call clustertest.Run")
	}
	return rest.CopyConfig(shared.config)
}

// Kubeconfig returns the path of an administrator's kubeconfig.
func Kubeconfig(t testing.TB) string {
	t.Helper()
	Config(t)
	return shared.kubeconfig
}

// Client returns a client of the administrator.
func Client(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Cluster returns the whole control plane, for tests that count requests or break components.
func Cluster(t testing.TB) *cluster.Cluster {
	t.Helper()
	Config(t)
	if shared.cluster == nil {
		t.Fatal("this test needs the whole control plane; unset KUBEBUILDER_ASSETS")
	}
	return shared.cluster
}

// outside matches what a name may not hold.
var outside = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace creates a namespace for this test alone, named after it, in which Pods can be created. It is deleted when the
// test ends; nobody waits until it is gone.
func Namespace(t testing.TB) string {
	t.Helper()
	client := Client(t)
	const longest = 40 // leaves room for what the API server adds, and for the names of Services in it
	name := strings.Trim(outside.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	name = strings.Trim(name[:min(len(name), longest)], "-")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	created, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.CoreV1().Namespaces().Delete(ctx, created.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting namespace %s: %v", created.Name, err)
		}
	})
	if shared.cluster != nil {
		if err := shared.cluster.AwaitServiceAccount(ctx, created.Name); err != nil {
			t.Fatalf("waiting for the ServiceAccount of namespace %s: %v", created.Name, err)
		}
	}
	return created.Name
}
