package api_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

const (
	roleFile        = "../../deploy/role.yaml"
	clusterRoleFile = "../../deploy/cluster/cluster_role.yaml"
)

func rulesOf(t *testing.T, file string) []rbacv1.PolicyRule {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole // a Role has the same rules
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	if len(role.Rules) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return role.Rules
}

// TestTheRolesNameWhatTheAPIServerKnows: every resource and verb in the roles exists, and nothing is a wildcard. A resource
// whose name were guessed wrong would not be there.
func TestTheRolesNameWhatTheAPIServerKnows(t *testing.T) {
	installed(t)
	client, err := discovery.NewDiscoveryClientForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	verbs := map[string][]string{}
	clusterScoped := map[string]bool{}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = ""
		}
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			verbs[group+"/"+resource.Name] = append(verbs[group+"/"+resource.Name], resource.Verbs...)
			clusterScoped[group+"/"+resource.Name] = !resource.Namespaced
		}
	}
	for _, file := range []string{roleFile, clusterRoleFile} {
		for _, rule := range rulesOf(t, file) {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					name := group + "/" + resource
					if strings.HasSuffix(resource, "/finalizers") {
						continue // checked by an admission plug-in, not served
					}
					if file == roleFile && clusterScoped[name] {
						t.Errorf("%s names the cluster-scoped resource %s", file, name)
					}
					for _, verb := range rule.Verbs {
						if !slices.Contains(verbs[name], verb) {
							t.Errorf("%s allows %s on %s, which the API server does not know", file, verb, name)
						}
					}
				}
			}
		}
	}
}

// TestTheRolesHoldWhatTheOperatorUses, and not what nobody should have.
func TestTheRolesHoldWhatTheOperatorUses(t *testing.T) {
	allowed := func(rules []rbacv1.PolicyRule, group, resource, verb string) bool {
		return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) &&
				slices.Contains(rule.Verbs, verb) && len(rule.ResourceNames) == 0
		})
	}
	objects := map[string][]string{
		"":                          {"configmaps", "secrets", "serviceaccounts", "services"},
		"apps":                      {"deployments", "statefulsets"},
		"autoscaling":               {"horizontalpodautoscalers"},
		"batch":                     {"jobs"},
		"networking.k8s.io":         {"ingresses"},
		"rbac.authorization.k8s.io": {"roles", "rolebindings"},
	}
	for _, file := range []string{roleFile, clusterRoleFile} {
		rules := rulesOf(t, file)
		for group, resources := range objects {
			for _, resource := range resources {
				for _, verb := range []string{"create", "delete", "get", "list", "patch", "watch"} {
					if !allowed(rules, group, resource, verb) {
						t.Errorf("%s does not allow %s on %s/%s", file, verb, group, resource)
					}
				}
			}
		}
		for _, never := range [][3]string{
			{"", "pods", "create"}, {"", "pods/exec", "create"}, {"", "secrets", "deletecollection"},
			{"liberty.ibm.com", "libertyapps", "create"}, {"liberty.ibm.com", "libertyapps", "delete"}, {"*", "*", "*"},
			{"rbac.authorization.k8s.io", "roles", "escalate"}, {"rbac.authorization.k8s.io", "roles", "bind"},
		} {
			if allowed(rules, never[0], never[1], never[2]) {
				t.Errorf("%s allows %s on %s/%s", file, never[2], never[0], never[1])
			}
		}
	}
}

// TestTheRolesApply with kubectl's strict validation.
func TestTheRolesApply(t *testing.T) {
	mustKubectl(t, "", "apply", "--dry-run=server", "-f", roleFile, "-f", clusterRoleFile)
}
