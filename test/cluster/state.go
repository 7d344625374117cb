package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/jkwong888/go-helm-operator/test/cluster/process"
)

// state is what a cluster says about itself to other processes.
type state struct {
	Binary    string           `json:"binary"`
	AuditLog  bool             `json:"auditLog"`
	APIPort   int              `json:"apiPort"`
	EtcdPort  int              `json:"etcdPort"`
	Processes []process.Record `json:"processes"`
}

func (c *Cluster) save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := state{Binary: c.binary, AuditLog: c.options.AuditLog, APIPort: c.apiPort, EtcdPort: c.etcdPort}
	for _, p := range c.components {
		s.Processes = append(s.Processes, p.Record())
	}
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	// Renamed into place: whoever opens the cluster meanwhile sees the old state or the new one.
	partial := c.path(stateFile + ".new")
	if err := os.WriteFile(partial, content, 0o600); err != nil {
		return fmt.Errorf("writing the state of the control plane: %w", err)
	}
	return os.Rename(partial, c.path(stateFile))
}

// ErrNoCluster says that a folder holds no control plane.
var ErrNoCluster = errors.New("no control plane")

// Open finds the cluster that another process started in dir, running or not (see Down); ErrNoCluster when there is none.
func Open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNoCluster, dir)
	}
	var s state
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the control plane in %s: %w", dir, err)
	}
	c := &Cluster{
		options:    Options{Dir: dir, AuditLog: s.AuditLog, Detached: true},
		binary:     s.Binary,
		apiPort:    s.APIPort,
		etcdPort:   s.EtcdPort,
		components: map[string]*process.Process{},
	}
	c.setDir(dir)
	for _, record := range s.Processes {
		c.components[record.Name], _ = process.Find(record)
	}
	if err := c.readKubeconfig(); err != nil && !errors.Is(err, os.ErrNotExist) { // Stop can do without
		return nil, err
	}
	return c, nil
}

func (c *Cluster) readKubeconfig() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the control plane: %w", err)
	}
	config.QPS = -1 // no limit
	c.Config = config
	return nil
}
