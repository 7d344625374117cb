// Package rbac writes the roles an operator needs: for exactly the kinds that a
// chart can create, with exactly the verbs that are used.
package rbac

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen"
)

// Options of the roles.
type Options struct {
	// Name of the roles.
	Name string
	// Kind is the resource that the operator serves, Resource its name in URLs.
	Kind     schema.GroupVersionKind
	Resource string
}

// Roles are the roles of an operator.
type Roles struct {
	// Role for one namespace, without the cluster-scoped kinds, as YAML.
	Role []byte
	// ClusterRole for all namespaces, as YAML.
	ClusterRole []byte
	// Guessed are the kinds whose resource name nothing confirms: they are
	// neither built in nor defined by the chart.
	Guessed []string
	// Unreachable are the cluster-scoped kinds, which a Role cannot allow.
	Unreachable []string
}

// rule is one rule of a role with the reason for it.
type rule struct {
	reason string
	rbacv1.PolicyRule
}

// objectVerbs are what the operator does to the objects of a release:
// server-side apply is patch, and create where the object is not there yet.
var objectVerbs = []string{"create", "delete", "get", "list", "patch", "watch"}

// Generate finds what a chart can create, by rendering it with many
// combinations of its values and by reading its templates, and writes the roles.
func Generate(ctx context.Context, api *typegen.API, o Options) (*Roles, error) {
	f, err := explore(ctx, api)
	if err != nil {
		return nil, err
	}
	maps.Copy(f.kinds, written(api.Templates))
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, object := range f.crds {
		crd, err := definition(object)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, crd)
	}
	return rolesOf(f, newMapper(definitions), api.Chart.Name(), o), nil
}

func rolesOf(f *found, m mapper, chartName string, o Options) *Roles {
	roles := &Roles{}
	namespaced, cluster := map[string][]string{}, map[string][]string{}
	own := operatorRules(o)
	for _, gvk := range slices.SortedFunc(maps.Keys(f.kinds), compareKinds) {
		r := m.resourceOf(gvk)
		if r.guessed {
			roles.Guessed = append(roles.Guessed, gvk.GroupKind().String())
		}
		switch {
		case covered(own, r):
		case r.clusterScoped:
			roles.Unreachable = append(roles.Unreachable, gvk.GroupKind().String())
			cluster[r.Group] = append(cluster[r.Group], r.Resource)
		default:
			namespaced[r.Group] = append(namespaced[r.Group], r.Resource)
		}
	}
	rules := slices.Concat(own,
		objectRules(fmt.Sprintf("Namespaced kinds that the chart %s can create.", chartName), namespaced),
		grantedRules(f.granted, own, chartName))
	clusterRules := slices.Concat(rules, clusterOperatorRules(),
		objectRules(fmt.Sprintf("Cluster-scoped kinds that the chart %s can create.", chartName), cluster))
	roles.Role = write("Role", o.Name, rules)
	roles.ClusterRole = write("ClusterRole", o.Name, clusterRules)
	return roles
}

func compareKinds(a, b schema.GroupVersionKind) int {
	return strings.Compare(a.Group+"/"+a.Kind+"/"+a.Version, b.Group+"/"+b.Kind+"/"+b.Version)
}

// operatorRules are what the operator needs whatever the chart creates.
func operatorRules(o Options) []rule {
	group := []string{o.Kind.Group}
	core := []string{""}
	return []rule{
		{"The resources themselves: watched, and patched to put the finalizer on and off.", rbacv1.PolicyRule{
			APIGroups: group, Resources: []string{o.Resource}, Verbs: []string{"list", "patch", "watch"}}},
		{"Their status.", rbacv1.PolicyRule{
			APIGroups: group, Resources: []string{o.Resource + "/status"}, Verbs: []string{"patch"}}},
		{"Owner references from the objects of a release, which block the deletion of the resource.", rbacv1.PolicyRule{
			APIGroups: group, Resources: []string{o.Resource + "/finalizers"}, Verbs: []string{"update"}}},
		{"The payload of each revision is a Secret; pull secrets and the Secrets that pods refer to are read and watched by name.", rbacv1.PolicyRule{
			APIGroups: core, Resources: []string{"secrets"}, Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"}}},
		{"ConfigMaps that pods refer to are read and watched by name; the release has its own.", rbacv1.PolicyRule{
			APIGroups: core, Resources: []string{"configmaps"}, Verbs: objectVerbs}},
		{"The pull secret is added to the namespace's default ServiceAccount; the release has its own.", rbacv1.PolicyRule{
			APIGroups: core, Resources: []string{"serviceaccounts"}, Verbs: objectVerbs}},
		{"Events about the resources.", rbacv1.PolicyRule{
			APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}},
	}
}

// clusterOperatorRules are what helps the operator and only a ClusterRole can
// allow.
func clusterOperatorRules() []rule {
	return []rule{
		{"New kinds are noticed when they come; without this, charts see the API versions of the operator's start.", rbacv1.PolicyRule{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list", "watch"}}},
	}
}

// covered says whether the rules allow everything that is done to objects of a
// resource.
func covered(rules []rule, r resource) bool {
	return holds(rules, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: objectVerbs})
}

// holds says whether one of the rules allows all that another rule does.
func holds(rules []rule, wanted rbacv1.PolicyRule) bool {
	within := func(wanted, held []string) bool {
		return !slices.ContainsFunc(wanted, func(s string) bool { return !slices.Contains(held, s) })
	}
	return len(wanted.NonResourceURLs) == 0 && slices.ContainsFunc(rules, func(held rule) bool {
		return within(wanted.APIGroups, held.APIGroups) && within(wanted.Resources, held.Resources) && within(wanted.Verbs, held.Verbs)
	})
}

// objectRules allows what is done to objects, one rule for each group. The
// resources come sorted and may repeat, once for each version of a kind.
func objectRules(reason string, resources map[string][]string) []rule {
	var rules []rule
	for _, group := range slices.Sorted(maps.Keys(resources)) {
		names := slices.Clone(resources[group])
		slices.Sort(names)
		rules = append(rules, rule{reason, rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: slices.Compact(names), Verbs: objectVerbs}})
		reason = "" // said once
	}
	return rules
}

// grantedRules repeats what the chart's own roles grant and the operator does
// not hold anyway, because nobody may grant more than he holds.
func grantedRules(granted []rbacv1.PolicyRule, own []rule, chartName string) []rule {
	seen := map[string]bool{}
	var rules []rule
	for _, g := range granted {
		key := g.String()
		if seen[key] || holds(own, g) {
			continue
		}
		seen[key] = true
		rules = append(rules, rule{PolicyRule: g})
	}
	slices.SortFunc(rules, func(a, b rule) int { return strings.Compare(a.PolicyRule.String(), b.PolicyRule.String()) })
	if len(rules) > 0 {
		rules[0].reason = fmt.Sprintf("What roles of the chart %s grant; nobody may grant more than he holds.", chartName)
	}
	return rules
}
