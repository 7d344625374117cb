package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"sort"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/jkwong888/go-helm-operator/test/cluster/process"
)

// applets are the names that the binary is linked under in the folder bin.
var applets = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"}

func (c *Cluster) link() error {
	for _, name := range applets {
		path := c.path(binFolder, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(c.binary, path); err != nil {
			return err
		}
	}
	return nil
}

// masters is the group that may do everything.
const masters = "system:masters"

// users are the identities of the static token file. Users named system:… have their rights from the API server's
// bootstrap RBAC policy.
var users = []struct{ name, group string }{
	{"admin", masters},
	{"kwok", masters},
	{"system:" + ControllerManager, ""},
	{"system:" + Scheduler, ""},
}

// writeConfiguration writes what the components read. It may be called again with other ports.
func (c *Cluster) writeConfiguration() error {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	signer, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"apiserver.crt": cert,
		"apiserver.key": key,
		"sa.key":        signer,
		"kwok.yaml":     []byte(stages()),
		"audit.yaml":    []byte(auditPolicy),
		"tokens.csv":    nil,
	}
	for _, user := range users {
		token := rand.Text()
		files["tokens.csv"] = fmt.Appendf(files["tokens.csv"], "%s,%s,%s,%q\n", token, user.name, user.name, user.group)
		path := c.path(etcFolder, user.name+".kubeconfig")
		if user.name == "admin" {
			path = c.Kubeconfig
		}
		if err := c.writeKubeconfig(path, user.name, token, cert); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(c.path(etcFolder, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) writeKubeconfig(path, user, token string, ca []byte) error {
	const name = "local"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   fmt.Sprintf("https://127.0.0.1:%d", c.apiPort),
		CertificateAuthorityData: ca,
	}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}

// args returns the command line of a component.
func (c *Cluster) args(name string) []string {
	etc := func(file string) string { return c.path(etcFolder, file) }
	switch name {
	case Etcd:
		client := fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort)
		// A single member talks to no peer: where it listens for one need not be where it says.
		const peer = "http://127.0.0.1:2380"
		return []string{
			"--data-dir=" + c.path(dataFolder), "--unsafe-no-fsync", "--log-level=error",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=http://127.0.0.1:0", "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		}
	case APIServer:
		return append([]string{
			fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", c.etcdPort),
			fmt.Sprintf("--secure-port=%d", c.apiPort), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
			"--tls-cert-file=" + etc("apiserver.crt"), "--tls-private-key-file=" + etc("apiserver.key"),
			"--authorization-mode=RBAC", "--anonymous-auth=false", "--token-auth-file=" + etc("tokens.csv"),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-signing-key-file=" + etc("sa.key"), "--service-account-key-file=" + etc("sa.key"),
			"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
		}, c.auditArgs()...)
	case ControllerManager:
		return []string{
			"--kubeconfig=" + etc("system:"+name+".kubeconfig"), "--leader-elect=false", "--secure-port=0",
			"--service-account-private-key-file=" + etc("sa.key"), "--root-ca-file=" + etc("apiserver.crt"),
			"--use-service-account-credentials",
			// Its default of 20 requests a second is used up by its own start: the first ServiceAccount would take 8 s.
			"--kube-api-qps=500", "--kube-api-burst=1000",
		}
	case Scheduler:
		return []string{"--kubeconfig=" + etc("system:"+name+".kubeconfig"), "--leader-elect=false", "--secure-port=0"}
	default:
		return []string{"--kubeconfig=" + etc("kwok.kubeconfig"), "--config=" + etc("kwok.yaml"), "--manage-all-nodes=true", "--node-ip=10.0.0.1",
			// Without a Lease the node would count as lost after 50 s. 40 s is what the kubelet asks for.
			"--node-lease-duration-seconds=40"}
	}
}

// freePort returns a TCP port that nothing listens on at this moment.
func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

func (c *Cluster) component(name string) (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.components[name]
	if !ok {
		return nil, fmt.Errorf("there is no component %q; there are %v", name, c.names())
	}
	return p, nil
}

// names returns the components in order; c.mu is held.
func (c *Cluster) names() []string {
	var names []string
	for name := range c.components {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Components returns the names of the components that were started, with whether each still runs.
func (c *Cluster) Components() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := map[string]bool{}
	for name, p := range c.components {
		running[name] = p.Running()
	}
	return running
}

// Signal sends a signal to one component: SIGSTOP and SIGCONT pause and resume it, SIGKILL kills it.
func (c *Cluster) Signal(component string, sig os.Signal) error {
	p, err := c.component(component)
	if err != nil {
		return err
	}
	return p.Signal(sig)
}

// Restart kills a component, if it still runs, and starts it again with its data and its port. For the API server it
// returns when that is ready again; the others have no such notion.
func (c *Cluster) Restart(ctx context.Context, component string) error {
	p, err := c.component(component)
	if err != nil {
		return err
	}
	if err := p.Stop(0); err != nil {
		return err
	}
	if err := c.run(component); err != nil {
		return err
	}
	if err := c.save(); err != nil {
		return err
	}
	if component != APIServer && component != Etcd {
		return nil
	}
	return c.awaitAPI(ctx)
}
