package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// anImage stands for one that was pushed before; the simulated node pulls nothing.
const anImage = "registry.example.com/ops/go-helm-operator:1.0"

// deployWithoutBuild deploys an operator that nobody runs.
func deployWithoutBuild(t *testing.T, env map[string]string) {
	t.Helper()
	all := map[string]string{"IMAGE": anImage, "BUILD": "false"}
	for name, value := range env {
		all[name] = value
	}
	runScript(t, all, "hack/deploy_operator.sh").succeed(t)
}

// undeployAfter removes the operator of a namespace when the test ends, so that the next one finds none.
func undeployAfter(t *testing.T, namespace string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		apps := dynamicClient(t).Resource(libertyApps).Namespace(namespace)
		list, err := apps.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		for _, app := range list.Items {
			patch := []byte(`{"metadata":{"finalizers":null}}`)
			if _, err := apps.Patch(ctx, app.GetName(), "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			if err := apps.Delete(ctx, app.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		if err := clustertest.Client(t).AppsV1().Deployments(namespace).Delete(ctx, operator, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// held creates a resource as the operator leaves it while a release is installed: with its finalizer.
func held(t *testing.T, namespace, name string, finalizers ...string) {
	t.Helper()
	app := &unstructured.Unstructured{}
	app.SetAPIVersion("liberty.ibm.com/v1alpha1")
	app.SetKind("LibertyApp")
	app.SetName(name)
	app.SetFinalizers(append([]string{reconciler.Finalizer}, finalizers...))
	app.Object["spec"] = map[string]any{"image": map[string]any{"license": "accept"}}
	if _, err := dynamicClient(t).Resource(libertyApps).Namespace(namespace).Create(t.Context(), app, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestUndeployWithoutOperatorExplainsInsteadOfHanging(t *testing.T) {
	namespace, other := clustertest.Namespace(t), clustertest.Namespace(t)
	undeployAfter(t, namespace)
	deployWithoutBuild(t, map[string]string{"NAMESPACE": namespace})
	held(t, namespace, "plants")
	kubectl(t, "delete", "deployment", "-n", namespace, operator)

	const patience = 60 * time.Second
	env := map[string]string{"NAMESPACE": namespace, "TIMEOUT": patience.String()}
	run := runScript(t, env, "hack/undeploy_operator.sh", "--yes")
	run.refuse(t, "plants", "Nothing was changed", "hack/deploy_operator.sh", "--force-finalizers")
	if run.took > patience/2 {
		t.Errorf("it took %v to say so", run.took)
	}
	kubectl(t, "get", "libertyapp", "-n", namespace, "plants")
	kubectl(t, "get", "role", "-n", namespace, operator)

	t.Run("a CRD that somebody deletes first waits and is explained too", func(t *testing.T) {
		kubectl(t, "delete", "customresourcedefinition", "libertyapps.liberty.ibm.com", "--wait=false")
		runScript(t, env, "hack/undeploy_operator.sh", "--yes").refuse(t, "plants", "--force-finalizers")
	})
	t.Run("forced, it gives up on what is installed and removes the rest", func(t *testing.T) {
		runScript(t, env, "hack/undeploy_operator.sh", "--force-finalizers").refuse(t, "nothing was changed")
		run := runScript(t, env, "hack/undeploy_operator.sh", "--force-finalizers", "--yes").succeed(t)
		if want := "helm list -n " + namespace; !strings.Contains(run.stderr, want) {
			t.Errorf("it does not say how to find what is left, %q, but:\n%s", want, run.stderr)
		}
		checkGone(t, namespace)
	})
	t.Run("the finalizers of others are not ours to remove", func(t *testing.T) {
		undeployAfter(t, other)
		deployWithoutBuild(t, map[string]string{"NAMESPACE": other})
		held(t, other, "shared", "example.com/backup")
		kubectl(t, "delete", "deployment", "-n", other, operator)
		env := map[string]string{"NAMESPACE": other, "TIMEOUT": "60s"}
		run := runScript(t, env, "hack/undeploy_operator.sh", "--force-finalizers", "--yes").succeed(t)
		if !strings.Contains(run.stderr, "the CRDs stay") {
			t.Errorf("it does not say that the CRDs stay, but:\n%s", run.stderr)
		}
		if got := kubectl(t, "get", "libertyapp", "-n", other, "shared", "-o", "jsonpath={.metadata.finalizers}"); got != `["example.com/backup"]` {
			t.Errorf("finalizers are %s, want those of others", got)
		}
	})
}

func TestUndeployLeavesOtherOperatorsWhole(t *testing.T) {
	first, second := clustertest.Namespace(t), clustertest.Namespace(t)
	undeployAfter(t, first)
	undeployAfter(t, second)
	deployWithoutBuild(t, map[string]string{"NAMESPACE": first})
	deployWithoutBuild(t, map[string]string{"NAMESPACE": second})
	held(t, second, "theirs")

	run := runScript(t, map[string]string{"NAMESPACE": first}, "hack/undeploy_operator.sh", "--yes").succeed(t)
	if !strings.Contains(run.stderr, second) {
		t.Errorf("it does not say that the operator of %s keeps the CRDs, but:\n%s", second, run.stderr)
	}
	available(t, second)
	checkRights(t, second, []string{second}, []string{first})
	if got := kubectl(t, "get", "libertyapp", "-n", second, "theirs", "-o", "jsonpath={.metadata.deletionTimestamp}"); got != "" {
		t.Errorf("undeploying the operator of %s has deleted a resource of %s", first, second)
	}
}

func TestUndeployReportsAResourceThatDoesNotGo(t *testing.T) {
	namespace := clustertest.Namespace(t)
	undeployAfter(t, namespace)
	deployWithoutBuild(t, map[string]string{"NAMESPACE": namespace}) // available, as the simulated node has it, but doing nothing
	held(t, namespace, "stuck")

	run := runScript(t, map[string]string{"NAMESPACE": namespace, "TIMEOUT": "1s"}, "hack/undeploy_operator.sh", "--yes")
	run.refuse(t, "stuck", "is not gone after 1s", "The operator still runs")
	available(t, namespace)
}

func TestUndeployOnACleanClusterIsNoError(t *testing.T) {
	namespace := clustertest.Namespace(t)
	runScript(t, map[string]string{"NAMESPACE": namespace}, "hack/undeploy_operator.sh").succeed(t)
	runScript(t, map[string]string{"NAMESPACE": namespace}, "hack/undeploy_operator.sh", "--bogus").refuse(t, "--bogus")
	runScript(t, map[string]string{"NAMESPACE": fmt.Sprint(namespace, "-none")}, "hack/undeploy_operator.sh").succeed(t)
}
