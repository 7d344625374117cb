package apply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

var libertyApp = schema.GroupVersionKind{Group: "liberty.ibm.com", Version: "v1alpha1", Kind: "LibertyApp"}

func plants() Owner {
	return Owner{GVK: libertyApp, Namespace: "shop", Name: "plants", UID: "u1", ReleaseName: "plants", ReleaseNamespace: "shop"}
}

func parse(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestMark(t *testing.T) {
	marks := `
  annotations: {meta.helm.sh/release-name: plants, meta.helm.sh/release-namespace: shop, operator-sdk/primary-resource: shop/plants, operator-sdk/primary-resource-type: LibertyApp.liberty.ibm.com}
  labels: {app.kubernetes.io/managed-by: Helm, helm.sdk.operatorframework.io/owner-kind: libertyapp.liberty.ibm.com}`
	reference := `
  ownerReferences: [{apiVersion: liberty.ibm.com/v1alpha1, kind: LibertyApp, name: plants, uid: u1, controller: false, blockOwnerDeletion: false}]`
	tests := map[string]struct {
		in, want    string
		clusterKind bool
		owner       func(*Owner)
	}{
		"the release's namespace is the default, and the owner is referenced": {
			in:   "{apiVersion: v1, kind: Secret, metadata: {name: a}}",
			want: "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  namespace: shop" + marks + reference,
		},
		"an object in another namespace is found by annotation alone": {
			in:   "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: other}}",
			want: "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  namespace: other" + marks,
		},
		"a cluster-scoped object loses a namespace and has no reference": {
			in:          "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, namespace: shop}}",
			want:        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: a" + marks,
			clusterKind: true,
		},
		"a cluster-scoped owner is referenced from anywhere": {
			in: "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}",
			want: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: a" +
				strings.Replace(marks, "shop/plants", "/plants", 1) + reference,
			clusterKind: true,
			owner:       func(o *Owner) { o.Namespace = "" },
		},
		"a kept object outlives its owner": {
			in: "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: shop, annotations: {helm.sh/resource-policy: keep}}}",
			want: "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  namespace: shop" +
				strings.Replace(marks, "annotations: {", "annotations: {helm.sh/resource-policy: keep, ", 1),
		},
		"the plain strings of a Secret become data": {
			in:   "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: other}, data: {x: eA==, y: eQ==}, stringData: {y: z}}",
			want: "apiVersion: v1\nkind: Secret\ndata: {x: eA==, y: eg==}\nmetadata:\n  name: a\n  namespace: other" + marks,
		},
		"plain strings that are none stay for the server to refuse": {
			in:   "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: other}, stringData: {y: 1}}",
			want: "apiVersion: v1\nkind: Secret\nstringData: {y: 1}\nmetadata:\n  name: a\n  namespace: other" + marks,
		},
		"what only the server sets is dropped; selectors and templates stay": {
			in: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, uid: x, resourceVersion: "5", creationTimestamp: null, managedFields: []},
			      spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}}`,
			want: "apiVersion: apps/v1\nkind: Deployment\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}\nmetadata:\n  name: a\n  namespace: shop" + marks + reference,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			owner := plants()
			if test.owner != nil {
				test.owner(&owner)
			}
			got := parse(t, test.in)
			owner.Mark(got, !test.clusterKind)
			if diff := cmp.Diff(parse(t, test.want).Object, got.Object); diff != "" {
				t.Errorf("marked object (-want +got):\n%s", diff)
			}
			if !owner.Owns(got) {
				t.Error("the owner does not own what it marked")
			}
			kind, of, ok := OwnerOf(got)
			if !ok || kind != libertyApp.GroupKind() || of != owner.namespacedName() {
				t.Errorf("OwnerOf = %v %v %v", kind, of, ok)
			}
		})
	}
}

func TestMarkTwiceIsMarkOnce(t *testing.T) {
	once := parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: a}}")
	plants().Mark(once, true)
	twice := once.DeepCopy()
	plants().Mark(twice, true)
	if diff := cmp.Diff(once.Object, twice.Object); diff != "" {
		t.Error(diff)
	}
}

func TestOwns(t *testing.T) {
	tests := map[string]struct {
		object string
		want   bool
	}{
		"nobody's":                      {"{metadata: {name: a}}", false},
		"of another kind with our name": {"{metadata: {annotations: {operator-sdk/primary-resource: shop/plants, operator-sdk/primary-resource-type: App.example.com}}}", false},
		"of our kind with another name": {"{metadata: {annotations: {operator-sdk/primary-resource: shop/trees, operator-sdk/primary-resource-type: LibertyApp.liberty.ibm.com}}}", false},
		"by annotation":                 {"{metadata: {annotations: {operator-sdk/primary-resource: shop/plants, operator-sdk/primary-resource-type: LibertyApp.liberty.ibm.com}}}", true},
		"by reference alone, as the operator-sdk leaves it": {"{metadata: {ownerReferences: [{uid: u1}]}}", true},
		"by reference to another":                           {"{metadata: {ownerReferences: [{uid: u2}]}}", false},
		"annotations win":                                   {"{metadata: {ownerReferences: [{uid: u1}], annotations: {operator-sdk/primary-resource: shop/trees, operator-sdk/primary-resource-type: LibertyApp.liberty.ibm.com}}}", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := plants().Owns(parse(t, test.object)); got != test.want {
				t.Errorf("Owns = %v, want %v", got, test.want)
			}
		})
	}
}

func TestLabelValueIsAlwaysALabelValue(t *testing.T) {
	long := strings.Repeat("very-", 13)
	seen := map[string]bool{}
	for _, gk := range []schema.GroupKind{
		libertyApp.GroupKind(), {Kind: "App"}, {Group: long + "x.example.com", Kind: "App"}, {Group: long + "y.example.com", Kind: "App"},
		{Group: "a", Kind: strings.Repeat("K", 62)},
	} {
		value := LabelValue(gk)
		if errs := validation.IsValidLabelValue(value); len(errs) > 0 || seen[value] {
			t.Errorf("LabelValue(%v) = %q: %v, seen before: %v", gk, value, errs, seen[value])
		}
		seen[value] = true
	}
}

func TestHolder(t *testing.T) {
	yes := true
	tests := map[string]struct {
		object metav1.ObjectMeta
		want   string
	}{
		"another resource": {metav1.ObjectMeta{Annotations: map[string]string{primaryResource: "shop/trees", primaryResourceType: "LibertyApp.liberty.ibm.com"}}, "the LibertyApp shop/trees"},
		"a controller":     {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: &yes}}}, "the ReplicaSet r"},
		"a Helm release":   {metav1.ObjectMeta{Annotations: map[string]string{releaseName: "r", releaseNamespace: "n"}}, "the Helm release r in namespace n"},
		"an owner":         {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "App", Name: "r"}}}, "the App r"},
		"a field manager": {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kubectl-create", Time: &metav1.Time{}}, {Manager: "kubelet", Subresource: "status"},
		}}, "somebody else (field manager kubectl-create)"},
		"nobody": {metav1.ObjectMeta{}, "somebody else"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := holder(&test.object); got != test.want {
				t.Errorf("holder = %q, want %q", got, test.want)
			}
		})
	}
}
