package clustertest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: []string{"../testdata/crds"}}))
}

func TestNamespaceIsNamedAfterTheTestAndGoesWithIt(t *testing.T) {
	var name string
	t.Run("Some LONG title, with / and _ that names cannot hold, longer than they may be", func(t *testing.T) {
		name = clustertest.Namespace(t)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
		// Under envtest nobody makes the ServiceAccount that a Pod needs.
		if os.Getenv("KUBEBUILDER_ASSETS") == "" {
			if _, err := clustertest.Client(t).CoreV1().Pods(name).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Errorf("creating a Pod at once: %v", err)
			}
		}
	})
	if !strings.HasPrefix(name, "testnamespaceisnamedafterthetestandgoesw-") {
		t.Errorf("namespace %q is not named after the test", name)
	}
	namespace, err := clustertest.Client(t).CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) && (err != nil || namespace.DeletionTimestamp == nil) {
		t.Errorf("after its test the namespace is %+v, %v; want it gone or going", namespace, err)
	}
}

func TestKubeconfigReachesTheSameCluster(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", clustertest.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := clustertest.Config(t).Host; strings.TrimSuffix(config.Host, "/") != strings.TrimSuffix(want, "/") {
		t.Errorf("kubeconfig names %s, the configuration %s", config.Host, want)
	}
}

func TestDefinitionsAreServed(t *testing.T) {
	resources, err := clustertest.Client(t).Discovery().ServerResourcesForGroupVersion("cluster.test/v1")
	if err != nil || len(resources.APIResources) == 0 || resources.APIResources[0].Name != "widgets" {
		t.Errorf("resources %+v, %v; want widgets", resources, err)
	}
}

// TestEnvtestRunsTheSameBinaries runs the other tests of this package under KUBEBUILDER_ASSETS.
func TestEnvtestRunsTheSameBinaries(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		return // this is that run
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.v", "-test.run=^(TestNamespace|TestKubeconfig|TestDefinitions)")
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+filepath.Join(clustertest.Cluster(t).Dir, "bin"))
	output, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(output), "--- PASS: Test") != 4 { // three and a subtest
		t.Errorf("under envtest: %v\n%s", err, output)
	}
}
