// Package registry runs a real image registry (distribution v3) on localhost, for tests and the demo.
//
// It is an applet of the control plane's binary and runs as a child process, so that an outage is a real one: Pause makes
// it accept connections and answer nothing, Stop makes it refuse them, Start brings it back with its images and its port.
// Each request is in its access log, by which tests count.
package registry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/bcrypt"
	certutil "k8s.io/client-go/util/cert"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/process"
)

// Options say how the registry is to be reached. The zero value is an open registry over plain HTTP.
type Options struct {
	// Username and Password are asked for on every request, by HTTP basic authentication, when Username is set.
	Username, Password string
	// TLS makes it speak HTTPS, with a certificate of its own making for localhost and 127.0.0.1; see CA.
	TLS bool
	// Dir holds images, configuration and logs; Close removes what the registry put there. Empty: a temporary folder.
	Dir string
	// Progress is told what a first start waits for; nil for silence.
	Progress io.Writer
}

// Registry is a registry on localhost, running or stopped. Its methods may be called at the same time.
type Registry struct {
	options   Options
	binary    string
	dir       string
	temporary bool
	port      int
	ca        []byte

	mu    sync.Mutex
	child *process.Process
}

// startTimeout bounds the wait for the first answer; it comes within a tenth of a second on an idle machine.
const startTimeout = time.Minute

// Start starts a registry on a free port and waits until it answers. Close it when done.
func Start(ctx context.Context, options Options) (*Registry, error) {
	binary, err := cluster.Binary(ctx, options.Progress)
	if err != nil {
		return nil, err
	}
	r := &Registry{options: options, binary: binary, dir: options.Dir}
	if r.dir == "" {
		if r.dir, err = os.MkdirTemp("", "registry-"); err != nil {
			return nil, fmt.Errorf("making a folder for the registry: %w", err)
		}
		r.temporary = true
	}
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return nil, fmt.Errorf("placing the registry in %s: %w", options.Dir, err)
	}
	const attempts = 4 // the port that was free may be taken when the registry listens
	for attempt := 1; ; attempt++ {
		if err := r.configure(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("configuring a registry in %s: %w", r.dir, err), r.Close())
		}
		err := r.Start(ctx)
		if err == nil {
			return r, nil
		}
		var exit *process.ExitError
		if attempt == attempts || !errors.As(err, &exit) || !strings.Contains(exit.Log, "address already in use") {
			return nil, errors.Join(err, r.Close())
		}
	}
}

// The files of a registry's folder. Close removes these and nothing else.
const (
	configFile   = "config.json"
	passwordFile = "htpasswd"
	certFile     = "tls.crt"
	keyFile      = "tls.key"
	imageFolder  = "images"
	accessFile   = "access.log"
	logFile      = "registry.log"
)

func (r *Registry) path(name string) string { return filepath.Join(r.dir, name) }

// configure chooses a port and writes what the registry reads.
func (r *Registry) configure(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.port = listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return err
	}
	server := map[string]any{"addr": net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)), "secret": rand.Text()}
	config := map[string]any{ // JSON is YAML too
		"version": "0.1",
		"http":    server,
		"storage": map[string]any{
			"filesystem": map[string]any{"rootdirectory": r.path(imageFolder)},
			"delete":     map[string]any{"enabled": true},
		},
	}
	if r.options.TLS {
		if err := r.certify(); err != nil {
			return err
		}
		server["tls"] = map[string]any{"certificate": r.path(certFile), "key": r.path(keyFile)}
	}
	if r.options.Username != "" {
		// The cheapest hash: it guards a password of a test, and is computed for every request.
		hash, err := bcrypt.GenerateFromPassword([]byte(r.options.Password), bcrypt.MinCost)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.path(passwordFile), fmt.Appendf(nil, "%s:%s\n", r.options.Username, hash), 0o600); err != nil {
			return err
		}
		config["auth"] = map[string]any{"htpasswd": map[string]any{"realm": "registry", "path": r.path(passwordFile)}}
	}
	content, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(configFile), content, 0o600)
}

func (r *Registry) certify() error {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	r.ca = cert
	return errors.Join(os.WriteFile(r.path(certFile), cert, 0o600), os.WriteFile(r.path(keyFile), key, 0o600))
}

// Host returns localhost:PORT, the registry's name in image references.
func (r *Registry) Host() string { return net.JoinHostPort("localhost", strconv.Itoa(r.port)) }

// CA returns the certificates that a client has to trust, in PEM; nil without TLS.
func (r *Registry) CA() []byte { return r.ca }

// Start starts a stopped registry again, on the same port and with the images it had, and waits until it answers.
func (r *Registry) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.child != nil && r.child.Running() {
		return nil
	}
	child, err := process.Start(process.Spec{
		Name:   "registry",
		Path:   r.binary,
		Args:   []string{r.path(configFile)},
		Log:    r.path(logFile),
		Stdout: r.path(accessFile),
	})
	if err != nil {
		return err
	}
	r.child = child
	client := &http.Client{Transport: r.transport()}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// The root answers without a password and is not part of the registry's API, so not counted by Requests.
	return child.Until(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url()+"/", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

func (r *Registry) url() string {
	if r.options.TLS {
		return "https://" + r.Host()
	}
	return "http://" + r.Host()
}

// Stop kills the registry: connections to its port are refused until Start. Its images stay.
func (r *Registry) Stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.child == nil {
		return nil
	}
	return r.child.Stop(0)
}

// Pause freezes the registry: connections are accepted and requests are never answered, until Resume.
func (r *Registry) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume lets a paused registry go on.
func (r *Registry) Resume() error { return r.signal(syscall.SIGCONT) }

func (r *Registry) signal(sig os.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.child == nil {
		return errors.New("the registry was never started")
	}
	return r.child.Signal(sig)
}

// Close stops the registry and removes what it wrote. Closing twice is no error.
func (r *Registry) Close() error {
	if err := r.Stop(); err != nil {
		return err
	}
	if r.temporary {
		return os.RemoveAll(r.dir)
	}
	var errs []error
	for _, name := range []string{configFile, passwordFile, certFile, keyFile, imageFolder, accessFile, logFile} {
		errs = append(errs, os.RemoveAll(r.path(name)))
	}
	return errors.Join(errs...)
}
