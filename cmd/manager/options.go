package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
)

// watchNamespaceEnv lists the namespaces to watch, as in operator-sdk: empty
// means all, commas separate several.
const watchNamespaceEnv = "WATCH_NAMESPACE"

// options are what flags and environment ask for.
type options struct {
	kubeconfig              string
	watchesFile             string
	namespaces              []string
	leaderElect             bool
	leaderElectionID        string
	leaderElectionNamespace string
	probeAddress            string
	metricsAddress          string
	metricsSecure           bool
	metricsRequireRBAC      bool
	maxConcurrentReconciles int
	imagePollInterval       time.Duration
	releaseStorage          string
	secretsInStatus         bool
	version                 bool
	zap                     zap.Options
}

// parse reads flags and environment; its errors are for whoever starts the
// operator. It answers --help itself and returns flag.ErrHelp.
func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("manager", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // main says what is wrong, once and without the list of all flags
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig file; default: $KUBECONFIG, the Pod's ServiceAccount, ~/.kube/config")
	fs.StringVar(&o.watchesFile, "watches-file", "./watches.yaml", "the file that says which kinds to run from which charts")
	fs.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several operators act, by a Lease")
	fs.StringVar(&o.leaderElectionID, "leader-election-id", "go-helm-operator", "the name of the Lease")
	fs.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "the namespace of the Lease; default: the Pod's")
	fs.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served; 0 turns them off")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "where /metrics is served; 0 turns it off")
	fs.BoolVar(&o.metricsSecure, "metrics-secure", true, "serve metrics by HTTPS")
	fs.BoolVar(&o.metricsRequireRBAC, "metrics-require-rbac", true, "serve metrics only to who may get the path /metrics; needs --metrics-secure")
	fs.IntVar(&o.maxConcurrentReconciles, "max-concurrent-reconciles", reconciler.DefaultMaxConcurrentReconciles, "how many resources of a kind are worked on at a time")
	fs.DurationVar(&o.imagePollInterval, "image-poll-interval", 5*time.Minute, "how often to look at the registry, unless a resource says otherwise; at least 30s")
	fs.StringVar(&o.releaseStorage, "release-storage", reconciler.StorageSecret, "where releases are kept: secret, or status where the operator may not write Secrets")
	fs.BoolVar(&o.secretsInStatus, "allow-secrets-in-status", false, "with --release-storage=status: also keep releases that render Secrets, readable to all who may read the resource")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	o.zap.BindFlags(fs)
	// An error says what was tried and on what; where in the code that was is of use to developers alone.
	err := errors.Join(fs.Set("zap-stacktrace-level", "panic"), fs.Parse(args))
	if errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(os.Stdout)
		fs.Usage()
	}
	if err != nil {
		return nil, err
	}
	if o.namespaces, err = namespaces(os.Getenv(watchNamespaceEnv)); err != nil {
		return nil, err
	}
	return o, o.check(fs)
}

func (o *options) check(fs *flag.FlagSet) error {
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.maxConcurrentReconciles < 1:
		return errors.New("--max-concurrent-reconciles must be at least 1")
	case o.imagePollInterval < 30*time.Second:
		return errors.New("--image-poll-interval must be at least 30s")
	case o.releaseStorage != reconciler.StorageSecret && o.releaseStorage != reconciler.StorageStatus:
		return fmt.Errorf("--release-storage must be %s or %s, not %q", reconciler.StorageSecret, reconciler.StorageStatus, o.releaseStorage)
	case o.metricsRequireRBAC && !o.metricsSecure:
		return errors.New("--metrics-require-rbac needs --metrics-secure: tokens must not travel in the clear")
	}
	return nil
}

// namespaces splits a list, sorted and each once. Only an empty list means all:
// "," is what "$A,$B" makes of unset variables, and must not widen the rights.
func namespaces(list string) ([]string, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			return nil, fmt.Errorf("%s: %q cannot be the name of a namespace: %s", watchNamespaceEnv, name, strings.Join(wrong, "; "))
		}
		out = append(out, name)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s is %q, which names no namespace; leave it empty to watch all", watchNamespaceEnv, list)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
