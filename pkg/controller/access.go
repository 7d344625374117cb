package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/jkwong888/go-helm-operator/pkg/watches"
)

// access tells whether the operator sees the resources of its kinds, and while
// it does not, what is missing. A cache that may not list waits without an end,
// and neither its errors nor a probe say what to do about it.
type access struct {
	cache      cache.Cache
	mapper     meta.RESTMapper
	reviews    authorizationclient.SelfSubjectAccessReviewsGetter
	namespaces []string // none: all
	kinds      []schema.GroupVersionKind
}

func addAccess(mgr manager.Manager, kinds []watches.Watch, namespaces []string) error {
	reviews, err := authorizationclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a client to ask for the operator's rights: %w", err)
	}
	a := &access{cache: mgr.GetCache(), mapper: mgr.GetRESTMapper(), reviews: reviews, namespaces: namespaces}
	if len(a.namespaces) == 0 {
		a.namespaces = []string{metav1.NamespaceAll}
	}
	for _, kind := range kinds {
		a.kinds = append(a.kinds, kind.GroupVersionKind())
	}
	if err := mgr.Add(a); err != nil {
		return fmt.Errorf("adding the check of the operator's rights to the manager: %w", err)
	}
	if err := mgr.AddReadyzCheck("kinds", a.synced); err != nil {
		return fmt.Errorf("adding readyz: %w", err)
	}
	return nil
}

// synced is the check of readyz: every resource of every kind is known. It asks
// for each cache and not for those that were begun, so that it does not answer
// before there is any, nor for an operator that waits to be elected.
func (a *access) synced(req *http.Request) error {
	for _, gvk := range a.kinds {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		informer, err := a.cache.GetInformer(req.Context(), obj, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", gvk.GroupKind(), err)
		}
		if !informer.HasSynced() {
			return fmt.Errorf("the %s are not listed yet", gvk.GroupKind())
		}
	}
	return nil
}

// NeedLeaderElection says that an operator that waits to be elected tells too.
func (a *access) NeedLeaderElection() bool { return false }

const (
	// accessRetry is how soon after a refusal the rights are asked for again.
	accessRetry = 5 * time.Second
	// accessReminder is after how many refusals the same is said again.
	accessReminder = 12
)

// Start asks for the operator's rights until it has them all, and logs what is
// missing: at once, when that changes, and once a minute.
func (a *access) Start(ctx context.Context) error {
	logger := log.FromContext(ctx)
	ticker := time.NewTicker(accessRetry)
	defer ticker.Stop()
	told := ""
	for try := 0; ; try++ {
		missing := a.missing(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case missing == nil && told != "":
			logger.Info("The operator now sees its resources")
			return nil
		case missing == nil:
			return nil
		case missing.Error() != told || try%accessReminder == 0:
			told = missing.Error()
			logger.Error(missing, "The operator cannot see its resources; it waits until it can")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// missing says for each kind and namespace what keeps the operator from
// watching, and what to do; nil when nothing does.
func (a *access) missing(ctx context.Context) error {
	var errs []error
	for _, gvk := range a.kinds {
		mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		switch {
		case meta.IsNoMatchError(err):
			errs = append(errs, fmt.Errorf("the cluster has no %s of version %s: apply its CustomResourceDefinition (deploy/crds)", gvk.GroupKind(), gvk.Version))
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("asking for the resource of %s: %w", gvk.GroupKind(), err))
			continue
		}
		for _, namespace := range a.namespaces {
			errs = append(errs, a.review(ctx, mapping.Resource.GroupResource(), namespace))
		}
	}
	return errors.Join(errs...)
}

// review asks whether the operator may watch a resource.
func (a *access) review(ctx context.Context, resource schema.GroupResource, namespace string) error {
	var refused []string
	for _, verb := range []string{"list", "watch"} {
		answer, err := a.reviews.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: resource.Group, Resource: resource.Resource, Namespace: namespace, Verb: verb,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("asking whether the operator may %s %s: %w", verb, resource, err)
		}
		if !answer.Status.Allowed {
			refused = append(refused, verb)
		}
	}
	verbs := strings.Join(refused, " and ")
	switch {
	case len(refused) == 0:
		return nil
	case namespace == metav1.NamespaceAll:
		return fmt.Errorf("the operator may not %s %s in all namespaces: apply cluster_role.yaml and cluster_role_binding.yaml of deploy/cluster, "+
			"or let WATCH_NAMESPACE name the namespaces that it may work in", verbs, resource)
	default:
		return fmt.Errorf("the operator may not %s %s in namespace %s: apply deploy/role.yaml and deploy/role_binding.yaml there, "+
			"with the operator's namespace in the binding, or take it out of WATCH_NAMESPACE", verbs, resource, namespace)
	}
}
