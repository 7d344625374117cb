package manager

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// serviceAccount is the name that deploy/ gives the operator's identity, among other things of its.
const serviceAccount = "go-helm-operator"

// kinds are what the cluster has, asked for once.
var kinds struct {
	once   sync.Once
	mapper meta.RESTMapper
	err    error
}

func restMapper(t *testing.T) meta.RESTMapper {
	t.Helper()
	kinds.once.Do(func() {
		var groups []*restmapper.APIGroupResources
		groups, kinds.err = restmapper.GetAPIGroupResources(clustertest.Client(t).Discovery())
		kinds.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	})
	return must[meta.RESTMapper](t)(kinds.mapper, kinds.err)
}

func dynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	return must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(clustertest.Config(t)))
}

// objects reads a manifest of deploy/, with the operator's namespace filled in.
func objects(t *testing.T, name, namespace string) []*unstructured.Unstructured {
	t.Helper()
	manifest := must[[]byte](t)(os.ReadFile(filepath.Join(root, "deploy", name)))
	manifest = bytes.ReplaceAll(manifest, []byte("REPLACE_NAMESPACE"), []byte(namespace))
	var all []*unstructured.Unstructured
	for documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		obj := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(document, obj)
		}
		if err != nil {
			t.Fatalf("deploy/%s: %v", name, err)
		}
		all = append(all, obj)
	}
}

// apply applies objects as kubectl does with -n.
func apply(t *testing.T, namespace string, all ...*unstructured.Unstructured) {
	t.Helper()
	for _, obj := range all {
		gvk := obj.GroupVersionKind()
		mapping := must[*meta.RESTMapping](t)(restMapper(t).RESTMapping(gvk.GroupKind(), gvk.Version))
		var client dynamic.ResourceInterface = dynamicClient(t).Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			client = dynamicClient(t).Resource(mapping.Resource).Namespace(namespace)
		}
		if _, err := client.Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "kubectl", Force: true}); err != nil {
			t.Fatalf("applying %s %s: %v", gvk.Kind, obj.GetName(), err)
		}
	}
}

// deploy gives an operator in namespace what hack/deploy_operator.sh gives it, but for the Deployment, in whose place a process runs.
// It may work in the granted namespaces, or, if none is given, in all.
func deploy(t *testing.T, namespace string, granted ...string) {
	t.Helper()
	for _, name := range []string{
		"service_account.yaml", "leader_election_role.yaml", "metrics_service.yaml",
		"cluster/metrics_auth_role_binding.yaml", "cluster/metrics_reader_role.yaml",
	} {
		apply(t, namespace, objects(t, name, namespace)...)
	}
	removeAfter(t, "clusterrolebindings", serviceAccount+"-metrics-auth-"+namespace)
	if len(granted) == 0 {
		apply(t, "", objects(t, "cluster/cluster_role.yaml", namespace)...)
		apply(t, "", objects(t, "cluster/cluster_role_binding.yaml", namespace)...)
		removeAfter(t, "clusterrolebindings", serviceAccount+"-"+namespace)
	}
	for _, watched := range granted {
		grant(t, namespace, watched)
	}
}

// grant lets the operator of a namespace work in a namespace.
func grant(t *testing.T, namespace, watched string) {
	t.Helper()
	apply(t, watched, objects(t, "role.yaml", namespace)...)
	bindings := objects(t, "role_binding.yaml", namespace)
	// The file's subject has no namespace, which means the binding's own.
	for _, subject := range bindings[0].Object["subjects"].([]any) {
		subject.(map[string]any)["namespace"] = namespace
	}
	apply(t, watched, bindings...)
}

// removeAfter removes what is not in a namespace and so would outlive the test.
func removeAfter(t *testing.T, resource, name string) {
	t.Helper()
	client := dynamicClient(t).Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource})
	t.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// deployedArgs are the arguments of the deployed container.
func deployedArgs(t *testing.T) []string {
	t.Helper()
	var deployment appsv1.Deployment
	manifest := must[[]byte](t)(os.ReadFile(filepath.Join(root, "deploy", "operator.yaml")))
	if err := yaml.UnmarshalStrict(manifest, &deployment); err != nil {
		t.Fatal(err)
	}
	args := deployment.Spec.Template.Spec.Containers[0].Args
	if !strings.Contains(fmt.Sprint(args), "--leader-elect") {
		t.Fatalf("the deployed operator has the arguments %q; these tests are about one that elects a leader", args)
	}
	return args
}

// token is a token of a ServiceAccount.
func token(t *testing.T, namespace, name string) string {
	t.Helper()
	request := must[*authenticationv1.TokenRequest](t)(clustertest.Client(t).CoreV1().ServiceAccounts(namespace).
		CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
	return request.Status.Token
}
