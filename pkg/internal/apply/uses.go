package apply

import (
	"context"
	"errors"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Use says which kinds an owner's release has. New ones are watched, and Use
// returns when they have been listed; kinds that no release has any more are
// not watched any longer. Unchanged kinds cost nothing. Use comes before the
// first object of a kind is applied, so that the cache sees it.
//
// It returns a *ForbiddenError for kinds that the operator may not list or watch
// where the owner's release is: in its namespaces, or in the whole cluster. The
// other kinds are watched all the same, and the owner is enqueued when a kind can
// be watched at last. A kind that the cluster does not have cannot be watched,
// which is no error: its objects stay Unknown, and the next Use looks again.
func (c *Cache) Use(ctx context.Context, owner Owner, gvks []schema.GroupVersionKind) error {
	mappings, unmapped := c.unwatched(gvks)
	used, started := c.reassign(owner.ref(), gvks, mappings)
	errs := []error{unmapped}
	for _, i := range used {
		if started {
			errs = append(errs, i.wait(ctx, owner))
		}
	}
	return errors.Join(errs...)
}

// Release says that the owner's release has no objects any more.
func (c *Cache) Release(owner Owner) {
	c.reassign(owner.ref(), nil, nil)
}

// unwatched maps the kinds that have no informer yet and that the cluster has;
// outside of the lock, because it may ask the API server.
func (c *Cache) unwatched(gvks []schema.GroupVersionKind) (map[schema.GroupKind]*meta.RESTMapping, error) {
	var errs []error
	var mappings map[schema.GroupKind]*meta.RESTMapping
	for _, gvk := range gvks {
		if c.informer(gvk.GroupKind()) != nil {
			continue
		}
		mapping, err := c.kinds.existing(gvk)
		var missing *NoKindError
		if errors.As(err, &missing) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if mappings == nil {
			mappings = map[schema.GroupKind]*meta.RESTMapping{}
		}
		mappings[gvk.GroupKind()] = mapping
	}
	return mappings, errors.Join(errs...)
}

// reassign makes gvks the kinds of an owner. It returns their informers and
// whether those run.
func (c *Cache) reassign(owner ownerRef, gvks []schema.GroupVersionKind, mappings map[schema.GroupKind]*meta.RESTMapping) (used []*informer, running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.uses[owner]
	var kinds []schema.GroupKind
	for _, gvk := range gvks {
		gk := gvk.GroupKind()
		i := c.informers[gk]
		if i == nil && mappings[gk] != nil {
			i = c.newInformer(mappings[gk])
			c.informers[gk] = i
			c.run(i)
		}
		if i != nil && !slices.Contains(kinds, gk) {
			i.users[owner] = struct{}{}
			kinds = append(kinds, gk)
			used = append(used, i)
		}
	}
	c.uses[owner] = kinds
	if len(kinds) == 0 {
		delete(c.uses, owner)
	}
	for _, gk := range before {
		if !slices.Contains(kinds, gk) {
			c.drop(gk, owner)
		}
	}
	return used, c.ctx != nil && !c.stopped
}

// drop ends an owner's use of a kind. The lock is held.
func (c *Cache) drop(gk schema.GroupKind, owner ownerRef) {
	i := c.informers[gk]
	if i == nil {
		return
	}
	delete(i.users, owner)
	for _, s := range i.stores {
		s.forget(unique.Make(owner))
	}
	if len(i.users) == 0 {
		delete(c.informers, gk)
		if i.cancel != nil {
			i.cancel()
		}
	}
}

func (c *Cache) newInformer(mapping *meta.RESTMapping) *informer {
	i := &informer{stores: map[string]*store{}, users: map[ownerRef]struct{}{}}
	i.mapping.Store(mapping)
	namespaces := c.opts.Namespaces
	if len(namespaces) == 0 || mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		i.stores[namespace] = newStore(builtIn(mapping.GroupVersionKind.GroupKind()), c.enqueue, func() { c.refresh(i) }, c.clock)
	}
	return i
}
