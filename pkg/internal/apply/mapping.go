package apply

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// missingFor is how long a kind that the cluster did not have is not asked for
// again: asking costs a discovery request. It is short enough for a caller who
// waits for a CRD that was just applied.
const missingFor = 500 * time.Millisecond

// kinds maps kinds to resources with the process-wide mapper and remembers for
// a moment which it did not find.
type kinds struct {
	mapper meta.RESTMapper
	clock  clock.PassiveClock

	mu      sync.Mutex
	missing map[schema.GroupVersionKind]absence
}

type absence struct {
	until time.Time
	err   *NoKindError
}

func newKinds(mapper meta.RESTMapper, clock clock.PassiveClock) *kinds {
	return &kinds{mapper: mapper, clock: clock, missing: map[schema.GroupVersionKind]absence{}}
}

// mapping returns a *NoKindError when the cluster does not have the kind in
// that version, after asking it once more.
func (k *kinds) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	k.mu.Lock()
	known, ok := k.missing[gvk]
	k.mu.Unlock()
	if ok && k.clock.Now().Before(known.until) {
		return nil, known.err
	}
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if reset, can := k.mapper.(meta.ResettableRESTMapper); can && noMatch(err) {
		reset.Reset()
		mapping, err = k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err == nil {
		return mapping, nil
	}
	if !noMatch(err) {
		return nil, fmt.Errorf("asking the API server for kind %s in %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	missing := &NoKindError{GVK: gvk, Served: k.served(gvk.GroupKind())}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.missing[gvk] = absence{until: k.clock.Now().Add(missingFor), err: missing}
	return nil, missing
}

// existing is mapping for an object that is in the cluster already: the version
// it was applied in may have gone while the kind lives on in another one.
func (k *kinds) existing(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := k.mapping(gvk)
	var missing *NoKindError
	if errors.As(err, &missing) && len(missing.Served) > 0 {
		gvk.Version = missing.Served[0]
		return k.mapping(gvk)
	}
	return mapping, err
}

func (k *kinds) served(gk schema.GroupKind) []string {
	mappings, err := k.mapper.RESTMappings(gk)
	if err != nil {
		return nil
	}
	versions := make([]string, 0, len(mappings))
	for _, m := range mappings {
		versions = append(versions, m.GroupVersionKind.Version)
	}
	return versions
}

// noMatch also looks into the errors of a mapper that joins several.
func noMatch(err error) bool {
	var kind *meta.NoKindMatchError
	var resource *meta.NoResourceMatchError
	return meta.IsNoMatchError(err) || errors.As(err, &kind) || errors.As(err, &resource)
}

// namespaceOf returns the namespace to ask in: none for cluster-scoped kinds.
func namespaceOf(mapping *meta.RESTMapping, entry releasev1alpha1.InventoryEntry) string {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return entry.Namespace
	}
	return ""
}
