package apply_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// hunter2 stands for content that no message may hold.
const hunter2 = "hunter2"

func TestRefusedObjects(t *testing.T) {
	b := newBench(t, options{})
	tests := map[string]struct {
		manifest string
		says     []string
	}{
		"a field that the kind does not have": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: app}, spec: {replica: 1}}", []string{".spec.replica: field not declared in schema"},
		},
		"a value of another type": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: app}, spec: {replicas: hunter2}}", []string{".spec.replicas: expected numeric"},
		},
		"a map that is a string": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: hunter2}", []string{".data: expected map"},
		},
		"a value out of range": {
			"{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {ports: [{port: 99999}]}}", []string{"spec.ports[0].port: Invalid value", "must be between 1 and 65535"},
		},
		"a value that is none of those allowed": {
			"{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {type: hunter2, ports: [{port: 99}]}}", []string{"spec.type: Unsupported value", `"ClusterIP"`},
		},
		"a key twice": {
			"{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {ports: [{port: 99, name: a}, {port: 99, name: b}]}}", []string{`.spec.ports: duplicate entries for key [port=99,protocol="TCP"]`},
		},
		"a quantity that is none": {
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: app}, spec: {resources: {requests: {storage: hunter2}}}}", []string{"quantities must match"},
		},
		"a name that is none": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: hunter_2}}", []string{"metadata.name: Invalid value", "RFC 1123"},
		},
		"no name": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: yes}}", []string{"it has no name"},
		},
		"a fault in a CRD-backed object": {
			"{apiVersion: example.com/v1, kind: Gadget, metadata: {name: app}, spec: {size: 0}}", []string{"spec.size", "greater than or equal to 1"},
		},
		"a field that a CRD does not have": {
			"{apiVersion: example.com/v1, kind: Gadget, metadata: {name: app}, spec: {sice: hunter2}}", []string{".spec.sice: field not declared in schema"},
		},
		"a Secret with data that is not base64": {
			"{apiVersion: v1, kind: Secret, metadata: {name: app}, data: {a: hunter2hunter2}}", []string{"Secret", "left out"},
		},
		"a Secret with data that is no map": {
			"{apiVersion: v1, kind: Secret, metadata: {name: app}, data: hunter2}", []string{"Secret", "left out"},
		},
		"a Secret with a key that is none": {
			"{apiVersion: v1, kind: Secret, metadata: {name: app}, stringData: {a b: hunter2}}", []string{"data[a b]: Invalid value"},
		},
		"a Secret with a field that it does not have": {
			"{apiVersion: v1, kind: Secret, metadata: {name: app}, dato: {a: hunter2}}", []string{"no field .dato"},
		},
		"a Secret of a type that needs a key": {
			"{apiVersion: v1, kind: Secret, metadata: {name: app}, type: kubernetes.io/tls, stringData: {a: hunter2}}", []string{"data[tls.crt]: Required value"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.client.Apply(t.Context(), b.in(t).wanted(test.manifest), "")
			var invalid *apply.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("error %T %v, want an InvalidError", err, err)
			}
			expectMessage(t, err, test.says...)
		})
	}
}

// expectMessage looks at every way to print the error or what it wraps.
func expectMessage(t *testing.T, err error, says ...string) {
	t.Helper()
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("message %q does not say %q", err, part)
		}
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if printed := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(printed, hunter2) {
			t.Errorf("%T shows the object's content: %s", err, printed)
		}
		var answer apierrors.APIStatus
		if errors.As(err, &answer) {
			if printed := fmt.Sprintf("%+v", answer.Status()); strings.Contains(printed, hunter2) {
				t.Errorf("the wrapped answer shows the object's content: %s", printed)
			}
		}
	}
}

func TestImmutableFieldsAreExplained(t *testing.T) {
	b := newBench(t, options{})
	pod := "{metadata: {labels: {a: %s}}, spec: {restartPolicy: %s, containers: [{name: app, image: 'example.com/app:%s'}]}}"
	tests := map[string]struct {
		before, after string
		says          []string
	}{
		"a Job's template": {
			"{apiVersion: batch/v1, kind: Job, metadata: {name: app}, spec: {template: " + fmt.Sprintf(pod, "b", "Never", "1") + "}}",
			"{apiVersion: batch/v1, kind: Job, metadata: {name: app}, spec: {template: " + fmt.Sprintf(pod, "b", "Never", hunter2) + "}}",
			[]string{"Job " + b.namespace + "/app cannot be changed in spec.template", "kubectl delete job.batch/app -n " + b.namespace},
		},
		"a Deployment's selector": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: app}, spec: {selector: {matchLabels: {a: b}}, template: " + fmt.Sprintf(pod, "b", "Always", "1") + "}}",
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: app}, spec: {selector: {matchLabels: {a: hunter2}}, template: " + fmt.Sprintf(pod, hunter2, "Always", "1") + "}}",
			[]string{"cannot be changed in spec.selector", "kubectl delete deployment.apps/app"},
		},
		"a StatefulSet's service": {
			"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: app}, spec: {serviceName: a, selector: {matchLabels: {a: b}}, template: " + fmt.Sprintf(pod, "b", "Always", "1") + "}}",
			"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: app}, spec: {serviceName: hunter2, selector: {matchLabels: {a: b}}, template: " + fmt.Sprintf(pod, "b", "Always", "1") + "}}",
			[]string{"cannot be changed in spec.serviceName", "--cascade=orphan"},
		},
		"a claim's class": {
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: app}, spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}",
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: app}, spec: {storageClassName: hunter2, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}",
			[]string{"cannot be changed in spec (spec is immutable after creation except", "loses its data"},
		},
		"an immutable Secret": {
			"{apiVersion: v1, kind: Secret, metadata: {name: app}, immutable: true, stringData: {a: b}}",
			"{apiVersion: v1, kind: Secret, metadata: {name: app}, immutable: true, stringData: {a: hunter2}}",
			[]string{"cannot be changed in data", "kubectl delete secret/app"},
		},
		"the role of a binding": {
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: app}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}}",
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: app}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: hunter2}}",
			[]string{"cannot be changed in roleRef", "kubectl delete rolebinding.rbac.authorization.k8s.io/app"},
		},
		"a Service's address": {
			"{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {clusterIP: 10.96.0.76, ports: [{port: 80}]}}",
			"{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {clusterIP: 10.96.0.77, ports: [{port: 80}]}}",
			[]string{"cannot be changed in spec.clusterIPs[0]"},
		},
		"a field that a CRD declares so": {
			"{apiVersion: example.com/v1, kind: Gadget, metadata: {name: app}, spec: {color: red}}",
			"{apiVersion: example.com/v1, kind: Gadget, metadata: {name: app}, spec: {color: hunter2}}",
			[]string{"cannot be changed in spec.color"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			before := b.apply(b.wanted(test.before), "")
			_, err := b.client.Apply(t.Context(), b.wanted(test.after), before.UID)
			var immutable *apply.ImmutableError
			if !errors.As(err, &immutable) {
				t.Fatalf("error %T %v, want an ImmutableError", err, err)
			}
			expectMessage(t, err, test.says...)
		})
	}
}

func TestPoliciesAreNamed(t *testing.T) {
	b := newBench(t, options{})
	quota := b.parse("{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: NAMESPACE}, spec: {hard: {secrets: '0'}}}")
	must(b.resource(quota).Create(t.Context(), quota, metav1.CreateOptions{}))(t)
	await(t, "the quota to count", func() error {
		if _, found, _ := unstructured.NestedString(b.get(quota).Object, "status", "hard", "secrets"); !found {
			return errors.New("it does not yet")
		}
		return nil
	})
	_, err := b.client.Apply(t.Context(), b.wanted("{apiVersion: v1, kind: Secret, metadata: {name: app}, stringData: {a: hunter2}}"), "")
	var denied *apply.DeniedError
	if !errors.As(err, &denied) {
		t.Fatalf("error %T %v, want a DeniedError", err, err)
	}
	expectMessage(t, err, "the cluster's policy refused Secret "+b.namespace+"/app", "exceeded quota: none")
}

func TestMissingAndLeavingNamespaces(t *testing.T) {
	b := newBench(t, options{})
	_, err := b.client.Apply(t.Context(), b.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: app, namespace: nowhere-at-all}}"), "")
	if err == nil {
		t.Fatal("applied into a namespace that does not exist")
	}
	expectMessage(t, err, "cannot apply ConfigMap nowhere-at-all/app: its namespace does not exist")

	leaving := b.parse("{apiVersion: v1, kind: Namespace, metadata: {name: NAMESPACE-leaving, finalizers: [example.com/hold]}}")
	must(b.resource(leaving).Create(t.Context(), leaving, metav1.CreateOptions{}))(t)
	b.deleteQuietly(leaving)
	t.Cleanup(func() {
		_, err := clustertest.Client(t).CoreV1().Namespaces().Patch(context.WithoutCancel(t.Context()), leaving.GetName(), "application/merge-patch+json",
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	_, err = b.client.Apply(t.Context(), b.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: app, namespace: NAMESPACE-leaving}}"), "")
	var terminating *apply.TerminatingError
	if !errors.As(err, &terminating) {
		t.Fatalf("error %v, want a TerminatingError", err)
	}
	expectMessage(t, err, "its namespace is being deleted")
}

func TestKindsThatTheClusterDoesNotHave(t *testing.T) {
	b := newBench(t, options{})
	var noKind *apply.NoKindError
	unknown := b.parse("{apiVersion: nowhere.example.com/v1, kind: Sprocket, metadata: {name: app, namespace: NAMESPACE}}")
	old := b.parse("{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: app, namespace: NAMESPACE}}")
	calls := map[string]func(*unstructured.Unstructured) error{
		"Mapping": func(obj *unstructured.Unstructured) error {
			_, err := b.client.Mapping(obj.GroupVersionKind())
			return err
		},
		"Apply": func(obj *unstructured.Unstructured) error {
			_, err := b.client.Apply(t.Context(), obj, "")
			return err
		},
	}
	for name, call := range calls {
		if err := call(unknown); !errors.As(err, &noKind) {
			t.Errorf("%s: error %v, want a NoKindError", name, err)
		} else {
			expectMessage(t, err, "no kind Sprocket in nowhere.example.com/v1")
		}
		if err := call(old); !errors.As(err, &noKind) {
			t.Errorf("%s of an old version: error %v, want a NoKindError", name, err)
		} else {
			expectMessage(t, err, "no kind Deployment in apps/v1beta1", "[v1]")
		}
	}
	if _, err := b.client.Check(t.Context(), b.owner, unknown); !errors.As(err, &noKind) {
		t.Errorf("Check: error %v, want a NoKindError", err)
	}
	if _, err := b.client.Delete(t.Context(), apply.Entry(unknown), b.owner); !errors.As(err, &noKind) {
		t.Errorf("Delete: error %v, want a NoKindError", err)
	}
	err := b.cache.Use(t.Context(), b.owner, []schema.GroupVersionKind{unknown.GroupVersionKind(), secretKind})
	if err != nil || !b.watched(secretKind) || b.watched(unknown.GroupVersionKind()) {
		t.Errorf("Use: error %v, want the other kind watched", err)
	}
	found, err := b.client.Check(t.Context(), b.owner, old)
	if err != nil || found.Exists {
		t.Errorf("Check of an old version: %+v, %v; want it to look in the version that there is", found, err)
	}
}

func TestAKindThatComesAndGoes(t *testing.T) {
	b := newBench(t, options{})
	crd := b.parse(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: latecomers.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Latecomer, plural: latecomers, singular: latecomer}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]`)
	obj := b.parse("{apiVersion: example.com/v1, kind: Latecomer, metadata: {name: app}}")
	b.owner.Mark(obj, true)
	var noKind *apply.NoKindError
	if _, err := b.client.Apply(t.Context(), obj, ""); !errors.As(err, &noKind) {
		t.Fatalf("error %v, want a NoKindError", err)
	}
	must(b.resource(crd).Create(t.Context(), crd, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { b.deleteQuietly(crd) })
	var entry entryType
	await(t, "the kind", func() (err error) {
		entry, err = b.client.Apply(t.Context(), obj, "")
		return err
	})
	b.use(obj.GroupVersionKind())
	b.awaitDrift(entry, "")
	b.delete(crd)
	b.awaitDrift(entry, apply.DriftDeleted)
	await(t, "the API server to know that the kind is gone", func() error {
		if _, err := b.client.Apply(t.Context(), obj, ""); !errors.As(err, &noKind) {
			return fmt.Errorf("error %w, want a NoKindError", err)
		}
		return nil
	})
	gone, err := b.client.Delete(t.Context(), entry, b.owner)
	if !gone && !errors.As(err, &noKind) {
		t.Errorf("deleting what went with its kind: %v, %v", gone, err)
	}
}

// restricted returns the configuration of a ServiceAccount that has these rules
// in its namespace, by a token as a pod has it.
func restricted(t *testing.T, rules ...rbacv1.PolicyRule) (cfg *rest.Config, grant func(...rbacv1.PolicyRule)) {
	t.Helper()
	client, namespace := clustertest.Client(t), clustertest.Namespace(t)
	must(client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}, metav1.CreateOptions{}))(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Rules: rules}
	must(client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))(t)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "operator"}},
	}
	must(client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(client.RbacV1().ClusterRoleBindings().Delete(ctx, namespace, metav1.DeleteOptions{}),
			client.RbacV1().ClusterRoles().Delete(ctx, namespace, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	token := must(client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "operator", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	cfg = rest.AnonymousClientConfig(clustertest.Config(t))
	cfg.BearerToken = token.Status.Token
	return cfg, func(rules ...rbacv1.PolicyRule) {
		role.Rules = rules
		role = must(client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}))(t)
	}
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func TestForbiddenNamesVerbAndResource(t *testing.T) {
	cfg, _ := restricted(t,
		rule("", "configmaps", "get", "patch"), rule("", "services", "patch"), rule("", "secrets", "create", "patch", "list"),
		rule("rbac.authorization.k8s.io", "roles", "create", "patch"), rule("rbac.authorization.k8s.io", "rolebindings", "create", "patch"))
	b := newBench(t, options{config: cfg})
	configMap := b.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b}}")
	service := b.wanted("{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {ports: [{port: 80}]}}")
	apps := b.wanted(deployment)
	role := b.wanted("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: app}, rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}")
	binding := b.wanted("{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: app}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}")
	recorded := apply.Entry(configMap)
	recorded.UID = "00000000-0000-0000-0000-000000000000"
	tests := map[string]struct {
		call           func() error
		verb, resource string
		says           string
	}{
		"reading":                {func() error { _, err := b.client.Check(t.Context(), b.owner, service); return err }, "get", "services", "its role needs verb get on resource services"},
		"applying":               {func() error { _, err := b.client.Apply(t.Context(), apps, ""); return err }, "patch", "deployments", "of API group apps"},
		"applying what is new":   {func() error { _, err := b.client.Apply(t.Context(), configMap, ""); return err }, "create", "configmaps", "in namespace " + b.namespace},
		"deleting":               {func() error { _, err := b.client.Delete(t.Context(), recorded, b.owner); return err }, "delete", "configmaps", ""},
		"granting what it lacks": {func() error { _, err := b.client.Apply(t.Context(), role, ""); return err }, "escalate", "roles", `Resources:["pods"], Verbs:["get"]`},
		"binding what it lacks":  {func() error { _, err := b.client.Apply(t.Context(), binding, ""); return err }, "bind", "rolebindings", ""},
		"listing": {func() error {
			return b.cache.Use(t.Context(), b.owner, []schema.GroupVersionKind{service.GroupVersionKind()})
		}, "list", "services", "the operator may not list services in namespace " + b.namespace},
		"watching": {func() error { return b.cache.Use(t.Context(), b.owner, []schema.GroupVersionKind{secretKind}) }, "watch", "secrets", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			err := test.call()
			var forbidden *apply.ForbiddenError
			if !errors.As(err, &forbidden) {
				t.Fatalf("error %T %v, want a ForbiddenError", err, err)
			}
			if forbidden.Verb != test.verb || forbidden.Resource.Resource != test.resource {
				t.Errorf("it names %s of %s, want %s of %s", forbidden.Verb, forbidden.Resource.Resource, test.verb, test.resource)
			}
			expectMessage(t, err, test.says)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("it took %v to say so", took)
			}
		})
	}
}

func TestAWatchBeginsOnceItIsAllowed(t *testing.T) {
	cfg, grant := restricted(t, rule("", "configmaps", "get"))
	b := newBench(t, options{config: cfg})
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	var forbidden *apply.ForbiddenError
	if err := b.cache.Use(t.Context(), b.owner, []schema.GroupVersionKind{kind}); !errors.As(err, &forbidden) {
		t.Fatalf("error %v, want a ForbiddenError", err)
	}
	var again error
	requests := b.requests.during(func() { again = b.cache.Use(t.Context(), b.owner, []schema.GroupVersionKind{kind}) })
	if !errors.As(again, &forbidden) || len(requests) > 0 {
		t.Errorf("asked again: %v after %v; want the same without asking the API server", again, requests)
	}
	entry := entryType{Version: "v1", Kind: "ConfigMap", Namespace: b.namespace, Name: "app"}
	if observed, exists := b.cache.Get(entry); exists || !observed.Unknown {
		t.Errorf("observed %+v, %v of a kind that cannot be watched, want unknown", observed, exists)
	}
	grant(rule("", "configmaps", "get", "list", "watch"))
	await(t, "the owner to be enqueued", func() error {
		if !slices.Contains(b.enqueued.take(), b.owner.Name) {
			return errors.New("it was not")
		}
		return nil
	})
	if err := b.cache.Use(t.Context(), b.owner, []schema.GroupVersionKind{kind}); err != nil || !b.watched(kind) {
		t.Errorf("once allowed: %v, synced %v", err, b.watched(kind))
	}
}
