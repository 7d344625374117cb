package api_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/jkwong888/go-helm-operator/pkg/apis/liberty/v1alpha1"
	apply "github.com/jkwong888/go-helm-operator/pkg/apis/liberty/v1alpha1/clientset/applyconfiguration/liberty/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/apis/liberty/v1alpha1/clientset/informers/externalversions"
	"github.com/jkwong888/go-helm-operator/pkg/apis/liberty/v1alpha1/clientset/versioned"
	"github.com/jkwong888/go-helm-operator/pkg/apis/liberty/v1alpha1/clientset/versioned/fake"
	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// clientsets are the real one and its fake, which must behave alike.
func clientsets(t *testing.T) map[string]versioned.Interface {
	t.Helper()
	installed(t)
	served, err := versioned.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]versioned.Interface{"real": served, "fake": fake.NewClientset()}
}

func TestTypedClientsKeepZeroValues(t *testing.T) {
	for name, client := range clientsets(t) {
		t.Run(name, func(t *testing.T) {
			apps := client.LibertyV1alpha1().LibertyApps(clustertest.Namespace(t))
			off, none := false, int32(0)
			app := &v1alpha1.LibertyApp{ObjectMeta: metav1.ObjectMeta{Name: "plants"}, Spec: v1alpha1.LibertyAppSpec{
				ReplicaCount: &none,
				Service:      &v1alpha1.LibertyAppServiceSpec{Enabled: &off},
				Arch:         map[string]v1alpha1.LibertyAppArchItem{},
			}}
			if _, err := apps.Create(t.Context(), app, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			got, err := apps.Get(t.Context(), "plants", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Spec.ReplicaCount == nil || got.Spec.Service == nil || got.Spec.Service.Enabled == nil || got.Spec.Arch == nil || got.Spec.SSL != nil {
				t.Errorf("spec came back as %+v", got.Spec)
			}
		})
	}
}

func TestApplyConfigurationsOwnOnlyWhatTheySet(t *testing.T) {
	for name, client := range clientsets(t) {
		t.Run(name, func(t *testing.T) {
			namespace := clustertest.Namespace(t)
			apps := client.LibertyV1alpha1().LibertyApps(namespace)
			options := func(manager string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: manager} }
			image := apply.LibertyApp("plants", namespace).WithSpec(apply.LibertyAppSpec().
				WithImage(apply.LibertyAppImageSpec().WithTag("1")))
			if _, err := apps.Apply(t.Context(), image, options("images")); err != nil {
				t.Fatal(err)
			}
			scale := apply.LibertyApp("plants", namespace).WithSpec(apply.LibertyAppSpec().WithReplicaCount(3))
			app, err := apps.Apply(t.Context(), scale, options("scale"))
			if err != nil {
				t.Fatal(err)
			}
			if app.Spec.Image == nil || *app.Spec.Image.Tag != "1" || *app.Spec.ReplicaCount != 3 {
				t.Errorf("spec became %+v", app.Spec)
			}
			other := apply.LibertyApp("plants", namespace).WithSpec(apply.LibertyAppSpec().WithReplicaCount(4))
			if _, err := apps.Apply(t.Context(), other, options("images")); !apierrors.IsConflict(err) {
				t.Errorf("another manager's field was taken: %v", err)
			}
		})
	}
}

func TestStatusIsASubresource(t *testing.T) {
	apps := clientsets(t)["real"].LibertyV1alpha1().LibertyApps(clustertest.Namespace(t))
	app, err := apps.Create(t.Context(), &v1alpha1.LibertyApp{
		ObjectMeta: metav1.ObjectMeta{Name: "plants"},
		Status:     releasev1alpha1.Status{ReadyReplicas: 9},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if app.Status.ReadyReplicas != 0 {
		t.Error("creating a resource wrote its status")
	}
	app.Status.ReadyReplicas = 2
	generation := app.Generation
	if app, err = apps.UpdateStatus(t.Context(), app, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if app.Status.ReadyReplicas != 2 || app.Generation != generation {
		t.Errorf("status %+v, generation %d after %d", app.Status, app.Generation, generation)
	}
}

func TestInformersAndListersSeeWhatIsThere(t *testing.T) {
	for name, client := range clientsets(t) {
		t.Run(name, func(t *testing.T) {
			namespace := clustertest.Namespace(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
			apps := factory.Liberty().V1alpha1().LibertyApps()
			added := make(chan string, 1)
			if _, err := apps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) { added <- obj.(*v1alpha1.LibertyApp).Name },
			}); err != nil {
				t.Fatal(err)
			}
			factory.Start(ctx.Done())
			factory.WaitForCacheSync(ctx.Done())
			if _, err := client.LibertyV1alpha1().LibertyApps(namespace).Create(ctx,
				&v1alpha1.LibertyApp{ObjectMeta: metav1.ObjectMeta{Name: "plants"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-added:
			case <-ctx.Done():
				t.Fatal("no event came")
			}
			listed, err := apps.Lister().LibertyApps(namespace).List(labels.Everything())
			if err != nil || len(listed) != 1 || listed[0].Name != "plants" {
				t.Errorf("listed %v, error %v", listed, err)
			}
		})
	}
}
