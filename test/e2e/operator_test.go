package e2e

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/jkwong888/go-helm-operator/pkg/controller"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/watches"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// agent is the user agent of the operators, by which their requests are told
// from those of the tests.
const agent = "operator-under-test"

// operator is a running operator that watches one namespace.
type operator struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
	cut    *cutter
}

type operatorOptions struct {
	engine reconciler.EngineOptions
	// kinds that the operator runs; none means Shop and Stall, with the shop chart.
	kinds []watches.Watch
	// add adds the controllers; nil adds those of kinds.
	add func(manager.Manager, *reconciler.Engine) error
	// dieAfter cuts the operator off after so many writes; 0 never.
	dieAfter int64
}

func start(t *testing.T, namespace string, o operatorOptions) *operator {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	op := &operator{t: t, cancel: cancel, done: make(chan error, 1), cut: &cutter{limit: o.dieAfter, died: make(chan struct{})}}
	cfg := clustertest.Config(t)
	cfg.UserAgent = agent
	cfg.QPS = -1
	cfg.Wrap(op.cut.wrap)
	skip := true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Logger:     logr.Discard(),
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skip}, // several operators live in this process, one after the other
	})
	if err != nil {
		t.Fatal(err)
	}
	o.engine.Namespaces = []string{namespace}
	if o.kinds == nil {
		shop := chartPath(t, "shop")
		o.kinds = []watches.Watch{
			{Group: "example.com", Version: "v1", Kind: "Shop", Chart: shop, OperatorKey: "operator"},
			{Group: "example.com", Version: "v1", Kind: "Stall", Chart: shop},
		}
	}
	for _, kind := range o.kinds {
		o.engine.Kinds = append(o.engine.Kinds, kind.GroupVersionKind().GroupKind())
	}
	engine, err := reconciler.NewEngine(mgr, o.engine)
	if err != nil {
		t.Fatal(err)
	}
	if o.add == nil {
		o.add = func(mgr manager.Manager, engine *reconciler.Engine) error {
			return controller.AddToManager(mgr, engine, o.kinds, controller.Options{ImagePollInterval: time.Minute})
		}
	}
	if err := o.add(mgr, engine); err != nil {
		t.Fatal(err)
	}
	go func() { op.done <- mgr.Start(ctx) }()
	t.Cleanup(op.stop)
	return op
}

func chartPath(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata/charts", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// stop ends the operator in an orderly way and waits for it.
func (op *operator) stop() {
	op.cancel()
	select {
	case err := <-op.done:
		op.done <- err
		if err != nil && !op.cut.isDead() {
			op.t.Errorf("the operator ended with: %v", err)
		}
	case <-time.After(time.Minute):
		op.t.Error("the operator did not stop within a minute")
	}
}

// crash waits until the operator was cut off, then ends what is left of it: of
// its last moments nothing reaches the API server.
func (op *operator) crash() {
	op.t.Helper()
	select {
	case <-op.cut.died:
	case <-time.After(time.Minute):
		op.t.Fatalf("the operator made only %d of %d writes within a minute", op.cut.writes.Load(), op.cut.limit)
	}
	op.stop()
}

// cutter is a transport that stops working after a number of writes, as if the
// process had died right after the last of them was answered.
type cutter struct {
	limit  int64
	writes atomic.Int64
	dead   atomic.Bool
	died   chan struct{}
}

var errCut = errors.New("cut off")

func (c *cutter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if c.dead.Load() {
			return nil, errCut
		}
		// Access reviews change nothing.
		write := req.Method != http.MethodGet && !strings.HasPrefix(req.URL.Path, "/apis/authorization.k8s.io/")
		if write && c.limit > 0 && c.writes.Add(1) > c.limit {
			if c.dead.CompareAndSwap(false, true) {
				close(c.died)
			}
			return nil, errCut
		}
		return next.RoundTrip(req)
	})
}

func (c *cutter) isDead() bool { return c.dead.Load() }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
