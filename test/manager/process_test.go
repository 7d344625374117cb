package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
	"github.com/jkwong888/go-helm-operator/test/cluster/process"
)

// operator is a process of the operator.
type operator struct {
	namespace string // its own
	health    string // address of its probes
	metrics   string // address of its metrics
	log       string // file
	child     *process.Process
}

// startOptions say how the process differs from the deployed one.
type startOptions struct {
	watch   string   // WATCH_NAMESPACE
	args    []string // after those that are deployed
	gate    *gate    // in front of the API server, or nil
	watches string   // the watches file; default: the repository's
}

// start starts an operator that deploy has deployed to namespace. It stops when the test ends.
func start(t *testing.T, namespace string, o startOptions) *operator {
	t.Helper()
	dir := t.TempDir()
	op := &operator{namespace: namespace, health: freeAddress(t), metrics: freeAddress(t), log: filepath.Join(dir, "log")}
	if o.watches == "" {
		o.watches = must[string](t)(filepath.Abs(filepath.Join(root, "watches.yaml")))
	}
	args := append(deployedArgs(t), "--kubeconfig="+kubeconfig(t, namespace, o.gate), "--watches-file="+o.watches,
		"--leader-election-namespace="+namespace, "--health-probe-bind-address="+op.health, "--metrics-bind-address="+op.metrics)
	var err error
	op.child, err = process.Start(process.Spec{
		Name: "operator", Path: binary(t), Args: append(args, o.args...), Log: op.log,
		Env: []string{"WATCH_NAMESPACE=" + o.watch, "POD_NAME=" + filepath.Base(dir), "TMPDIR=" + dir, "KUBECONFIG="},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := op.child.Stop(30 * time.Second); err != nil { // deploy/operator.yaml's terminationGracePeriodSeconds
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", end(op.output(t), 8<<10))
		}
	})
	return op
}

// kubeconfig writes one that has nothing but the token of the deployed ServiceAccount.
func kubeconfig(t *testing.T, namespace string, behind *gate) string {
	t.Helper()
	admin := clustertest.Config(t)
	if err := rest.LoadTLSFiles(admin); err != nil {
		t.Fatal(err)
	}
	target := &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	if behind != nil {
		target = &clientcmdapi.Cluster{Server: behind.url, CertificateAuthorityData: behind.ca}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = target
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token(t, namespace, serviceAccount)}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: namespace}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// freeAddress is an address on loopback that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	listener := must[net.Listener](t)(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))
	defer listener.Close()
	return listener.Addr().String()
}

// probe returns the status and the body of a probe; an error says that nobody answers.
func (o *operator) probe(ctx context.Context, path string) (int, string, error) {
	return get(ctx, http.DefaultClient, "http://"+o.health+path, "")
}

func get(ctx context.Context, client *http.Client, url, bearer string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, _ := io.ReadAll(response.Body) // a TLS server resets the connection after its answer to plain HTTP
	return response.StatusCode, string(content), nil
}

// awaitReady waits until /readyz says so.
func (o *operator) awaitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := o.child.Until(ctx, func(ctx context.Context) error {
		status, body, err := o.probe(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d: %s", status, body)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitLeading waits until it holds the Lease.
func (o *operator) awaitLeading(t *testing.T) {
	t.Helper()
	o.awaitLog(t, "successfully acquired lease")
}

// awaitLog waits until all texts are in the log.
func (o *operator) awaitLog(t *testing.T, texts ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the operator's log has %q", texts), func(context.Context) error {
		for _, text := range texts {
			if !strings.Contains(strings.ToLower(o.output(t)), strings.ToLower(text)) {
				return fmt.Errorf("it has no %q", text)
			}
		}
		return nil
	})
}

// terminate sends SIGTERM and returns how long the process took to end, and its exit status.
func (o *operator) terminate(t *testing.T) (took time.Duration, status int) {
	t.Helper()
	began := time.Now()
	if err := o.child.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	status = o.exit(t)
	return time.Since(began), status
}

// exit waits for the end of the process and returns its exit status.
func (o *operator) exit(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := o.child.Until(ctx, func(context.Context) error { return errors.New("it runs") })
	var ended *process.ExitError
	if !errors.As(err, &ended) {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if errors.As(ended, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func (o *operator) output(t *testing.T) string {
	t.Helper()
	return string(must[[]byte](t)(os.ReadFile(o.log)))
}

// messages are the log's lines that are written by the operator at a level.
func (o *operator) messages(t *testing.T, level string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(o.output(t)) {
		var entry struct{ Level string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == level {
			all = append(all, line)
		}
	}
	return all
}

// user is the operator's name for the API server.
func (o *operator) user() string {
	return "system:serviceaccount:" + o.namespace + ":" + serviceAccount
}

func mark(t *testing.T) cluster.Mark {
	t.Helper()
	return must[cluster.Mark](t)(clustertest.Cluster(t).Mark(t.Context()))
}

// requests are the operator's since a mark.
func (o *operator) requests(t *testing.T, since cluster.Mark, filters ...cluster.Filter) []cluster.Request {
	t.Helper()
	return must[[]cluster.Request](t)(clustertest.Cluster(t).Requests(t.Context(), since, append(filters, cluster.ByUser(o.user()))...))
}

func end(s string, bytes int) string { return s[max(0, len(s)-bytes):] }
