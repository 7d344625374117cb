// Package controller adds the operator's controllers to a manager: one for each
// kind of watches.yaml, all by the same code (pkg/reconciler). What a kind has
// beyond that is in a package of its own here.
package controller

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/jkwong888/go-helm-operator/pkg/controller/libertyapp"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/watches"
)

// Options of the controllers; zero values mean the defaults.
type Options struct {
	// MaxConcurrentReconciles is how many resources of a kind are worked on at
	// a time. Default: reconciler.DefaultMaxConcurrentReconciles.
	MaxConcurrentReconciles int
	// ImagePollInterval is how often registries are asked for the images of
	// resources that do not say. Default: image.DefaultInterval.
	ImagePollInterval time.Duration
	// Namespaces that the manager's cache watches; none means all.
	Namespaces []string
}

// AddToManager adds a controller for each kind, and a readyz check that all of
// them are watched. The engine must be the manager's. Errors name the kind.
func AddToManager(mgr manager.Manager, engine *reconciler.Engine, kinds []watches.Watch, opts Options) error {
	poller := image.NewPoller(image.PollerOptions{
		Interval: opts.ImagePollInterval,
		Metrics:  metrics.Registry,
		Notify: func(who image.Subscriber) {
			engine.Enqueue(reconciler.Key{Kind: who.Kind, NamespacedName: types.NamespacedName{Namespace: who.Namespace, Name: who.Name}})
		},
	})
	if err := mgr.Add(poller); err != nil {
		return fmt.Errorf("adding the image poller to the manager: %w", err)
	}
	if err := addAccess(mgr, kinds, opts.Namespaces); err != nil {
		return err
	}
	for _, kind := range kinds {
		options, err := optionsOf(mgr, kind, poller, opts)
		if err != nil {
			return fmt.Errorf("adding the controller of %s: %w", kind.Kind, err)
		}
		r, err := reconciler.New(options...)
		if err != nil {
			return fmt.Errorf("adding the controller of %s: %w", kind.Kind, err)
		}
		if err := r.SetupWithManager(mgr, engine); err != nil {
			return fmt.Errorf("adding the controller of %s: %w", kind.Kind, err)
		}
	}
	return nil
}

func optionsOf(mgr manager.Manager, kind watches.Watch, poller *image.Poller, opts Options) ([]reconciler.Option, error) {
	options := []reconciler.Option{
		reconciler.WithGroupVersionKind(kind.GroupVersionKind()),
		reconciler.WithChart(kind.Chart),
		reconciler.WithOperatorKey(kind.OperatorKey),
	}
	if opts.MaxConcurrentReconciles != 0 {
		options = append(options, reconciler.WithMaxConcurrentReconciles(opts.MaxConcurrentReconciles))
	}
	if kind.GroupVersionKind().GroupKind() != libertyapp.GroupKind {
		return options, nil
	}
	loaded, err := chart.Load(kind.Chart)
	if err != nil {
		return nil, err
	}
	for _, input := range libertyapp.Inputs(libertyapp.Config{
		GVK: kind.GroupVersionKind(), OperatorKey: kind.OperatorKey, Chart: loaded,
		Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Writer: mgr.GetClient(),
		Poller: poller, Clock: clock.RealClock{},
	}) {
		options = append(options, reconciler.WithInput(input))
	}
	return options, nil
}
