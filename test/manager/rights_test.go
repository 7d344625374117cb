package manager

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// unused are the rights of deploy/role.yaml that the life in TestRights has no need of, each with who does need it.
var unused = map[string]string{
	"update libertyapps.liberty.ibm.com/finalizers": "where the admission plugin OwnerReferencesPermissionEnforcement is on, as on OpenShift, " +
		"the API server asks for it: the owner references of a release's objects block the deletion of the resource",
	"patch secrets": "kinds whose charts have Secrets apply them; with LibertyApp's alone, this allows no more than update does, which payloads need",
}

// TestRights lives the life of apps that have every kind of object of the chart, and compares what the operator asked the API
// server for with what deploy/role.yaml gives it.
func TestRights(t *testing.T) {
	own := clustertest.Namespace(t)
	deploy(t, own, own)
	// Where the API server cannot stream the present objects as the beginning of a watch, client-go lists them. This one can.
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	op := start(t, own, startOptions{watch: own})
	op.awaitReady(t)
	live(t, own, op)
	op.terminate(t)

	used := map[string]bool{}
	for _, r := range op.requests(t, cluster.Mark{}) {
		resource := r.Resource
		if r.Group != "" {
			resource += "." + r.Group
		}
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		used[r.Verb+" "+resource] = true
		if r.Verb == "patch" && r.Code == http.StatusCreated {
			used["create "+resource] = true // an apply that creates needs both rights
		}
	}
	role := rules(t, "role.yaml")
	if len(role) < 50 {
		t.Fatalf("deploy/role.yaml gives %d rights; is that the operator's role?", len(role))
	}
	for _, right := range slices.Sorted(maps.Keys(role)) {
		if !used[right] && unused[right] == "" {
			t.Errorf("deploy/role.yaml gives the operator %q, which it never used", right)
		}
	}
	for right := range unused {
		if !role[right] {
			t.Errorf("%q is explained, but deploy/role.yaml does not give it", right)
		}
		if used[right] {
			t.Errorf("%q is explained as unused, but the operator used it", right)
		}
	}
	allowed(t, op)
}

// live installs, heals, upgrades and removes two apps, which together have every kind of object that the chart can make.
func live(t *testing.T, namespace string, op *operator) {
	t.Helper()
	repository := namespace + "/plants"
	must[string](t)(images(t).PushImage(t.Context(), repository, "1", 1))
	private := map[string]any{"repository": images(t).Host() + "/" + repository, "tag": "1", "license": "accept", "pullSecret": "registry-credentials"}
	insecure := map[string]any{"images": map[string]any{"insecure": true}, "release": map[string]any{"maxHistory": int64(1)}}
	web := liberty(t, namespace, "web", map[string]any{
		"image": private, "operator": insecure,
		"ingress":     map[string]any{"enabled": true, "host": "web.example.com"},
		"autoscaling": map[string]any{"enabled": true, "minReplicas": int64(1), "maxReplicas": int64(2)},
		"rbac":        map[string]any{"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"services"}, "verbs": []any{"get"}}}},
		"ssl":         map[string]any{"useClusterSSLConfiguration": true, "createClusterSSLConfiguration": true},
		"monitoring":  map[string]any{"enabled": true},
	})
	store := liberty(t, namespace, "store", map[string]any{
		"image": private, "operator": insecure, "logs": map[string]any{"persistLogs": true}, "persistence": map[string]any{"size": "1Gi"},
	})
	pullSecret(t, namespace, "registry-credentials") // they wait for it
	apps := []app{web, store}
	for _, app := range apps {
		app.awaitReady(t)
	}
	for _, app := range apps {
		for _, entry := range app.inventory(t) {
			heal(t, app, entry)
		}
		for range 2 { // the second time makes a series of the event
			restore(t, app)
		}
		app.awaitReady(t)
	}
	for _, app := range apps {
		for _, level := range []string{"audit", "warning"} {
			app.patch(t, map[string]any{"logs": map[string]any{"consoleLogLevel": level}})
			app.awaitReady(t)
		}
		op.settle(t)
	}
	remove(t, apps)
}

// entry is an object of a release.
type entry struct {
	Group, Version, Kind, Name string
}

func (a app) inventory(t *testing.T) []entry {
	t.Helper()
	obj := must[*unstructured.Unstructured](t)(a.get(t.Context(), t))
	var status struct{ Inventory []entry }
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object["status"].(map[string]any), &status); err != nil {
		t.Fatal(err)
	}
	return status.Inventory
}

// heal deletes an object and waits until there is another in its place.
func heal(t *testing.T, a app, e entry) {
	t.Helper()
	mapping := must[*meta.RESTMapping](t)(restMapper(t).RESTMapping(schema.GroupKind{Group: e.Group, Kind: e.Kind}, e.Version))
	client := dynamicClient(t).Resource(mapping.Resource).Namespace(a.namespace)
	before := must[*unstructured.Unstructured](t)(client.Get(t.Context(), e.Name, metav1.GetOptions{}))
	background := metav1.DeletePropagationBackground
	if err := client.Delete(t.Context(), e.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	eventually(t, e.Kind+" "+e.Name+" is healed", func(ctx context.Context) error {
		after, err := client.Get(ctx, e.Name, metav1.GetOptions{})
		if err == nil && after.GetUID() == before.GetUID() {
			err = errors.New("it is not gone yet")
		}
		return err
	})
}

// restore breaks the app's ConfigMap and waits until it is as it was.
func restore(t *testing.T, a app) {
	t.Helper()
	const key = "server.xml"
	maps := clustertest.Client(t).CoreV1().ConfigMaps(a.namespace)
	before := must[*corev1.ConfigMap](t)(maps.Get(t.Context(), a.service(), metav1.GetOptions{})) // of the same name
	if _, err := maps.Patch(t.Context(), before.Name, types.MergePatchType, []byte(`{"data":{"`+key+`":"broken"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ConfigMap "+before.Name+" is restored", func(ctx context.Context) error {
		after, err := maps.Get(ctx, before.Name, metav1.GetOptions{})
		if err == nil && after.Data[key] != before.Data[key] {
			err = errors.New("it is broken")
		}
		return err
	})
}

// rules are the rights that a role in deploy/ gives: "verb resource[.group][/subresource]".
func rules(t *testing.T, file string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, rule := range roles(t, file) {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name, subresource, sub := strings.Cut(resource, "/")
				if group != "" {
					name += "." + group
				}
				if sub {
					name += "/" + subresource
				}
				for _, verb := range rule.Verbs {
					all[verb+" "+name] = true
				}
			}
		}
	}
	return all
}

// roles are the rules of the Roles and ClusterRoles in a file of deploy/.
func roles(t *testing.T, file string) []rbacv1.PolicyRule {
	t.Helper()
	var all []rbacv1.PolicyRule
	for _, obj := range objects(t, file, "") {
		if !strings.HasSuffix(obj.GetKind(), "Role") {
			continue
		}
		var role rbacv1.ClusterRole // of whose fields a Role's are a part
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role); err != nil {
			t.Fatal(err)
		}
		all = append(all, role.Rules...)
	}
	return all
}

// TestNoWildcards: a right that is not spelled out cannot be reviewed.
func TestNoWildcards(t *testing.T) {
	count := 0
	err := filepath.WalkDir(filepath.Join(root, "deploy"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		name := must[string](t)(filepath.Rel(filepath.Join(root, "deploy"), path))
		for _, rule := range roles(t, name) {
			count++
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
				for _, one := range list {
					if strings.Contains(one, "*") {
						t.Errorf("deploy/%s: %v", name, rule)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 10 {
		t.Errorf("there are %d rules in deploy/; where are the roles?", count)
	}
}
