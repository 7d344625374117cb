package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// shutdownTimeout is how long a pass may take to end when the operator stops;
// deploy/operator.yaml grants a little more.
const shutdownTimeout = 25 * time.Second

// newManager makes the controller-runtime manager that the options ask for.
func newManager(o *options) (manager.Manager, error) {
	cfg, err := config(o.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // the API server's own fairness rules are the limit
	cfg.UserAgent = "go-helm-operator/" + version
	timeout := shutdownTimeout
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Cache:                         cache.Options{DefaultNamespaces: cacheNamespaces(o.namespaces), DefaultTransform: cache.TransformStripManagedFields()},
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              o.leaderElectionID,
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, // nothing runs after Start returns
		HealthProbeBindAddress:        o.probeAddress,
		Metrics:                       metrics(o),
		GracefulShutdownTimeout:       &timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	return mgr, addChecks(mgr)
}

// config finds the API server: the given kubeconfig, or what client-go finds.
func config(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return ctrl.GetConfig()
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading --kubeconfig %s: %w", kubeconfig, err)
	}
	return cfg, nil
}

func cacheNamespaces(names []string) map[string]cache.Config {
	if len(names) == 0 {
		return nil
	}
	out := make(map[string]cache.Config, len(names))
	for _, name := range names {
		out[name] = cache.Config{}
	}
	return out
}

func metrics(o *options) metricsserver.Options {
	m := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure}
	// HTTP/2 is off: its stream resets have been used to exhaust servers.
	m.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	if o.metricsRequireRBAC {
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return m
}

// addChecks makes healthz mean that the process serves, and readyz that its
// view of the cluster is complete.
func addChecks(mgr manager.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding healthz: %w", err)
	}
	synced := func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return fmt.Errorf("the caches are not synced yet")
		}
		return nil
	}
	if err := mgr.AddReadyzCheck("caches", synced); err != nil {
		return fmt.Errorf("adding readyz: %w", err)
	}
	return nil
}
