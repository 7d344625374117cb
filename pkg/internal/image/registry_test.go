package image

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	clocktesting "k8s.io/utils/clock/testing"
)

// user is who the faulty registry lets in, with password.
const user = "puller"

// faultyRegistry is an in-process registry whose answers can be tampered with,
// and which counts the requests that reach it.
type faultyRegistry struct {
	*httptest.Server
	t    testing.TB
	host string

	mu       sync.Mutex
	requests []string // method and path
	headers  []http.Header
	fault    http.HandlerFunc // runs first; answers by writing something
	quiet    bool             // pushes of the test do not count
}

// answered remembers whether a fault has written an answer.
type answered struct {
	http.ResponseWriter
	done bool
}

func (a *answered) WriteHeader(status int) {
	a.done = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(b []byte) (int, error) {
	a.done = true
	return a.ResponseWriter.Write(b)
}

func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func newRegistry(t testing.TB) *faultyRegistry { return startRegistry(t, (*httptest.Server).Start) }
func newTLSRegistry(t testing.TB) *faultyRegistry {
	return startRegistry(t, (*httptest.Server).StartTLS)
}

func startRegistry(t testing.TB, start func(*httptest.Server)) *faultyRegistry {
	t.Helper()
	f := &faultyRegistry{t: t}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := f.note(r)
		a := &answered{ResponseWriter: w}
		if fault != nil {
			fault(a, r)
		}
		if !a.done {
			inner.ServeHTTP(w, r)
		}
	}))
	f.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes
	start(f.Server)
	t.Cleanup(f.Close)
	_, f.host, _ = strings.Cut(f.URL, "://")
	return f
}

// note counts the request and returns the fault for it.
func (f *faultyRegistry) note(r *http.Request) http.HandlerFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.quiet {
		return nil
	}
	f.requests = append(f.requests, r.Method+" "+r.URL.Path)
	f.headers = append(f.headers, r.Header.Clone())
	return f.fault
}

// taken returns the requests since the last call.
func (f *faultyRegistry) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.requests
	f.requests, f.headers = nil, nil
	return taken
}

func (f *faultyRegistry) seenHeaders() []http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.headers
}

func (f *faultyRegistry) breakWith(fault http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faultyRegistry) setQuiet(quiet bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quiet = quiet
}

// push puts something under a tag and returns its digest.
func (f *faultyRegistry) push(image string, what remote.Taggable) string {
	f.t.Helper()
	f.setQuiet(true)
	defer f.setQuiet(false)
	tag, err := name.NewTag(f.host+"/"+image, name.Insecure)
	if err != nil {
		f.t.Fatal(err)
	}
	client := remote.WithTransport(f.Client().Transport)
	switch content := what.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(tag, content, client)
	case v1.Image:
		err = remote.Write(tag, content, client)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	digest, err := what.(interface{ Digest() (v1.Hash, error) }).Digest()
	if err != nil {
		f.t.Fatal(err)
	}
	return digest.String()
}

func (f *faultyRegistry) pushRandom(image string) string {
	f.t.Helper()
	img, err := random.Image(64, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.push(image, img)
}

func (f *faultyRegistry) ref(image string) Ref { return mustParse(f.t, f.host+"/"+image) }

// ca is the registry's certificate in PEM.
func (f *faultyRegistry) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
}

// manifests restricts a fault to requests for manifests.
func manifests(fault http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/manifests/") {
			fault(w, r)
		}
	}
}

// basic demands HTTP basic authentication.
func basic(w http.ResponseWriter, r *http.Request) {
	if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// bearer demands a token, which is had at realm for the right password.
func bearer(realm string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			serveToken(w, r)
			return
		}
		if r.Header.Get("Authorization") != "Bearer good" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="test"`, realm))
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
}

func serveToken(w http.ResponseWriter, r *http.Request) {
	if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"errors":[{"code":"UNAUTHORIZED","message":"wrong password %s"}]}`, p)
		return
	}
	_, _ = io.WriteString(w, `{"token":"good"}`)
}

// login is a credential with this password, and another to go on with.
func login(secret, pass string) Credential {
	return newCredential(secret, authConfig(user, pass))
}

var insecure = TransportOptions{Insecure: true}

// newTestResolver returns a Resolver with a clock of its own and short limits
// for what is not meant to be slow.
func newTestResolver() (*Resolver, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	return NewResolver(ResolverOptions{Version: "v1.2.3", Clock: clock}), clock
}
