package deploy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// process is the operator as a process, in place of the container that the simulated node does not run.
type process struct {
	health  string // URL of its probes, without path
	metrics string // URL of its metrics
	output  *safeBuffer
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended, with ended
	ended   error
}

// token returns a token of a ServiceAccount.
func token(t *testing.T, namespace, serviceAccount string) string {
	t.Helper()
	request, err := clustertest.Client(t).CoreV1().ServiceAccounts(namespace).
		CreateToken(t.Context(), serviceAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("asking for a token of ServiceAccount %s: %v", serviceAccount, err)
	}
	return request.Status.Token
}

// asServiceAccount writes a kubeconfig that has nothing but the token of the deployed ServiceAccount.
func asServiceAccount(t *testing.T, namespace string) string {
	t.Helper()
	admin := clustertest.Config(t)
	if err := rest.LoadTLSFiles(admin); err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token(t, namespace, operator)}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: namespace}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// startOperator runs the manager of an unpacked image with the arguments of the Deployment in namespace, but for the ports,
// which are free ones on loopback, and what a Pod has of itself. It waits until the operator is ready.
func startOperator(t *testing.T, image, namespace string, watch string) *process {
	t.Helper()
	deployment, err := clustertest.Client(t).AppsV1().Deployments(namespace).Get(t.Context(), operator, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	health, metrics := freeAddress(t), freeAddress(t)
	args := append([]string{}, deployment.Spec.Template.Spec.Containers[0].Args...)
	args = append(args, "--leader-election-namespace="+namespace, "--health-probe-bind-address="+health, "--metrics-bind-address="+metrics)

	p := &process{health: "http://" + health, metrics: "https://" + metrics + "/metrics", output: &safeBuffer{}, done: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(image, "manager"), args...)
	p.cmd.Dir = image // stands for the image's root, where the container starts
	p.cmd.Env = []string{"KUBECONFIG=" + asServiceAccount(t, namespace), "WATCH_NAMESPACE=" + watch, "POD_NAME=" + operator, "TMPDIR=" + t.TempDir()}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.ended = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("the operator's log:\n%s", p.output)
		}
	})
	p.awaitReady(t)
	return p
}

// stop ends the operator as the kubelet does and waits for it.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return // it has ended before
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second): // deploy/operator.yaml's terminationGracePeriodSeconds
		t.Errorf("the operator has not ended 30 s after SIGTERM")
		_ = p.cmd.Process.Kill()
	}
}

func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "the operator is ready", func(ctx context.Context) (bool, string, error) {
		select {
		case <-p.done:
			return false, "", fmt.Errorf("the operator has ended: %w", p.ended)
		default:
		}
		status, err := get(ctx, http.DefaultClient, p.health+"/readyz", "")
		return status == http.StatusOK, fmt.Sprintf("/readyz answers %d, %v", status, err), nil
	})
}

// get returns the status of a GET request with a bearer token, if any.
func get(ctx context.Context, client *http.Client, url, bearer string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}

// selfSigned is a client for the operator's metrics: it insists on TLS, and the operator makes its certificate itself.
func selfSigned() *http.Client {
	verify := func(certificates [][]byte, _ [][]*x509.Certificate) error {
		_, err := x509.ParseCertificate(certificates[0])
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyPeerCertificate: verify}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

// freeAddress returns an address on loopback that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// safeBuffer is what a process writes, to be read while it still does.
type safeBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
