package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// Found is what Check saw.
type Found struct {
	// Exists says that the object is in the cluster.
	Exists bool
	// Ours says that it belongs to the owner that was asked for.
	Ours bool
	// UID of the object.
	UID types.UID
	// Other describes to whom it belongs, when it is not ours.
	Other string
}

// Check looks, with one metadata GET, whether an object exists and to whom it
// belongs. It is asked before an object is applied for the first time.
func (c *Client) Check(ctx context.Context, owner Owner, obj *unstructured.Unstructured) (Found, error) {
	return c.check(ctx, owner, Entry(obj))
}

func (c *Client) check(ctx context.Context, owner Owner, entry releasev1alpha1.InventoryEntry) (Found, error) {
	existing, err := c.metadata(ctx, entry)
	if err != nil || existing == nil {
		return Found{}, err
	}
	found := Found{Exists: true, Ours: owner.Owns(existing), UID: existing.UID}
	if !found.Ours {
		found.Other = holder(existing)
	}
	return found, nil
}

// LastManager names, with one metadata GET, the field manager other than ours
// that changed the object last; "" when there is none.
func (c *Client) LastManager(ctx context.Context, entry releasev1alpha1.InventoryEntry) (string, error) {
	existing, err := c.metadata(ctx, entry)
	if err != nil || existing == nil {
		return "", err
	}
	return lastManager(existing), nil
}

// metadata returns nil when the object does not exist.
func (c *Client) metadata(ctx context.Context, entry releasev1alpha1.InventoryEntry) (found *metav1.PartialObjectMetadata, err error) {
	err = c.kinds.ask(ctx, EntryGVK(entry), func(mapping *meta.RESTMapping) (err error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		result := c.rest.Get().AbsPath(path(mapping, entry)...).SetHeader("Accept", metadataOnly).Do(ctx)
		found, err = c.read(result, request{"get", EntryKey(entry), mapping})
		return err
	})
	return found, err
}
