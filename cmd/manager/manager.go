package main

import (
	"crypto/tls"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// shutdownTimeout is how long a pass may take to end when the operator stops;
// deploy/operator.yaml grants a little more.
const shutdownTimeout = 25 * time.Second

// syncTimeout is how long a controller waits for a kind that the cluster does
// not have, or that the operator may not watch: without end, for what is missing
// is in the log and in readyz, and the other kinds' controllers go on.
const syncTimeout = 365 * 24 * time.Hour

// newManager makes the controller-runtime manager that the options ask for.
func newManager(o *options) (manager.Manager, error) {
	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // the API server's own fairness rules are the limit
	cfg.UserAgent = "go-helm-operator/" + version
	timeout, warm := shutdownTimeout, true // whoever waits to be elected knows all resources by then
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Cache:                         cache.Options{DefaultNamespaces: cacheNamespaces(o.namespaces), DefaultTransform: cache.TransformStripManagedFields()},
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              o.leaderElectionID,
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, // nothing runs after Start returns
		HealthProbeBindAddress:        o.probeAddress,
		Metrics:                       metrics(o),
		GracefulShutdownTimeout:       &timeout,
		Controller: config.Controller{
			EnableWarmup:     &warm,
			CacheSyncTimeout: syncTimeout,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil { // the process serves; readyz is pkg/controller's
		return nil, fmt.Errorf("adding healthz: %w", err)
	}
	return mgr, nil
}

// restConfig finds the API server: the given kubeconfig, or what client-go finds.
func restConfig(kubeconfig string) (*rest.Config, error) {
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
