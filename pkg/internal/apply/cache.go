package apply

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// CacheOptions configure a Cache.
type CacheOptions struct {
	// Namespaces to watch; none means all. Cluster-scoped kinds are watched in
	// any case.
	Namespaces []string
	// Owners are the kinds of owners whose objects are watched; none means
	// every object that carries OwnerLabel.
	Owners []schema.GroupKind
	// Mapper is the process's REST mapper.
	Mapper meta.RESTMapper
	// HTTPClient for the API server; nil makes one.
	HTTPClient *http.Client
	// Enqueue is told of an owner when one of its objects changed in a way that
	// may matter: it appeared, disappeared, changed our fields, uid, health or
	// replicas. It must not block.
	Enqueue func(kind schema.GroupKind, owner types.NamespacedName)
	// Log gets failing watches. The zero Logger is silent.
	Log logr.Logger
}

// Cache knows the applied objects of all releases, from watches: metadata only,
// or for kinds that have health their status too, and of both only what
// Observed holds. A kind is watched while a release has it.
//
// It is a manager.Runnable and safe for concurrent use.
type Cache struct {
	opts     CacheOptions
	selector string
	whole    dynamic.Interface
	metadata metadata.Interface
	kinds    *kinds
	clock    clock.PassiveClock

	mu        sync.RWMutex
	informers map[schema.GroupKind]*informer
	uses      map[ownerRef][]schema.GroupKind
	// ctx is that of Start; nil before. stopped is set when it ended.
	ctx     context.Context
	stopped bool
	running sync.WaitGroup
}

// NewCache returns a cache that watches nothing yet.
func NewCache(cfg *rest.Config, opts CacheOptions) (*Cache, error) {
	cfg = unlimited(cfg)
	if opts.HTTPClient == nil {
		var err error
		if opts.HTTPClient, err = rest.HTTPClientFor(cfg); err != nil {
			return nil, fmt.Errorf("making an HTTP client for the API server: %w", err)
		}
	}
	selector, err := ownerSelector(opts.Owners)
	if err != nil {
		return nil, err
	}
	whole, err := dynamic.NewForConfigAndClient(cfg, opts.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("making a client to watch objects: %w", err)
	}
	partial, err := metadata.NewForConfigAndClient(cfg, opts.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("making a client to watch metadata: %w", err)
	}
	known, err := newDiscoverer(cfg, opts.HTTPClient)
	if err != nil {
		return nil, err
	}
	return &Cache{
		opts: opts, selector: selector, whole: whole, metadata: partial,
		kinds: newKinds(opts.Mapper, known.versions, clock.RealClock{}), clock: clock.RealClock{},
		informers: map[schema.GroupKind]*informer{}, uses: map[ownerRef][]schema.GroupKind{},
	}, nil
}

func ownerSelector(owners []schema.GroupKind) (string, error) {
	operator, values := selection.Exists, []string(nil)
	if len(owners) > 0 {
		operator = selection.In
		for _, owner := range owners {
			values = append(values, LabelValue(owner))
		}
	}
	required, err := labels.NewRequirement(OwnerLabel, operator, values)
	if err != nil {
		return "", fmt.Errorf("selecting the objects of %v: %w", owners, err)
	}
	return labels.NewSelector().Add(*required).String(), nil
}

// NeedLeaderElection says that the cache runs beside the election, so that it
// is there when the controllers start.
func (c *Cache) NeedLeaderElection() bool { return false }

// Start watches until the context ends.
func (c *Cache) Start(ctx context.Context) error {
	c.mu.Lock()
	c.ctx = ctx
	for _, i := range c.informers {
		c.run(i)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// run starts the reflectors of an informer once the cache is started. The lock
// is held.
func (c *Cache) run(i *informer) {
	if c.ctx == nil || c.stopped {
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	i.cancel = cancel
	for namespace, s := range i.stores {
		c.running.Go(func() { c.reflect(ctx, i, namespace, s) })
	}
}

func (c *Cache) enqueue(owner ownerRef) {
	if c.opts.Enqueue != nil {
		c.opts.Enqueue(owner.GroupKind, owner.NamespacedName)
	}
}

// refresh enqueues every owner that uses a kind: what is known of it begins to
// be true, or ceases to be.
func (c *Cache) refresh(i *informer) {
	c.mu.RLock()
	owners := make([]ownerRef, 0, len(i.users))
	for owner := range i.users {
		owners = append(owners, owner)
	}
	c.mu.RUnlock()
	for _, owner := range owners {
		c.enqueue(owner)
	}
}

// Get returns what is known of an object and whether it exists; when neither
// is known, Observed.Unknown is set.
func (c *Cache) Get(entry releasev1alpha1.InventoryEntry) (Observed, bool) {
	i := c.informer(EntryKey(entry).GroupKind)
	if i == nil {
		return Observed{Unknown: true}, false
	}
	s := i.store(entry.Namespace)
	if s == nil {
		return Observed{Unknown: true, Unwatched: true}, false
	}
	return s.get(types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name})
}

func (c *Cache) informer(gk schema.GroupKind) *informer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.informers[gk]
}

func (c *Cache) store(entry releasev1alpha1.InventoryEntry) *store {
	i := c.informer(EntryKey(entry).GroupKind)
	if i == nil {
		return nil
	}
	return i.store(entry.Namespace)
}

// applied takes over what the client applied. Its health is open until the
// watch tells.
func (c *Cache) applied(entry releasev1alpha1.InventoryEntry, m *metav1.PartialObjectMetadata) {
	s := c.store(entry)
	if s == nil {
		return
	}
	it := newItem(m, observe(m))
	it.Status = status.CurrentStatus
	if hasHealth(EntryKey(entry).GroupKind) {
		it.Status, it.Message = status.InProgressStatus, "applied, not yet observed"
	}
	s.wrote(it)
}

// deleted takes over that the client deleted an object.
func (c *Cache) deleted(entry releasev1alpha1.InventoryEntry, uid types.UID, gone bool) {
	if s := c.store(entry); s != nil {
		s.deleting(types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name}, uid, gone)
	}
}
