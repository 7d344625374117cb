package reconciler

import (
	"context"
	"fmt"
	"strings"
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
// are rendered with. It is taken when the operator begins to follow the CRDs,
// and again when one comes or goes. An operator that may not watch CRDs takes it
// when it is elected: whoever waits for that must not render with the answers of
// days ago.
type capabilities struct {
	discovery discovery.DiscoveryInterface
	metadata  metadata.Interface
	access    authorizationclient.SelfSubjectAccessReviewsGetter
	elected   <-chan struct{}
	changed   func()

	current atomic.Pointer[chart.Capabilities]
	// first is closed when current is there and being followed.
	first chan struct{}
}

func newCapabilities(d discovery.DiscoveryInterface, m metadata.Interface,
	access authorizationclient.SelfSubjectAccessReviewsGetter, elected <-chan struct{}, changed func(),
) *capabilities {
	return &capabilities{discovery: d, metadata: m, access: access, elected: elected, changed: changed, first: make(chan struct{})}
}

// NeedLeaderElection says that the snapshot is kept current beside the election.
func (c *capabilities) NeedLeaderElection() bool { return false }

// Wait waits for the first snapshot.
func (c *capabilities) Wait(ctx context.Context) error {
	select {
	case <-c.first:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting to know which kinds the API server has: %w", ctx.Err())
	}
}

// Current is the snapshot, nil before the first; it does not change.
func (c *capabilities) Current() *chart.Capabilities { return c.current.Load() }

// refresh takes the snapshot again and tells of it if it is another one.
func (c *capabilities) refresh() error {
	before := c.current.Load()
	now, err := chart.DiscoverCapabilities(c.discovery, before)
	if err != nil {
		return fmt.Errorf("asking the API server which kinds it has: %w", err)
	}
	c.current.Store(now)
	if before == nil {
		close(c.first)
	}
	if !now.Equal(before) {
		c.changed()
	}
	return nil
}

const (
	// settle is how long the CRDs must be quiet before the kinds are asked for
	// again: they come in crowds, and a kind is served a moment after its CRD.
	settle = time.Second
	// refreshRetry is the wait after the API server did not answer.
	refreshRetry = 10 * time.Second
	// brokenRetry is how often to ask again while the server of an API does not
	// answer; no watch tells when it is back.
	brokenRetry = time.Minute
)

// Start follows the CRDs until ctx ends.
func (c *capabilities) Start(ctx context.Context) error {
	may, err := c.mayWatch(ctx)
	for ; err != nil && ctx.Err() == nil; may, err = c.mayWatch(ctx) {
		log.FromContext(ctx).Error(err, "Cannot tell whether the operator may watch CustomResourceDefinitions; asking again")
		select {
		case <-ctx.Done():
		case <-time.After(refreshRetry):
		}
	}
	events := make(chan struct{}, 1)
	if may {
		err = c.watch(ctx, events)
	} else {
		log.FromContext(ctx).Info("The operator may not watch CustomResourceDefinitions; charts see the API versions of its start")
		select {
		case <-ctx.Done():
		case <-c.elected:
		}
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	c.follow(ctx, events)
	return nil
}

// watch begins to send an event for each CRD that comes, changes or goes, and
// returns when the first list is there.
func (c *capabilities) watch(ctx context.Context, events chan<- struct{}) error {
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
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	return nil
}

// follow takes the snapshot at once, and again when the events have settled.
func (c *capabilities) follow(ctx context.Context, events <-chan struct{}) {
	timer := time.NewTimer(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			timer.Reset(settle)
		case <-timer.C:
			if err := c.refresh(); err != nil {
				log.FromContext(ctx).Error(err, "Keeping the API versions known before")
				timer.Reset(refreshRetry)
			} else if failed := c.Current().Failed(); len(failed) > 0 {
				log.FromContext(ctx).Info("APIs do not answer; charts see of them what was known before", "apis", strings.Join(failed, ", "))
				timer.Reset(brokenRetry)
			}
		}
	}
}

func (c *capabilities) mayWatch(ctx context.Context) (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		review, err := c.access.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: customResourceDefinitions.Group, Resource: customResourceDefinitions.Resource, Verb: verb,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("asking whether the operator may %s CustomResourceDefinitions: %w", verb, err)
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
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
