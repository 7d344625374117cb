package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jkwong888/go-helm-operator/test/cluster/process"
)

// serviceAccount is the name that deploy/ gives the operator's identity.
const serviceAccount = "go-helm-operator"

// deployed are the manifests that an administrator applies to the namespace of an operator that watches its own.
var deployed = []string{"service_account.yaml", "role.yaml", "role_binding.yaml", "leader_election_role.yaml"}

// operator is the operator of one scenario: its identity, and the process that runs or ran last.
type operator struct {
	options   OperatorOptions
	binary    string
	watches   string
	namespace string
	dir       string // holds kubeconfig and log
	config    *rest.Config
	token     string

	child *process.Process
	fatal *mortal // the proxy that kills the process, if it is to die
}

func (o *operator) log() string { return filepath.Join(o.dir, "operator.log") }

// authorize gives the operator in the cluster the rights that deploy/ gives it, and those that the scenario adds.
func (o *operator) authorize(ctx context.Context, access *objects, deploy string) error {
	for _, name := range deployed {
		manifest, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			return err
		}
		if err := access.apply(ctx, manifest, o.namespace); err != nil {
			return fmt.Errorf("deploying %s: %w", name, err)
		}
	}
	client, err := kubernetes.NewForConfig(o.config)
	if err != nil {
		return err
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: serviceAccount, Namespace: o.namespace}}
	if len(o.options.Rules) > 0 {
		name := metav1.ObjectMeta{Name: "scenario"}
		role := &rbacv1.Role{ObjectMeta: name, Rules: o.options.Rules}
		binding := &rbacv1.RoleBinding{ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name}}
		_, err := client.RbacV1().Roles(o.namespace).Create(ctx, role, metav1.CreateOptions{})
		if err == nil {
			_, err = client.RbacV1().RoleBindings(o.namespace).Create(ctx, binding, metav1.CreateOptions{})
		}
		if err != nil {
			return fmt.Errorf("adding the scenario's rules: %w", err)
		}
	}
	if len(o.options.ClusterRules) > 0 {
		name := metav1.ObjectMeta{Name: o.namespace}
		role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: o.options.ClusterRules}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name}}
		_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		if err == nil {
			_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		}
		if err != nil {
			return fmt.Errorf("adding the scenario's cluster rules: %w", err)
		}
	}
	hour := int64(3600)
	token, err := client.CoreV1().ServiceAccounts(o.namespace).CreateToken(ctx, serviceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting a token of ServiceAccount %s: %w", serviceAccount, err)
	}
	o.token = token.Status.Token
	return nil
}

// start starts the process; it need not be ready for anything when this returns.
func (o *operator) start(ctx context.Context, options StartOptions) error {
	if o.running() {
		return errors.New("the operator runs already")
	}
	server := o.config.Host
	if options.DieAtWrite > 0 {
		var err error
		if o.fatal, err = startMortal(ctx, o.config, options.DieAtWrite, o.kill); err != nil {
			return err
		}
		server = o.fatal.url
	}
	kubeconfig := filepath.Join(o.dir, "kubeconfig")
	if err := o.writeKubeconfig(kubeconfig, server); err != nil {
		return err
	}
	args := []string{
		"--kubeconfig=" + kubeconfig, "--watches-file=" + o.watches, "--zap-encoder=json",
		"--health-probe-bind-address=0", "--metrics-bind-address=0",
	}
	if !o.options.NoLeaderElection {
		args = append(args, "--leader-elect", "--leader-election-namespace="+o.namespace)
	}
	var err error
	o.child, err = process.Start(process.Spec{
		Name: "operator", Path: o.binary, Args: append(args, o.options.Args...), Log: o.log(),
		Env: []string{"WATCH_NAMESPACE=" + o.namespace, "KUBECONFIG="},
	})
	return err
}

func (o *operator) writeKubeconfig(path, server string) error {
	config := clientcmdapi.NewConfig()
	target := &clientcmdapi.Cluster{Server: server}
	if strings.HasPrefix(server, "https:") {
		target.CertificateAuthorityData, target.CertificateAuthority = o.config.CAData, o.config.CAFile
	}
	config.Clusters["c"] = target
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: o.token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: o.namespace}
	config.CurrentContext = "x"
	return clientcmd.WriteToFile(*config, path)
}

func (o *operator) running() bool { return o.child != nil && o.child.Running() }

// stop asks the process to end, as the kubelet does. That it had to be killed, or ended with an error, is an error.
func (o *operator) stop() error {
	if o.child == nil {
		return nil
	}
	if !o.child.Running() {
		return errors.New("the operator ended by itself")
	}
	const grace = 30 * time.Second // terminationGracePeriodSeconds of deploy/operator.yaml
	began := time.Now()
	if err := o.child.Stop(grace); err != nil {
		return err
	}
	if time.Since(began) >= grace {
		return fmt.Errorf("the operator did not end within %s of SIGTERM", grace)
	}
	return nil
}

// kill ends the process as a crash does.
func (o *operator) kill() error {
	if !o.running() {
		return errors.New("the operator does not run")
	}
	return o.child.Stop(0)
}

// died waits until the process was killed at the request that start was told.
func (o *operator) died(ctx context.Context) error {
	if o.fatal == nil {
		return errors.New("the operator was not told to die")
	}
	defer o.fatal.close()
	select {
	case err := <-o.fatal.killed:
		return err
	case <-o.child.Done():
		return errors.New("the operator ended by itself")
	case <-ctx.Done():
		return fmt.Errorf("the operator lives on: it sent %d requests that change something: %w", o.fatal.writes.Load(), ctx.Err())
	}
}

// do takes one step.
func (o *operator) do(ctx context.Context, step *OperatorStep) error {
	switch {
	case step.Start != nil:
		return o.start(ctx, *step.Start)
	case step.Stop:
		return o.stop()
	case step.Kill:
		return o.kill()
	default:
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return o.died(ctx)
	}
}

// listen listens on a free port of the loopback interface.
func listen(ctx context.Context, handler http.Handler) (*http.Server, string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // it ends by Close, with an error that says so
	return server, "http://" + listener.Addr().String(), nil
}
