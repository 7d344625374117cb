// Command manager is the operator: it runs, for each kind of watches.yaml, a
// controller that installs, upgrades, heals and removes a release of the kind's
// chart for each resource.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/jkwong888/go-helm-operator/pkg/controller"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/watches"
)

// version is set by the build.
var version = "dev"

func main() {
	opts, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "manager: %v; --help lists the flags\n", err)
		os.Exit(2)
	}
	if opts.version {
		fmt.Fprintln(os.Stdout, "go-helm-operator", version)
		return
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts.zap)))
	klog.SetLogger(ctrl.Log.WithName("client-go"))
	// Helm tells the standard logger of conflicting values, with the values.
	log.SetOutput(io.Discard)
	if err := run(opts); err != nil {
		ctrl.Log.Error(err, "The operator cannot go on")
		os.Exit(1)
	}
}

// run is the operator's life: flags, manager, engine, controllers.
func run(opts *options) error {
	kinds, err := watches.Load(opts.watchesFile)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	mgr, err := newManager(opts)
	if err != nil {
		return err
	}
	groupKinds := make([]schema.GroupKind, 0, len(kinds))
	for _, kind := range kinds {
		groupKinds = append(groupKinds, kind.GroupVersionKind().GroupKind())
	}
	engine, err := reconciler.NewEngine(mgr, reconciler.EngineOptions{
		Namespaces: opts.namespaces, Kinds: groupKinds,
		ReleaseStorage: opts.releaseStorage, SecretsInStatus: opts.secretsInStatus,
	})
	if err != nil {
		return err
	}
	err = controller.AddToManager(mgr, engine, kinds, controller.Options{
		MaxConcurrentReconciles: opts.maxConcurrentReconciles,
		ImagePollInterval:       opts.imagePollInterval,
		Namespaces:              opts.namespaces,
	})
	if err != nil {
		return err
	}
	ctrl.Log.Info("Starting", "version", version, "kinds", len(kinds), "namespaces", opts.namespaces)
	return mgr.Start(ctx)
}
