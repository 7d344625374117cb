package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/jkwong888/go-helm-operator/test/cluster/process"
)

// serviceAccount is the name that deploy/ gives the operator's identity.
const serviceAccount = "go-helm-operator"

// deployed are the manifests that an administrator applies to the namespace of the operator, own those for one that watches
// its own namespace.
var (
	deployed = []string{"service_account.yaml", "leader_election_role.yaml"}
	own      = []string{"role.yaml", "role_binding.yaml"}
)

// operator is the operator of one scenario: its identity, and the process that runs or ran last.
type operator struct {
	options   OperatorOptions
	binary    string
	watches   string
	namespace string // where it is
	watched   string // the namespace of the resources, mostly the same
	dir       string // holds kubeconfig and log
	config    *rest.Config
	token     string

	child *process.Process
	fatal *mortal // the proxy that kills the process, if it is to die
}

func (o *operator) log() string { return filepath.Join(o.dir, "operator.log") }

// authorize gives the operator in the cluster the rights that deploy/ gives it, and those that the scenario adds.
func (o *operator) authorize(ctx context.Context, access *objects, deploy string) error {
	manifests := deployed
	if !o.options.Elsewhere {
		manifests = append(slices.Clone(deployed), own...)
	}
	for _, name := range manifests {
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
	if err := o.addRules(ctx, client); err != nil {
		return fmt.Errorf("adding the scenario's rules: %w", err)
	}
	if err := o.addClusterRules(ctx, client, deploy); err != nil {
		return fmt.Errorf("adding cluster rules: %w", err)
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

func (o *operator) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: serviceAccount, Namespace: o.namespace}}
}

func (o *operator) addRules(ctx context.Context, client kubernetes.Interface) error {
	if len(o.options.Rules) == 0 {
		return nil
	}
	name := metav1.ObjectMeta{Name: "scenario"}
	role := &rbacv1.Role{ObjectMeta: name, Rules: o.options.Rules}
	if _, err := client.RbacV1().Roles(o.watched).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := client.RbacV1().RoleBindings(o.watched).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: name, Subjects: o.subjects(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
	}, metav1.CreateOptions{})
	return err
}

// addClusterRules makes a ClusterRole of the scenario's own, which is named after the operator's namespace.
func (o *operator) addClusterRules(ctx context.Context, client kubernetes.Interface, deploy string) error {
	rules := o.options.ClusterRules
	if o.options.Elsewhere {
		manifest, err := os.ReadFile(filepath.Join(deploy, "cluster", "cluster_role.yaml"))
		if err != nil {
			return err
		}
		var deployed rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(manifest, &deployed); err != nil {
			return err
		}
		rules = append(deployed.Rules, rules...)
	}
	if len(rules) == 0 {
		return nil
	}
	name := metav1.ObjectMeta{Name: o.namespace}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, Subjects: o.subjects(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
	}, metav1.CreateOptions{})
	return err
}

// start starts the process; it need not be ready for anything when this returns.
func (o *operator) start(ctx context.Context, options StartOptions) error {
	if o.running() {
		return errors.New("the operator runs already")
	}
	server := &clientcmdapi.Cluster{
		Server: o.config.Host, CertificateAuthorityData: o.config.CAData, CertificateAuthority: o.config.CAFile,
	}
	if options.DieAtWrite > 0 {
		var err error
		if o.fatal, err = startMortal(ctx, o.config, options.DieAtWrite, o.kill); err != nil {
			return err
		}
		server = &clientcmdapi.Cluster{Server: o.fatal.url, CertificateAuthorityData: o.fatal.ca}
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
		Env: []string{"WATCH_NAMESPACE=" + o.watched, "KUBECONFIG="},
	})
	return err
}

func (o *operator) writeKubeconfig(path string, server *clientcmdapi.Cluster) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = server
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
	case <-o.child.Done():
		if !o.fatal.reached() {
			return errors.New("the operator ended by itself")
		}
		return <-o.fatal.killed
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
