package reconciler

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// EngineOptions configure an Engine.
type EngineOptions struct {
	// Namespaces to watch for the objects of releases; none means all. They
	// should be those of the manager's cache.
	Namespaces []string
	// Kinds that the operator runs. Only objects of their releases are watched,
	// so that several operators on a cluster do not each hold the objects of all;
	// none means the objects of every such operator.
	Kinds []schema.GroupKind
	// ReleaseStorage says where the payloads of releases are kept: StorageSecret,
	// the default, or StorageStatus.
	ReleaseStorage string
	// SecretsInStatus lets StorageStatus keep releases that render Secrets.
	SecretsInStatus bool
}

// Where payloads are kept.
const (
	// StorageSecret keeps each revision in a Secret, in Helm's own format.
	StorageSecret = "secret"
	// StorageStatus keeps the current one in the status of the resource.
	StorageStatus = "status"
)

// Engine is what all kinds of one manager share: clients, the watches on the
// releases' objects, the release manager.
type Engine struct {
	objects      *apply.Client
	dependents   *apply.Cache
	releases     *release.Manager
	references   *refs.Watcher[Key]
	capabilities *capabilities
	dynamic      dynamic.Interface

	mu     sync.RWMutex
	queues map[schema.GroupKind]func(types.NamespacedName)
	// everything asks for a pass over all resources, one function a kind.
	everything []func()
}

// NewEngine adds an engine to a manager.
func NewEngine(mgr manager.Manager, opts EngineOptions) (*Engine, error) {
	cfg := rest.CopyConfig(mgr.GetConfig())
	cfg.QPS = -1 // the API server's own fairness rules are the limit
	clients, err := kubernetes.NewForConfigAndClient(cfg, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for the payloads: %w", err)
	}
	meta, err := metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for metadata: %w", err)
	}
	e := &Engine{queues: map[schema.GroupKind]func(types.NamespacedName){}}
	if e.dynamic, err = dynamic.NewForConfigAndClient(cfg, mgr.GetHTTPClient()); err != nil {
		return nil, fmt.Errorf("making a client for lookups: %w", err)
	}
	e.references = refs.NewWatcher(meta, mgr.GetRESTMapper(), e.Enqueue)
	e.capabilities = newCapabilities(clients.Discovery(), meta, clients.AuthorizationV1(), mgr.Elected(), e.kindsChanged)
	if err := e.newObjects(mgr, cfg, opts); err != nil {
		return nil, err
	}
	if err := e.newReleases(clients, meta, opts); err != nil {
		return nil, err
	}
	for _, r := range []manager.Runnable{e.dependents, e.references, e.capabilities} {
		if err := mgr.Add(r); err != nil {
			return nil, fmt.Errorf("adding the engine to the manager: %w", err)
		}
	}
	return e, nil
}

// newObjects makes what writes the objects of releases and what watches them.
func (e *Engine) newObjects(mgr manager.Manager, cfg *rest.Config, opts EngineOptions) (err error) {
	if e.objects, err = apply.NewClient(cfg, mgr.GetHTTPClient(), mgr.GetRESTMapper()); err != nil {
		return err
	}
	e.dependents, err = apply.NewCache(cfg, apply.CacheOptions{
		Namespaces: opts.Namespaces, Owners: opts.Kinds, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		Enqueue: e.enqueue, Log: mgr.GetLogger().WithName("dependents"),
	})
	if err != nil {
		return err
	}
	e.objects.WriteThrough(e.dependents)
	return nil
}

func (e *Engine) newReleases(clients kubernetes.Interface, names metadata.Interface, opts EngineOptions) error {
	switch opts.ReleaseStorage {
	case "", StorageSecret:
		e.releases = release.NewManager(e.objects, e.dependents, clients.CoreV1())
		e.releases.Stored = release.StoredSecrets(names, opts.Namespaces)
	case StorageStatus:
		e.releases = release.NewStatusManager(e.objects, e.dependents, opts.SecretsInStatus)
	default:
		return fmt.Errorf("release storage %q is neither %s nor %s", opts.ReleaseStorage, StorageSecret, StorageStatus)
	}
	return nil
}

// Enqueue asks for another pass over a resource. It does not block; unknown
// kinds are ignored.
func (e *Engine) Enqueue(key Key) {
	e.enqueue(schema.ParseGroupKind(key.Kind), key.NamespacedName)
}

func (e *Engine) enqueue(kind schema.GroupKind, name types.NamespacedName) {
	e.mu.RLock()
	add := e.queues[kind]
	e.mu.RUnlock()
	if add != nil {
		add(name)
	}
}

// kindsChanged looks at everything again that may depend on the kinds there are.
func (e *Engine) kindsChanged() {
	e.references.Retry()
	e.enqueueAll()
}

func (e *Engine) enqueueAll() {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, all := range e.everything {
		all()
	}
}
