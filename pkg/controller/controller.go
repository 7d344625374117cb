// Package controller makes a controller for each kind of watches.yaml and adds
// it to a manager.
package controller

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/watches"
)

// Options for all controllers.
type Options struct {
	// MaxConcurrentReconciles is how many resources of a kind are worked on at
	// a time; 0 means the reconciler's default.
	MaxConcurrentReconciles int
	// ImagePollInterval is how often registries are looked at, unless a
	// resource says otherwise.
	ImagePollInterval time.Duration
}

// AddToManager adds a controller for each watch to the manager.
func AddToManager(mgr manager.Manager, engine *reconciler.Engine, all []watches.Watch, opts Options) error {
	for _, w := range all {
		options := []reconciler.Option{
			reconciler.WithGroupVersionKind(w.GroupVersionKind()),
			reconciler.WithChart(w.Chart),
			reconciler.WithOperatorKey(w.OperatorKey),
		}
		if opts.MaxConcurrentReconciles > 0 {
			options = append(options, reconciler.WithMaxConcurrentReconciles(opts.MaxConcurrentReconciles))
		}
		r, err := reconciler.New(options...)
		if err != nil {
			return fmt.Errorf("adding %s: %w", w.Kind, err)
		}
		if err := r.SetupWithManager(mgr, engine); err != nil {
			return fmt.Errorf("adding %s: %w", w.Kind, err)
		}
	}
	return nil
}
