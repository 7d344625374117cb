package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// MarkHook marks an object that a hook creates: as Mark does, but without the
// label that brings an object into the cache, for hooks are not in the
// inventory.
func (o Owner) MarkHook(obj *unstructured.Unstructured, namespaced bool) {
	o.Mark(obj, namespaced)
	labels := obj.GetLabels()
	delete(labels, OwnerLabel)
	obj.SetLabels(labels)
}

// Await watches one object until done returns true or an error, or the context
// ends. It sees the object as *unstructured.Unstructured, and its removal, also
// one that happened before, as an event of type Deleted.
func (c *Client) Await(ctx context.Context, entry releasev1alpha1.InventoryEntry, done func(watch.Event) (bool, error)) error {
	mapping, err := c.kinds.mapping(EntryGVK(entry))
	if err != nil {
		return err
	}
	objects := c.whole.Resource(mapping.Resource).Namespace(namespaceOf(mapping, entry))
	selected := func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, entry.Name).String()
	}
	source := newListWatch(selected, func(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		return objects.List(ctx, options)
	}, objects.Watch)
	absent := func(store toolscache.Store) (bool, error) {
		if len(store.ListKeys()) > 0 {
			return false, nil
		}
		return done(watch.Event{Type: watch.Deleted, Object: &unstructured.Unstructured{}})
	}
	var object runtime.Object = &unstructured.Unstructured{}
	if _, err := watchtools.UntilWithSync(ctx, source, object, absent, done); err != nil {
		return fmt.Errorf("waiting for %s: %w", EntryKey(entry), err)
	}
	return nil
}
