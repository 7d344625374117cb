package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
// a moment which it did not find. A mapper never forgets a version that it once
// saw, so what the server answers has the last word.
type kinds struct {
	mapper meta.RESTMapper
	// versions asks the API server in which versions it has a kind, the preferred
	// one first.
	versions func(context.Context, schema.GroupKind) ([]string, error)
	clock    clock.PassiveClock

	mu      sync.Mutex
	missing map[schema.GroupVersionKind]absence
}

type absence struct {
	until time.Time
	err   *NoKindError
}

func newKinds(mapper meta.RESTMapper, versions func(context.Context, schema.GroupKind) ([]string, error), clock clock.PassiveClock) *kinds {
	return &kinds{mapper: mapper, versions: versions, clock: clock, missing: map[schema.GroupVersionKind]absence{}}
}

// mapping returns a *NoKindError when the cluster does not have the kind in
// that version, after asking it once more.
func (k *kinds) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	if known := k.known(gvk); known != nil {
		return nil, known
	}
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err == nil {
		return mapping, nil
	}
	if !noMatch(err) {
		return nil, fmt.Errorf("asking the API server for kind %s in %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	return nil, k.remember(&NoKindError{GVK: gvk, Served: k.served(gvk.GroupKind())})
}

// known returns what is remembered of a kind that was missing a moment ago.
func (k *kinds) known(gvk schema.GroupVersionKind) *NoKindError {
	k.mu.Lock()
	defer k.mu.Unlock()
	if absent, ok := k.missing[gvk]; ok && k.clock.Now().Before(absent.until) {
		return absent.err
	}
	return nil
}

func (k *kinds) remember(missing *NoKindError) *NoKindError {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.missing[missing.GVK] = absence{until: k.clock.Now().Add(missingFor), err: missing}
	return missing
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

// ask calls f with the resource of an object that is in the cluster already.
// When the server turns out not to have that version any more, it calls f once
// more with one that it has.
func (k *kinds) ask(ctx context.Context, gvk schema.GroupVersionKind, f func(*meta.RESTMapping) error) error {
	mapping, err := k.existing(gvk)
	if err != nil {
		return err
	}
	err = f(mapping)
	var missing *NoKindError
	if !errors.As(err, &missing) {
		return err
	}
	if mapping, err = k.instead(ctx, mapping.GroupVersionKind); err != nil {
		return err
	}
	return f(mapping)
}

// instead returns the resource of a kind in another version than the one that
// the server just answered not to have, or a *NoKindError.
func (k *kinds) instead(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	missing, err := k.unserved(ctx, gvk)
	if err != nil {
		return nil, err
	}
	if len(missing.Served) == 0 {
		return nil, missing
	}
	gvk.Version = missing.Served[0]
	return k.mapping(gvk)
}

// unserved asks in which other versions the server has a kind of which it just
// answered not to have this one.
func (k *kinds) unserved(ctx context.Context, gvk schema.GroupVersionKind) (*NoKindError, error) {
	if known := k.known(gvk); known != nil {
		return known, nil
	}
	versions, err := k.versions(ctx, gvk.GroupKind())
	if err != nil {
		return nil, fmt.Errorf("asking the API server for the versions of kind %s in %s: %w", gvk.Kind, gvk.Group, err)
	}
	// Discovery may lag behind what is served.
	versions = slices.DeleteFunc(versions, func(version string) bool { return version == gvk.Version })
	return k.remember(&NoKindError{GVK: gvk, Served: versions}), nil
}

// served is what the mapper knows, which may be of before.
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
