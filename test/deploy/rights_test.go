package deploy

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// may asks the API server whether the operator deployed in namespace may do this: "verb resource[/subresource][.group] [name]",
// or "verb /path", in the namespace where, "" for the whole cluster.
func may(t *testing.T, namespace, where, action string) bool {
	t.Helper()
	fields := strings.Fields(action)
	spec := authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + namespace + ":" + operator,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	if strings.HasPrefix(fields[1], "/") {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: fields[0], Path: fields[1]}
	} else {
		resource, group, _ := strings.Cut(fields[1], ".")
		resource, subresource, _ := strings.Cut(resource, "/")
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: where, Verb: fields[0], Resource: resource, Subresource: subresource, Group: group, Version: "*",
		}
		if len(fields) > 2 {
			spec.ResourceAttributes.Name = fields[2]
		}
	}
	review, err := clustertest.Client(t).AuthorizationV1().SubjectAccessReviews().
		Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("asking whether the operator may %s: %v", action, err)
	}
	return review.Status.Allowed
}

// needed is what the operator does in a namespace that it watches.
var needed = []string{
	"list libertyapps.liberty.ibm.com", "watch libertyapps.liberty.ibm.com", "patch libertyapps.liberty.ibm.com",
	"patch libertyapps/status.liberty.ibm.com", "update libertyapps/finalizers.liberty.ibm.com",
	"create deployments.apps", "patch deployments.apps", "delete deployments.apps", "watch deployments.apps",
	"create statefulsets.apps", "create services", "create configmaps", "create secrets", "get secrets", "create jobs.batch",
	"create ingresses.networking.k8s.io", "create horizontalpodautoscalers.autoscaling",
	"patch serviceaccounts default", "create events.events.k8s.io",
}

// excessive is what nothing the operator does needs, in any namespace; holding it would make its token worth stealing.
var excessive = []string{
	"* *.*", "create pods", "create pods/exec", "create pods/attach", "create pods/portforward", "get pods/log",
	"create serviceaccounts/token", "impersonate serviceaccounts", "impersonate users", "impersonate groups",
	"escalate roles.rbac.authorization.k8s.io", "bind roles.rbac.authorization.k8s.io",
	"escalate clusterroles.rbac.authorization.k8s.io", "bind clusterroles.rbac.authorization.k8s.io",
	"create clusterroles.rbac.authorization.k8s.io", "create clusterrolebindings.rbac.authorization.k8s.io",
	"create customresourcedefinitions.apiextensions.k8s.io", "delete customresourcedefinitions.apiextensions.k8s.io",
	"create validatingwebhookconfigurations.admissionregistration.k8s.io",
	"create mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"create namespaces", "delete namespaces", "patch namespaces", "list nodes", "patch nodes", "get nodes/proxy",
	"create certificatesigningrequests.certificates.k8s.io", "create daemonsets.apps", "create persistentvolumes",
	"create libertyapps.liberty.ibm.com", "delete libertyapps.liberty.ibm.com", "deletecollection secrets",
	"delete leases.coordination.k8s.io", "update leases.coordination.k8s.io other-lease", "get /metrics", "get /debug/pprof",
}

// checkRights compares what the operator of namespace may do with what it should, given the namespaces that it watches.
func checkRights(t *testing.T, namespace string, watched, unwatched []string) {
	t.Helper()
	for _, where := range watched {
		for _, action := range needed {
			if !may(t, namespace, where, action) {
				t.Errorf("the operator of %s may not %s in watched namespace %s", namespace, action, where)
			}
		}
	}
	for _, where := range append(unwatched, watched...) {
		for _, action := range excessive {
			if may(t, namespace, where, action) {
				t.Errorf("the operator of %s may %s in namespace %s", namespace, action, where)
			}
		}
	}
	for _, where := range unwatched {
		for _, action := range needed {
			if may(t, namespace, where, action) {
				t.Errorf("the operator of %s may %s in namespace %s, which it does not watch", namespace, action, where)
			}
		}
	}
	for _, action := range []string{"create leases.coordination.k8s.io", "update leases.coordination.k8s.io " + operator} {
		if !may(t, namespace, namespace, action) {
			t.Errorf("the operator of %s may not %s in its own namespace", namespace, action)
		}
		if may(t, namespace, "kube-system", action) {
			t.Errorf("the operator of %s may %s in kube-system", namespace, action)
		}
	}
}
