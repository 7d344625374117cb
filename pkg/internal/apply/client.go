package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// requestTimeout bounds each request. The API server itself gives up after 60 s
// and a webhook after 30 s at most.
const requestTimeout = 35 * time.Second

// metadataOnly asks the server for no more than an object's metadata, also of
// what it just applied: the content of Secrets is never sent back.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// Client applies and deletes objects, each with one request. It has no
// client-side rate limit: the API server's priority and fairness is the limit.
// It is safe for concurrent use.
type Client struct {
	rest  *rest.RESTClient
	whole dynamic.Interface
	kinds *kinds
	cache *Cache
}

// NewClient returns a client for the API server of cfg. The mapper and the HTTP
// client are the process's; a nil httpClient makes one.
func NewClient(cfg *rest.Config, httpClient *http.Client, mapper meta.RESTMapper) (*Client, error) {
	cfg = unlimited(cfg)
	cfg.APIPath = "/apis" // every request names its whole path
	cfg.GroupVersion = &schema.GroupVersion{}
	cfg.ContentConfig = rest.ContentConfig{
		ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON,
		GroupVersion: cfg.GroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}
	if httpClient == nil {
		var err error
		if httpClient, err = rest.HTTPClientFor(cfg); err != nil {
			return nil, fmt.Errorf("making an HTTP client for the API server: %w", err)
		}
	}
	client, err := rest.RESTClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making a client for the API server: %w", err)
	}
	whole, err := dynamic.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making a client for the API server: %w", err)
	}
	known, err := newDiscoverer(cfg, httpClient)
	if err != nil {
		return nil, err
	}
	return &Client{rest: client, whole: whole, kinds: newKinds(mapper, known.versions, clock.RealClock{})}, nil
}

// unlimited copies cfg without the client-side rate limit.
func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.RateLimiter = -1, nil
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	return cfg
}

// WriteThrough makes the client tell the cache of every object it applies or
// deletes, so that what the cache says is never older than the last write. It
// is called before the client is used.
func (c *Client) WriteThrough(cache *Cache) { c.cache = cache }

// Mapping returns the resource of a kind, or a *NoKindError.
func (c *Client) Mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	return c.kinds.mapping(gvk)
}

// Apply puts obj into the cluster with one server-side apply, whoever else
// holds its fields. Items that others put in the place of its own into lists are
// removed, which takes three more requests. obj is marked and, unless it is in the inventory, checked.
// With a uid it applies only to the object of that uid and fails with a
// *GoneError when that is gone. Fields the kind does not have are an error, and
// so is a version that is not served any more: its fields may be others.
//
// The entry it returns is complete and goes into the inventory.
func (c *Client) Apply(ctx context.Context, obj *unstructured.Unstructured, uid types.UID) (releasev1alpha1.InventoryEntry, error) {
	entry := Entry(obj)
	if entry.Name == "" {
		return entry, &InvalidError{Object: EntryKey(entry), Reason: "it has no name, or one that YAML does not read as a string: quote it"}
	}
	mapping, err := c.kinds.mapping(obj.GroupVersionKind())
	if err != nil {
		return entry, err
	}
	body, err := json.Marshal(withUID(obj, uid))
	if err != nil {
		return entry, fmt.Errorf("encoding %s: %w", EntryKey(entry), err)
	}
	asked, target := request{"patch", EntryKey(entry), mapping}, path(mapping, entry)
	applied, err := c.put(ctx, asked, target, body)
	var invalid *InvalidError
	if errors.As(err, &invalid) && len(invalid.duplicates) > 0 {
		taken, failure := c.takeItems(ctx, asked, target, invalid.duplicates)
		if failure != nil {
			return entry, failure
		}
		if taken {
			applied, err = c.put(ctx, asked, target, body)
		}
	}
	if err != nil {
		return entry, err
	}
	entry.UID, entry.Object, entry.Managed = applied.UID, ObjectDigest(obj), ManagedDigest(applied.ManagedFields)
	if c.cache != nil {
		c.cache.applied(entry, applied)
	}
	return entry, nil
}

// put sends one server-side apply.
func (c *Client) put(ctx context.Context, asked request, target []string, body []byte) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	result := c.rest.Patch(types.ApplyPatchType).AbsPath(target...).
		Param("fieldManager", FieldManager).Param("force", "true").Param("fieldValidation", metav1.FieldValidationStrict).
		SetHeader("Accept", metadataOnly).Body(body).Do(ctx)
	applied, err := c.read(result, asked)
	var missing *NoKindError
	if errors.As(err, &missing) {
		if missing, err = c.kinds.unserved(ctx, missing.GVK); err == nil {
			err = missing
		}
	}
	return applied, err
}

// withUID returns the content of obj with metadata.uid, which the server takes
// as a precondition. obj itself stays as it is.
func withUID(obj *unstructured.Unstructured, uid types.UID) map[string]any {
	metadata, ok := obj.Object["metadata"].(map[string]any)
	if uid == "" || !ok {
		return obj.Object
	}
	content := maps.Clone(obj.Object)
	metadata = maps.Clone(metadata)
	metadata["uid"] = string(uid)
	content["metadata"] = metadata
	return content
}

// Delete removes the object of an entry, with one request when its uid is
// recorded and is still the object's. It never deletes an object that is not
// the owner's: when another one stands under the name, it looks whose it is. A
// kept object is left alone.
//
// gone says that the object is not there any more, or never was ours to
// delete; false that it is being deleted but something holds it. When the
// cluster has no such kind any more the error is a *NoKindError.
func (c *Client) Delete(ctx context.Context, entry releasev1alpha1.InventoryEntry, owner Owner) (gone bool, err error) {
	if entry.Keep {
		return true, nil
	}
	if entry.UID != "" {
		gone, err = c.delete(ctx, entry, entry.UID)
		var replaced *GoneError
		if !errors.As(err, &replaced) {
			return gone, err
		}
	}
	found, err := c.check(ctx, owner, entry)
	if err != nil || !found.Exists || !found.Ours {
		return err == nil, err
	}
	return c.delete(ctx, entry, found.UID)
}

func (c *Client) delete(ctx context.Context, entry releasev1alpha1.InventoryEntry, uid types.UID) (gone bool, err error) {
	background := metav1.DeletePropagationBackground
	body, err := json.Marshal(&metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err != nil {
		return false, fmt.Errorf("encoding the deletion of %s: %w", EntryKey(entry), err)
	}
	var left *metav1.PartialObjectMetadata
	err = c.kinds.ask(ctx, EntryGVK(entry), func(mapping *meta.RESTMapping) (err error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		result := c.rest.Delete().AbsPath(path(mapping, entry)...).
			SetHeader("Accept", metadataOnly).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx)
		left, err = c.read(result, request{"delete", EntryKey(entry), mapping})
		return err
	})
	if err != nil {
		return false, err
	}
	// An object that is held by finalizers or a grace period comes back with a
	// deletionTimestamp; one that is gone leaves a Status, or none if it was.
	gone = left == nil || left.Kind == "Status" || left.DeletionTimestamp == nil
	if c.cache != nil {
		c.cache.deleted(entry, uid, gone)
	}
	return gone, nil
}

// read returns the metadata in an answer, or nil for an object that does not
// exist.
func (c *Client) read(result rest.Result, asked request) (*metav1.PartialObjectMetadata, error) {
	if err := result.Error(); err != nil {
		err = asked.explain(err)
		if asked.verb != "patch" && isAbsent(err) {
			return nil, nil
		}
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, asked.explain(err)
	}
	out := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("cannot %s: the API server's answer is not an object", asked)
	}
	return out, nil
}

func isAbsent(err error) bool {
	var noKind *NoKindError
	return apierrors.IsNotFound(err) && !errors.As(err, &noKind)
}

// path returns the URL path of an object.
func path(mapping *meta.RESTMapping, entry releasev1alpha1.InventoryEntry) []string {
	resource := mapping.Resource
	segments := []string{"/api", resource.Version}
	if resource.Group != "" {
		segments = []string{"/apis", resource.Group, resource.Version}
	}
	if namespace := namespaceOf(mapping, entry); namespace != "" {
		segments = append(segments, "namespaces", namespace)
	}
	return append(segments, resource.Resource, entry.Name)
}
