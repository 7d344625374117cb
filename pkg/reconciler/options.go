package reconciler

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
)

// DefaultMaxConcurrentReconciles is how many resources of a kind are worked on
// at a time. A pass mostly waits for the API server, so it is more than there
// are cores; each holds one rendered chart in memory.
const DefaultMaxConcurrentReconciles = 16

// DefaultMaxRetryDelay bounds the wait between two tries at something that
// keeps failing.
const DefaultMaxRetryDelay = 5 * time.Minute

// Option configures a Reconciler.
type Option func(*Reconciler) error

// WithGroupVersionKind says which kind to reconcile. Required.
func WithGroupVersionKind(gvk schema.GroupVersionKind) Option {
	return func(r *Reconciler) error {
		if gvk.Version == "" || gvk.Kind == "" {
			return fmt.Errorf("kind %q: version and kind must be given", gvk.String())
		}
		r.gvk = gvk
		return nil
	}
}

// WithChart says which chart to install for each resource: a folder or a .tgz
// file. It is loaded once, here. Required.
func WithChart(path string) Option {
	return func(r *Reconciler) error {
		loaded, err := chart.Load(path)
		if err != nil {
			return err
		}
		r.chart = loaded
		return nil
	}
}

// WithOperatorKey names the key of spec that holds an OperatorSpec instead of
// values for the chart. Without it the whole spec is values.
func WithOperatorKey(key string) Option {
	return func(r *Reconciler) error {
		r.operatorKey = key
		return nil
	}
}

// WithInput adds an input; inputs are asked, and transform, in the order given.
func WithInput(input Input) Option {
	return func(r *Reconciler) error {
		if input == nil {
			return errors.New("an input must not be nil")
		}
		r.inputs = append(r.inputs, input)
		return nil
	}
}

// WithSource adds a source of requests to look at a resource again.
func WithSource(s source.TypedSource[reconcile.Request]) Option {
	return func(r *Reconciler) error {
		r.sources = append(r.sources, s)
		return nil
	}
}

// WithMaxConcurrentReconciles bounds how many resources of the kind are worked
// on at a time. Default: DefaultMaxConcurrentReconciles.
func WithMaxConcurrentReconciles(n int) Option {
	return func(r *Reconciler) error {
		if n < 1 {
			return fmt.Errorf("max concurrent reconciles must be at least 1, not %d", n)
		}
		r.maxConcurrent = n
		return nil
	}
}
