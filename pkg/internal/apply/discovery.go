package apply

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// discoverer asks the API server in which versions it has a kind: one request
// for the versions of the group, and one for the kinds of each.
type discoverer struct{ *discovery.DiscoveryClient }

func newDiscoverer(cfg *rest.Config, httpClient *http.Client) (discoverer, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return discoverer{}, fmt.Errorf("making a client for discovery: %w", err)
	}
	return discoverer{client}, nil
}

// versions returns them with the preferred one first, and none when the cluster
// does not have the kind.
func (d discoverer) versions(ctx context.Context, gk schema.GroupKind) (served []string, err error) {
	versions := []metav1.GroupVersionForDiscovery{{Version: "v1"}} // of the core group
	if gk.Group != "" {
		group := metav1.APIGroup{}
		err := d.RESTClient().Get().AbsPath("/apis", gk.Group).Do(ctx).Into(&group)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		versions = group.Versions
	}
	for _, version := range versions {
		has, err := d.has(ctx, gk.WithVersion(version.Version))
		if err != nil {
			return nil, err
		}
		if has {
			served = append(served, version.Version)
		}
	}
	return served, nil
}

func (d discoverer) has(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	list, err := d.ServerResourcesForGroupVersionWithContext(ctx, gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// Those of a subresource, such as Scale, have a kind of their own.
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind }), nil
}
