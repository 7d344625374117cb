package storage_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	helmrelease "helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	helmreleasev1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// helm is the helm command on the test's control plane.
func helm(t *testing.T, namespace string) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	kubeconfig := clustertest.Kubeconfig(t)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	config := action.NewConfiguration()
	if err := config.Init(flags, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return config
}

func settings(color string) *unstructured.Unstructured {
	o := object("ConfigMap", "settings", map[string]any{"color": color})
	o.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "plants"})
	return o
}

// release writes two revisions as the operator does, and applies the second.
func release(t *testing.T, namespace string, driver storage.Driver) {
	t.Helper()
	first, second := payload(t, namespace, 1), payload(t, namespace, 2)
	first.Hooks, second.Hooks = nil, nil
	first.Manifest, first.Status = manifest(t, settings("green")), releasev1alpha1.StateSuperseded
	second.Manifest, second.LastDeployed = manifest(t, settings("blue")), deployed.Add(2*time.Hour)
	for _, p := range []*storage.Payload{first, second} {
		if err := driver.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	o := settings("blue")
	o.SetNamespace(namespace)
	o.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "plants", "meta.helm.sh/release-namespace": namespace})
	client, err := dynamic.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	configMaps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	if _, err := configMaps.Apply(t.Context(), "settings", o, metav1.ApplyOptions{FieldManager: "go-helm-operator", Force: true}); err != nil {
		t.Fatal(err)
	}
}

func v1Release(t *testing.T, r helmrelease.Releaser, err error) *helmreleasev1.Release {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	out, ok := r.(*helmreleasev1.Release)
	if !ok {
		t.Fatalf("a release of type %T", r)
	}
	return out
}

func TestHelmReadsOurReleases(t *testing.T) {
	namespace := clustertest.Namespace(t)
	release(t, namespace, secretDriver(t, nil))
	config := helm(t, namespace)

	t.Run("list", func(t *testing.T) {
		found, err := action.NewList(config).Run()
		if err != nil || len(found) != 1 {
			t.Fatalf("found %v, %v", found, err)
		}
		r := v1Release(t, found[0], nil)
		if r.Name != "plants" || r.Version != 2 || r.Info.Status != common.StatusDeployed || r.Chart.Metadata.Version != "1.2.3" {
			t.Errorf("release %s revision %d %s of %s", r.Name, r.Version, r.Info.Status, r.Chart.Metadata.Version)
		}
	})
	t.Run("status", func(t *testing.T) {
		found, err := action.NewStatus(config).Run("plants")
		r := v1Release(t, found, err)
		if r.Version != 2 || r.Info.Notes != "Water the plants.\n" || !r.Info.LastDeployed.Equal(deployed.Add(2*time.Hour)) {
			t.Errorf("revision %d, notes %q, deployed %s", r.Version, r.Info.Notes, r.Info.LastDeployed)
		}
	})
	t.Run("history", func(t *testing.T) {
		found, err := action.NewHistory(config).Run("plants")
		if err != nil {
			t.Fatal(err)
		}
		got := map[int]common.Status{}
		for _, f := range found {
			r := v1Release(t, f, nil)
			got[r.Version] = r.Info.Status
		}
		if diff := cmp.Diff(map[int]common.Status{1: common.StatusSuperseded, 2: common.StatusDeployed}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("get manifest", func(t *testing.T) {
		found, err := action.NewGet(config).Run("plants")
		if r := v1Release(t, found, err); r.Manifest != manifest(t, settings("blue")) {
			t.Errorf("manifest %s", r.Manifest)
		}
	})
	t.Run("get values", func(t *testing.T) {
		for _, all := range []bool{false, true} {
			get := action.NewGetValues(config)
			get.AllValues = all
			values, err := get.Run("plants")
			if on, _ := values["on"].(bool); err != nil || values["ratio"] != 0.5 || !on {
				t.Errorf("all %t: values %v, %v", all, values, err)
			}
		}
	})
	t.Run("get metadata", func(t *testing.T) {
		metadata, err := action.NewGetMetadata(config).Run("plants")
		if err != nil || metadata.Chart != "web" || metadata.AppVersion != "9.8" || metadata.ApplyMethod != "ssa" {
			t.Errorf("metadata %+v, %v", metadata, err)
		}
	})
}

func color(t *testing.T, namespace string) string {
	t.Helper()
	found, err := clustertest.Client(t).CoreV1().ConfigMaps(namespace).Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found.Data["color"]
}

func TestHelmRollsBackOurReleases(t *testing.T) {
	namespace := clustertest.Namespace(t)
	driver := secretDriver(t, nil)
	release(t, namespace, driver)
	config := helm(t, namespace)

	rollback := action.NewRollback(config)
	rollback.Version, rollback.ForceConflicts = 1, true
	rollback.WaitStrategy, rollback.Timeout = kube.HookOnlyStrategy, time.Minute
	if err := rollback.Run("plants"); err != nil {
		t.Fatal(err)
	}
	if got := color(t, namespace); got != "green" {
		t.Errorf("after the rollback the color is %s", got)
	}

	// Helm wrote over revision 2 and added revision 3: the first stays its owner's, the second is nobody's.
	second, err := driver.Get(t.Context(), namespace, "plants", 2)
	if err != nil {
		t.Fatal(err)
	}
	if second.Status != releasev1alpha1.StateSuperseded || second.Owner.UID != payload(t, namespace, 2).Owner.UID {
		t.Errorf("revision 2 is %s, of %s", second.Status, second.Owner)
	}
	third, err := driver.Get(t.Context(), namespace, "plants", 3)
	if err != nil {
		t.Fatal(err)
	}
	if third.Status != releasev1alpha1.StateDeployed || third.Owner.UID != "" || third.Owner.String() != "Helm" {
		t.Errorf("revision 3 is %s, of %s", third.Status, third.Owner)
	}
	objects, err := storage.DecodeManifest(third.Manifest)
	if err != nil || len(objects) != 1 {
		t.Errorf("the manifest of revision 3 has %v, %v", objects, err)
	}
	if revisions, err := driver.Revisions(t.Context(), namespace, "plants"); err != nil || !cmp.Equal(revisions, []int64{1, 2, 3}) {
		t.Errorf("revisions %v, %v", revisions, err)
	}
}

func TestHelmUninstallsOurReleases(t *testing.T) {
	namespace := clustertest.Namespace(t)
	driver := secretDriver(t, nil)
	release(t, namespace, driver)

	uninstall := action.NewUninstall(helm(t, namespace))
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, time.Minute
	if _, err := uninstall.Run("plants"); err != nil {
		t.Fatal(err)
	}
	_, err := clustertest.Client(t).CoreV1().ConfigMaps(namespace).Get(t.Context(), "settings", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap: %v", err)
	}
	if revisions, err := driver.Revisions(t.Context(), namespace, "plants"); err != nil || len(revisions) != 0 {
		t.Errorf("revisions %v, %v", revisions, err)
	}
}
