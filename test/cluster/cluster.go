package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/jkwong888/go-helm-operator/test/cluster/process"
)

// The components that Signal and Restart know.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// Options say what to start. The zero value is a bare cluster in a temporary folder.
type Options struct {
	// Dir holds everything the cluster writes; it is made if need be. Empty: a temporary folder. Stop removes what Start put there.
	Dir string
	// CRDs are files and folders (their .yaml, .yml and .json files) with CustomResourceDefinitions. They are established
	// before the controller-manager starts, which else may take half a minute to collect the first orphan of such a kind.
	CRDs []string
	// AuditLog makes the API server write down each request, for Mark and Requests.
	AuditLog bool
	// Detached lets the cluster outlive this process; Open finds it again. Otherwise it dies with this process.
	Detached bool
	// Progress is told what a first start waits for, see Binary; nil for silence.
	Progress io.Writer
}

// Cluster is a running control plane with one node. Its methods may be called at the same time.
type Cluster struct {
	// Dir holds the kubeconfig, credentials, logs and data.
	Dir string
	// Kubeconfig is the path of a kubeconfig of an administrator (group system:masters).
	Kubeconfig string
	// Config is the same for Go clients, without client-side rate limits. Copy it before changing it.
	Config *rest.Config
	// Logs is the folder with one log file for each component, and the audit log.
	Logs string

	options   Options
	binary    string
	temporary bool // Dir is ours as a whole
	apiPort   int
	etcdPort  int

	mu         sync.Mutex
	keep       bool
	components map[string]*process.Process
}

// startTimeout bounds what comes after the build; a start takes about four seconds on two idle cores.
const startTimeout = time.Minute

// Start builds the control plane if need be, starts it and waits until it is of use: the API server is ready, so is the
// node, the CRDs are established, and namespace default has its ServiceAccount. What was started is stopped on failure;
// the error then holds the end of the failing component's log.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	binary, err := Binary(ctx, options.Progress)
	if err != nil {
		return nil, err
	}
	c, err := prepare(options, binary)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a control plane in %s: %w", c.Dir, err), c.Stop())
	}
	return c, nil
}

// prepare makes the folders and refuses one where a cluster already is.
func prepare(options Options, binary string) (*Cluster, error) {
	c := &Cluster{options: options, binary: binary, components: map[string]*process.Process{}}
	if options.Dir == "" {
		dir, err := os.MkdirTemp("", "cluster-")
		if err != nil {
			return nil, fmt.Errorf("making a folder for the control plane: %w", err)
		}
		c.temporary = true
		c.setDir(dir)
	} else {
		dir, err := filepath.Abs(options.Dir)
		if err != nil {
			return nil, fmt.Errorf("placing the control plane in %s: %w", options.Dir, err)
		}
		c.setDir(dir)
		if _, err := os.Stat(c.path(stateFile)); err == nil {
			return nil, fmt.Errorf("there is a control plane in %s already; stop it first", dir)
		}
	}
	for _, sub := range []string{binFolder, etcFolder, logFolder} {
		if err := os.MkdirAll(c.path(sub), 0o700); err != nil {
			return nil, fmt.Errorf("making folders for the control plane: %w", err)
		}
	}
	return c, nil
}

// What a cluster keeps in its folder. Stop removes these and nothing else.
const (
	binFolder  = "bin"  // links to the applets; also good as KUBEBUILDER_ASSETS
	etcFolder  = "etc"  // credentials and configuration of the components
	dataFolder = "data" // etcd's
	logFolder  = "logs"
	stateFile  = "cluster.json"
	kubeconfig = "kubeconfig"
)

func (c *Cluster) setDir(dir string) {
	c.Dir = dir
	c.Kubeconfig = c.path(kubeconfig)
	c.Logs = c.path(logFolder)
}

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.Dir}, elem...)...)
}

// start brings everything up. An error leaves what runs to Stop.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.link(); err != nil {
		return err
	}
	if err := c.startAPI(ctx); err != nil {
		return err
	}
	if err := c.InstallCRDs(ctx, c.options.CRDs); err != nil {
		return err
	}
	for _, name := range []string{ControllerManager, Scheduler, Kwok} {
		if err := c.run(name); err != nil {
			return err
		}
	}
	if err := c.save(); err != nil {
		return err
	}
	wait, ctx := errgroup.WithContext(ctx)
	wait.Go(func() error { return c.createNode(ctx) })
	wait.Go(func() error { return c.AwaitServiceAccount(ctx, "default") })
	return wait.Wait()
}

// startAPI starts etcd and the API server on free ports. A port that was free when it was chosen may be taken by the time
// the component listens, so it is tried more than once.
func (c *Cluster) startAPI(ctx context.Context) error {
	const attempts = 4
	for attempt := 1; ; attempt++ {
		err := c.tryAPI(ctx)
		var exit *process.ExitError
		clash := errors.As(err, &exit) && strings.Contains(exit.Log, "address already in use")
		if !clash || attempt == attempts {
			return err
		}
		if err := errors.Join(c.halt(), os.RemoveAll(c.path(dataFolder))); err != nil {
			return err
		}
	}
}

func (c *Cluster) tryAPI(ctx context.Context) (err error) {
	if c.etcdPort, err = freePort(ctx); err != nil {
		return err
	}
	if c.apiPort, err = freePort(ctx); err != nil {
		return err
	}
	if err := c.writeConfiguration(); err != nil {
		return fmt.Errorf("writing the configuration of the control plane: %w", err)
	}
	// The state is on disk before the first process is, so that a detached cluster can be found and stopped whatever happens here.
	for _, name := range []string{Etcd, APIServer} {
		if err := c.run(name); err != nil {
			return err
		}
		if err := c.save(); err != nil {
			return err
		}
	}
	if err := c.readKubeconfig(); err != nil {
		return err
	}
	return c.awaitAPI(ctx)
}

// run starts a component that is not running.
func (c *Cluster) run(name string) error {
	p, err := process.Start(process.Spec{
		Name:     name,
		Path:     c.binary,
		Args:     c.args(name),
		Log:      c.path(logFolder, name+".log"),
		Detached: c.options.Detached,
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.components[name] = p
	return nil
}

// Keep makes Stop leave the folder but for the data, so that the logs of a failed test can be read.
func (c *Cluster) Keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep = true
}

// Stop kills all components and removes what the cluster wrote, unless Keep was called. Stopping twice is no error.
func (c *Cluster) Stop() error {
	if err := c.halt(); err != nil {
		return err // what they use stays
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keep {
		return os.RemoveAll(c.path(dataFolder)) // megabytes that tell nobody anything
	}
	if c.temporary {
		return os.RemoveAll(c.Dir)
	}
	var errs []error
	for _, name := range []string{binFolder, etcFolder, dataFolder, logFolder, stateFile, kubeconfig} {
		errs = append(errs, os.RemoveAll(c.path(name)))
	}
	_ = os.Remove(c.Dir) // fails when somebody keeps other things in it
	return errors.Join(errs...)
}

// halt kills all components. Nothing they hold is worth an orderly end.
func (c *Cluster) halt() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var group errgroup.Group
	for _, p := range c.components {
		group.Go(func() error { return p.Stop(0) })
	}
	return group.Wait()
}
