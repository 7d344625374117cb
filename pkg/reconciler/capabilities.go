package reconciler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
)

var customResourceDefinitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// capabilities holds the one snapshot of the API server's kinds that templates
// are rendered with. It is taken again when a CRD comes or goes, if the operator
// may watch CRDs.
type capabilities struct {
	discovery discovery.DiscoveryInterface
	metadata  metadata.Interface
	access    authorizationclient.SelfSubjectAccessReviewsGetter
	changed   func()
	current   atomic.Pointer[chart.Capabilities]
}

func newCapabilities(d discovery.DiscoveryInterface, m metadata.Interface,
	access authorizationclient.SelfSubjectAccessReviewsGetter, changed func(),
) (*capabilities, error) {
	c := &capabilities{discovery: d, metadata: m, access: access, changed: changed}
	return c, c.refresh()
}

// Current is the snapshot; it does not change.
func (c *capabilities) Current() *chart.Capabilities { return c.current.Load() }

func (c *capabilities) refresh() error {
	now, err := chart.DiscoverCapabilities(c.discovery)
	if err != nil {
		return fmt.Errorf("asking the API server which kinds it has: %w", err)
	}
	c.current.Store(now)
	return nil
}

// settle is how long the CRDs must be quiet before the kinds are asked for
// again: they come in crowds, and a kind is served a moment after its CRD.
const settle = time.Second

// Start watches the CRDs until ctx ends.
func (c *capabilities) Start(ctx context.Context) error {
	if !c.mayWatch(ctx) {
		log.FromContext(ctx).Info("The operator may not watch CustomResourceDefinitions; charts see the API versions of its start")
		<-ctx.Done()
		return nil
	}
	events := make(chan struct{}, 1)
	tell := func() {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	informer := metadatainformer.NewFilteredMetadataInformer(c.metadata, customResourceDefinitions, "", 0, cache.Indexers{}, nil).Informer()
	if err := informer.SetTransform(namesOnly); err != nil {
		return fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				tell()
			}
		},
		UpdateFunc: func(before, after any) {
			if before.(metav1.Object).GetGeneration() != after.(metav1.Object).GetGeneration() {
				tell()
			}
		},
		DeleteFunc: func(any) { tell() },
	})
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	go informer.RunWithContext(ctx)
	c.follow(ctx, events)
	return nil
}

// follow refreshes the snapshot once the events have settled.
func (c *capabilities) follow(ctx context.Context, events <-chan struct{}) {
	timer := time.NewTimer(0)
	<-timer.C
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			timer.Reset(settle)
		case <-timer.C:
			if err := c.refresh(); err != nil {
				log.FromContext(ctx).Error(err, "Keeping the API versions known before")
				timer.Reset(10 * settle)
				continue
			}
			c.changed()
		}
	}
}

func (c *capabilities) mayWatch(ctx context.Context) bool {
	for _, verb := range []string{"list", "watch"} {
		review, err := c.access.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: customResourceDefinitions.Group, Resource: customResourceDefinitions.Resource, Verb: verb,
			}},
		}, metav1.CreateOptions{})
		if err != nil || !review.Status.Allowed {
			return false
		}
	}
	return true
}

// namesOnly keeps of a CRD only what tells whether it changed.
func namesOnly(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		}}, nil
	}
	return obj, nil
}
