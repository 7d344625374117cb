package deploy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// TestDeployUseUndeploy is the operator's life in a cluster, with the scripts alone.
func TestDeployUseUndeploy(t *testing.T) {
	needBuildah(t)
	namespace, other := restricted(t), clustertest.Namespace(t)
	tag := images.Host() + "/ops/go-helm-operator:test"
	before := sources(t)

	run := runScript(t, map[string]string{"IMAGE": tag, "NAMESPACE": namespace}, "hack/deploy_operator.sh").succeed(t)
	if after := sources(t); after != before {
		t.Error("deploying has edited a file of build/, deploy/ or hack/")
	}
	if strings.Contains(run.stdout+run.stderr, password) {
		t.Error("deploying has printed the registry's password")
	}
	deployment := available(t, namespace)
	image := deployment.Spec.Template.Spec.Containers[0].Image
	digest, err := pull(t, tag).Digest()
	if err != nil {
		t.Fatal(err)
	}
	if want := images.Host() + "/ops/go-helm-operator@" + digest.String(); image != want {
		t.Errorf("deployed image is %s, want what was pushed, %s", image, want)
	}
	files := checkImage(t, image)
	checkRights(t, namespace, []string{namespace}, []string{other, "kube-system", ""})

	process := startOperator(t, files, namespace, namespace)
	t.Run("probes answer", func(t *testing.T) { checkProbes(t, process) })
	t.Run("metrics are for who may read them", func(t *testing.T) { checkMetrics(t, process, namespace) })

	app := applySample(t, namespace)
	eventually(t, "the sample is ready", func(ctx context.Context) (bool, string, error) {
		object, err := dynamicClient(t).Resource(libertyApps).Namespace(namespace).Get(ctx, app, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return condition(object, "Ready") == "True", fmt.Sprint(object.Object["status"]), nil
	})

	checkUneventful(t, process, namespace)

	undeploy := map[string]string{"NAMESPACE": namespace, "TIMEOUT": "60s"}
	runScript(t, undeploy, "hack/undeploy_operator.sh").refuse(t, app, "nothing was changed", "--yes")
	available(t, namespace)
	runScript(t, undeploy, "hack/undeploy_operator.sh", "--yes").succeed(t)
	checkGone(t, namespace)
	if apps := workloads(t, namespace); len(apps) > 0 {
		t.Errorf("undeploying has left %v", apps)
	}
}

// sources is a digest of what deploying must not edit.
func sources(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	for _, folder := range []string{"deploy", "hack", "build/Dockerfile"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			fmt.Fprintf(sum, "%s %d %s", path, len(content), content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// available fails the test unless the operator's Deployment is available in the namespace, where all its Pods run.
func available(t *testing.T, namespace string) *appsv1.Deployment {
	t.Helper()
	deployment, err := clustertest.Client(t).AppsV1().Deployments(namespace).Get(t.Context(), operator, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if deployment.Status.AvailableReplicas != 1 || deployment.Status.ObservedGeneration != deployment.Generation {
		t.Fatalf("the operator's Deployment is not available: %+v", deployment.Status)
	}
	return deployment
}

func checkProbes(t *testing.T, p *process) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, err := get(t.Context(), http.DefaultClient, p.health+path, ""); err != nil || status != http.StatusOK {
			t.Errorf("%s answers %d, %v", path, status, err)
		}
	}
}

func checkMetrics(t *testing.T, p *process, namespace string) {
	t.Helper()
	client := selfSigned()
	// The server of the metrics starts with that of the probes, not before it.
	eventually(t, "metrics without a token answer 401", func(ctx context.Context) (bool, string, error) {
		status, err := get(ctx, client, p.metrics, "")
		return status == http.StatusUnauthorized, fmt.Sprintf("they answer %d, %v", status, err), nil
	})
	bearer := token(t, namespace, "default")
	if status, err := get(t.Context(), client, p.metrics, bearer); err != nil || status != http.StatusForbidden {
		t.Errorf("metrics for a ServiceAccount without rights answer %d, %v, want 403", status, err)
	}
	plain := strings.Replace(p.metrics, "https", "http", 1)
	if status, err := get(t.Context(), http.DefaultClient, plain, bearer); err == nil && status != http.StatusBadRequest {
		t.Errorf("metrics without TLS answer %d, want 400 or no answer", status)
	}

	// A ServiceAccount of its own, because an authorization that was refused is remembered for a while.
	account, err := clustertest.Client(t).CoreV1().ServiceAccounts(namespace).
		Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus-" + namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: operator + "-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
	}
	bindings := clustertest.Client(t).RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bindings.Delete(context.WithoutCancel(t.Context()), binding.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if status, err := get(t.Context(), client, p.metrics, token(t, namespace, account.Name)); err != nil || status != http.StatusOK {
		t.Errorf("metrics for a ServiceAccount with the metrics-reader role answer %d, %v, want 200", status, err)
	}
}

// applySample applies deploy/samples to a namespace and returns the resource's name.
func applySample(t *testing.T, namespace string) string {
	t.Helper()
	kubectl(t, "apply", "-n", namespace, "-f", filepath.Join(root, "deploy/samples"))
	return strings.TrimPrefix(kubectl(t, "get", "-n", namespace, "-f", filepath.Join(root, "deploy/samples"), "-o", "name"), "libertyapp.liberty.ibm.com/")
}

// condition returns the status of a condition, "" without one.
func condition(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == kind {
			return fmt.Sprint(fields["status"])
		}
	}
	return ""
}

// checkUneventful fails the test if the operator met an error or lacked a right, or could not say that it became leader.
func checkUneventful(t *testing.T, p *process, namespace string) {
	t.Helper()
	for line := range strings.Lines(p.output.String()) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, "forbidden") {
			t.Errorf("the operator logs %s", line)
		}
	}
	eventually(t, "there is an event of the leader election", func(context.Context) (bool, string, error) {
		events := kubectl(t, "get", "events", "-n", namespace, "-o", "name", "--field-selector", "reason=LeaderElection")
		return events != "", "none", nil
	})
}

// workloads lists what an application can have left in a namespace.
func workloads(t *testing.T, namespace string) []string {
	t.Helper()
	list := kubectl(t, "get", "-n", namespace, "-o", "name", "--ignore-not-found",
		"deployments,statefulsets,services,ingresses,jobs,horizontalpodautoscalers,secrets")
	return strings.Fields(list)
}

// checkGone fails the test if anything is left of an operator, the last of the cluster, in its namespace.
func checkGone(t *testing.T, namespace string) {
	t.Helper()
	client := clustertest.Client(t)
	gone := map[string]func() error{
		"Deployment": func() error {
			_, err := client.AppsV1().Deployments(namespace).Get(t.Context(), operator, metav1.GetOptions{})
			return err
		},
		"ServiceAccount": func() error {
			_, err := client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), operator, metav1.GetOptions{})
			return err
		},
		"Role": func() error {
			_, err := client.RbacV1().Roles(namespace).Get(t.Context(), operator, metav1.GetOptions{})
			return err
		},
		"RoleBinding": func() error {
			_, err := client.RbacV1().RoleBindings(namespace).Get(t.Context(), operator, metav1.GetOptions{})
			return err
		},
		"ClusterRole": func() error {
			_, err := client.RbacV1().ClusterRoles().Get(t.Context(), operator, metav1.GetOptions{})
			return err
		},
		"ClusterRoleBinding": func() error {
			_, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), operator+"-metrics-auth-"+namespace, metav1.GetOptions{})
			return err
		},
	}
	for kind, get := range gone {
		if err := get(); !apierrors.IsNotFound(err) {
			t.Errorf("after undeploying, the operator's %s: %v, want not found", kind, err)
		}
	}
	if crds := kubectl(t, "get", "customresourcedefinitions", "-o", "name"); strings.Contains(crds, "liberty.ibm.com") {
		t.Errorf("after undeploying there are %s", crds)
	}
}

// kubectl runs it as an administrator and returns its output.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := clusterCommand(t, args...)
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(output))
}
