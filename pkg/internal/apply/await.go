package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

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

// watchAgain is how long to wait before an object is looked at again when its
// watch ended, as watches do now and then, or the API server did not answer.
const watchAgain = time.Second

// refusalGrace is how long a refusal is not believed after a watch was allowed:
// an API server that was just started answers before it knows any role.
const refusalGrace = 15 * time.Second

// Await watches one object until done returns true or an error, or the context
// ends. It sees the object as *unstructured.Unstructured, and its removal, also
// one that happened before, as an event of type Deleted. The operator needs to
// list and watch the kind; without that right it gets a *ForbiddenError, at once
// unless it had the right before. A server that is away, busy or failing is asked
// again until the context ends.
func (c *Client) Await(ctx context.Context, entry releasev1alpha1.InventoryEntry, done func(watch.Event) (bool, error)) error {
	var last error
	var doubted time.Time // until when a refusal is not believed
	for {
		seen := false
		finished, err := c.follow(ctx, entry, func(e watch.Event) (bool, error) {
			seen = true
			return done(e)
		})
		now := c.kinds.clock.Now()
		if finished || refused(err) && (seen || !now.Before(doubted)) {
			return err
		}
		if seen {
			doubted = now.Add(refusalGrace)
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for %s: %w", EntryKey(entry), context.Cause(ctx)), last)
		case <-time.After(watchAgain):
		}
	}
}

// refused says that the API server will not answer otherwise by itself.
func refused(err error) bool {
	var (
		forbidden *ForbiddenError
		denied    *DeniedError
		noKind    *NoKindError
		invalid   *InvalidError
	)
	return errors.As(err, &forbidden) || errors.As(err, &denied) || errors.As(err, &noKind) || errors.As(err, &invalid)
}

// follow looks at the object as it is, then watches it until done is satisfied
// or fails, which finishes it, or the watch ends.
func (c *Client) follow(ctx context.Context, entry releasev1alpha1.InventoryEntry, done func(watch.Event) (bool, error)) (finished bool, err error) {
	err = c.kinds.ask(ctx, EntryGVK(entry), func(mapping *meta.RESTMapping) (err error) {
		finished, err = c.followIn(ctx, mapping, entry, done)
		return err
	})
	return finished, err
}

func (c *Client) followIn(ctx context.Context, mapping *meta.RESTMapping, entry releasev1alpha1.InventoryEntry, done func(watch.Event) (bool, error)) (finished bool, err error) {
	asked := request{"watch", EntryKey(entry), mapping}
	objects := c.whole.Resource(mapping.Resource).Namespace(namespaceOf(mapping, entry))
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, entry.Name).String()}
	list, err := listOne(ctx, objects, options)
	if err != nil {
		return false, asked.explain(err)
	}
	now := watch.Event{Type: watch.Deleted, Object: &unstructured.Unstructured{}}
	if len(list.Items) > 0 {
		now = watch.Event{Type: watch.Added, Object: &list.Items[0]}
	}
	if finished, err = done(now); finished || err != nil {
		return true, err
	}
	options.ResourceVersion = list.GetResourceVersion()
	w, err := objects.Watch(ctx, options)
	if err != nil {
		return false, asked.explain(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error || event.Type == watch.Bookmark {
			continue // an expired watch ends by itself
		}
		if finished, err = done(event); finished || err != nil {
			return true, err
		}
	}
	return false, nil
}

func listOne(ctx context.Context, objects dynamic.ResourceInterface, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return objects.List(ctx, options)
}
