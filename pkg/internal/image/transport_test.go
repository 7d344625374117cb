package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"golang.org/x/net/dns/dnsmessage"
)

func TestPrivateCertificateAuthority(t *testing.T) {
	f := newTLSRegistry(t)
	want := f.pushRandom("app:1")
	other := newTLSRegistry(t)
	for name, tt := range map[string]struct {
		options TransportOptions
		want    string // part of the error; none when empty
	}{
		"trusted":      {TransportOptions{CAPEM: f.ca()}, ""},
		"unverified":   {TransportOptions{Insecure: true}, ""},
		"unknown":      {TransportOptions{}, "signed by an authority that is not trusted; name it in images.caSecretRef"},
		"not PEM":      {TransportOptions{CAPEM: []byte("certificate")}, "holds no certificate in PEM; put one under the key ca.crt"},
		"also another": {TransportOptions{CAPEM: append(other.ca(), f.ca()...)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newTestResolver()
			if tt.want != "" {
				contains(t, refuse(t, r, f.ref("app:1"), nil, tt.options, Unreachable).Error(), tt.want)
				return
			}
			if got := resolve(t, r, f.ref("app:1"), nil, tt.options); got.Digest != want {
				t.Errorf("digest %s, want %s", got.Digest, want)
			}
		})
	}
}

func TestPlainHTTPOnlyWhereAsked(t *testing.T) {
	f := newRegistry(t) // on a loopback address, where the library would try it
	f.pushRandom("app:1")
	r, _ := newTestResolver()
	err := refuse(t, r, f.ref("app:1"), []Credential{login("pull", password)}, TransportOptions{}, Unreachable)
	contains(t, err.Error(), f.host+" would be reached over plain HTTP, which is not allowed unless images.insecure is set")
	if got := f.taken(); len(got) > 0 {
		t.Errorf("requests over plain HTTP: %v", got)
	}
}

func TestTokenServers(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(serveToken))
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.HandlerFunc(serveToken))
	t.Cleanup(secure.Close)
	// The library refuses other hosts that are private addresses; a name will do.
	named := func(s *httptest.Server) string {
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		return u.Scheme + "://localhost:" + u.Port() + "/token"
	}
	for name, tt := range map[string]struct {
		realm func(*faultyRegistry) string
		tls   bool // the registry's own protocol
		want  string
	}{
		"same host":                               {func(f *faultyRegistry) string { return f.URL + "/token" }, false, ""},
		"same host, both HTTPS":                   {func(f *faultyRegistry) string { return f.URL + "/token" }, true, ""},
		"another host, HTTPS":                     {func(*faultyRegistry) string { return named(secure) }, false, ""},
		"another host, plain":                     {func(*faultyRegistry) string { return named(plain) }, false, "allowed for the registry's own host only"},
		"another host, plain, for HTTPS registry": {func(*faultyRegistry) string { return named(plain) }, true, `realm scheme "http" not allowed`},
		"metadata service":                        {func(*faultyRegistry) string { return "http://169.254.169.254/token" }, false, "169.254.169.254"},
		"metadata service by name":                {func(*faultyRegistry) string { return "https://metadata.google.internal/token" }, true, "metadata.google.internal is a link-local address or a cloud's metadata service"},
	} {
		t.Run(name, func(t *testing.T) {
			start := newRegistry
			if tt.tls {
				start = newTLSRegistry
			}
			f := start(t)
			want := f.pushRandom("app:1")
			f.breakWith(bearer(tt.realm(f)))
			r, _ := newTestResolver()
			if tt.want != "" {
				contains(t, refuse(t, r, f.ref("app:1"), []Credential{login("pull", password)}, insecure, Unreachable).Error(), tt.want)
				return
			}
			if got := resolve(t, r, f.ref("app:1"), []Credential{login("pull", password)}, insecure); got.Digest != want {
				t.Errorf("digest %s, want %s", got.Digest, want)
			}
		})
	}
}

// elsewhere is another HTTPS host, named localhost, that tells what came.
func elsewhere(t *testing.T, handler http.HandlerFunc) (base string, headers chan http.Header) {
	t.Helper()
	headers = make(chan http.Header, 10)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header.Clone()
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return "https://localhost:" + port, headers
}

func TestCredentialsDoNotFollowRedirects(t *testing.T) {
	for name, auth := range map[string]func(*faultyRegistry) http.HandlerFunc{
		"basic":  func(*faultyRegistry) http.HandlerFunc { return basic },
		"bearer": func(f *faultyRegistry) http.HandlerFunc { return bearer(f.URL + "/token") },
	} {
		t.Run(name, func(t *testing.T) {
			base, headers := elsewhere(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Docker-Content-Digest", digestA)
				w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				w.Header().Set("Content-Length", "2")
			})
			f := newRegistry(t)
			demand := auth(f)
			f.breakWith(func(w http.ResponseWriter, r *http.Request) {
				a := &answered{ResponseWriter: w}
				if demand(a, r); !a.done && strings.Contains(r.URL.Path, "/manifests/") {
					http.Redirect(w, r, base+r.URL.Path, http.StatusTemporaryRedirect)
				}
			})
			r, _ := newTestResolver()
			if got := resolve(t, r, f.ref("app:1"), []Credential{login("pull", password)}, insecure); got.Digest != digestA {
				t.Errorf("digest %s", got.Digest)
			}
			if got := (<-headers).Get("Authorization"); got != "" {
				t.Errorf("the other host was sent %q", got)
			}
		})
	}
}

func TestRefreshTokenDoesNotFollowRedirects(t *testing.T) {
	base, headers := elsewhere(t, serveToken)
	f := newRegistry(t)
	f.breakWith(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			http.Redirect(w, r, base+"/token", http.StatusTemporaryRedirect)
			return
		}
		bearer(f.URL+"/token")(w, r)
	})
	r, _ := newTestResolver()
	token := newCredential("pull", authn.AuthConfig{IdentityToken: password})
	err := refuse(t, r, f.ref("app:1"), []Credential{token}, insecure, Unreachable)
	contains(t, err.Error(), "redirects a request that carries credentials to another host; refused")
	if len(headers) > 0 {
		t.Error("the other host was sent the refresh token")
	}
}

func TestSignedAddressesAreNotRepeated(t *testing.T) {
	f := newTLSRegistry(t)
	f.breakWith(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			http.Redirect(w, r, "https://10.0.0.1/token?signature="+password, http.StatusFound)
			return
		}
		bearer(f.URL+"/token")(w, r)
	})
	r, _ := newTestResolver()
	err := refuse(t, r, f.ref("app:1"), nil, TransportOptions{CAPEM: f.ca()}, Unreachable)
	contains(t, err.Error(), "refusing token-server redirect to", "10.0.0.1/token?…")
	if strings.Contains(err.Error(), password) {
		t.Errorf("the signature is in %v", err)
	}
}

func TestGuardStripsWhatTheLibraryWouldSend(t *testing.T) {
	send := func(header, before string) string {
		var got string
		guard := withCredentialGuard(roundTripper(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Get("Authorization")
			return &http.Response{Body: http.NoBody}, nil
		}))
		first := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://r.io/v2/", nil)
		first.Header.Set("Authorization", before)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://cdn.io/v2/", nil)
		r.Header.Set("Authorization", header)
		r.Response = &http.Response{Request: first}
		resp, err := guard.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return got
	}
	for name, tt := range map[string]struct{ before, header, want string }{
		"basic":                              {"Basic x", "Basic x", ""},
		"another basic":                      {"Bearer x", "Basic y", ""},
		"the registry's token":               {"Bearer x", "Bearer x", ""},
		"an anonymous token of the new host": {"Bearer x", "Bearer y", "Bearer y"},
	} {
		if got := send(tt.header, tt.before); got != tt.want {
			t.Errorf("%s: sent %q, want %q", name, got, tt.want)
		}
	}
}

func TestMetadataAddressesAreRefused(t *testing.T) {
	for _, image := range []string{
		"169.254.169.254/app:1", "169.254.1.1:5000/app:1", "100.100.100.200/app:1", "[fd00:ec2::254]:443/app:1", "[fe80::1]:443/app:1",
		"[::ffff:169.254.169.254]:443/app:1", "[64:ff9b::a9fe:a9fe]:443/app:1", "metadata.google.internal/app:1",
	} {
		t.Run(image, func(t *testing.T) {
			r, _ := newTestResolver()
			for _, o := range []TransportOptions{{}, insecure} {
				err := refuse(t, r, mustParse(t, image), nil, o, Unreachable)
				contains(t, err.Error(), "is a link-local address or a cloud's metadata service; refused")
			}
		})
	}
}

func TestRegistriesLiveOnPrivateAddresses(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "fd00:1::1", "100.64.0.1", "8.8.8.8", "2001:db8::1"} {
		if isBlocked(netip.MustParseAddr(address)) {
			t.Errorf("%s is refused", address)
		}
	}
}

// nameServer resolves every name to one address.
func nameServer(t *testing.T, address netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply, err := answer(buffer[:n], address); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	server := conn.LocalAddr().String()
	return &net.Resolver{PreferGo: true, Dial: dialAlways(server)}
}

func answer(query []byte, address netip.Addr) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response = true
	m.Additionals = nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return m.Pack()
}

func TestNamesOfMetadataAddressesAreRefused(t *testing.T) {
	r, _ := newTestResolver()
	r.names = nameServer(t, netip.MustParseAddr("169.254.169.254"))
	for _, o := range []TransportOptions{{}, insecure} {
		err := refuse(t, r, mustParse(t, "registry.example.com/app:1"), nil, o, Unreachable)
		contains(t, err.Error(), "169.254.169.254 is a link-local address")
	}
}

func TestRedirectToMetadataIsRefused(t *testing.T) {
	for _, target := range []string{"http://169.254.169.254/latest", "https://169.254.169.254/", "http://metadata.internal.example.com/"} {
		f := newRegistry(t)
		f.breakWith(manifests(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }))
		r, _ := newTestResolver()
		r.names = nameServer(t, netip.MustParseAddr("169.254.169.254"))
		contains(t, refuse(t, r, f.ref("app:1"), nil, insecure, Unreachable).Error(), "registry "+f.host+" gave no usable answer")
	}
}

func TestAnswersAreBounded(t *testing.T) {
	flood := func(w http.ResponseWriter) {
		block := []byte(strings.Repeat("x", 1<<16))
		for range 1 << 8 { // 16 MiB
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for name, tt := range map[string]struct {
		fault func(*faultyRegistry) http.HandlerFunc
		want  string
	}{
		"manifest": {func(*faultyRegistry) http.HandlerFunc {
			return manifests(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				flood(w)
			})
		}, "the answer is larger than 4194304 bytes"},
		"token": {func(f *faultyRegistry) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					flood(w)
					return
				}
				bearer(f.URL+"/token")(w, r)
			}
		}, "gave no usable answer"},
		"error": {func(*faultyRegistry) http.HandlerFunc {
			return manifests(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				w.WriteHeader(http.StatusInternalServerError)
				flood(w)
			})
		}, "gave no usable answer"},
		"headers": {func(*faultyRegistry) http.HandlerFunc {
			return manifests(func(w http.ResponseWriter, _ *http.Request) {
				for i := range 64 {
					w.Header().Set(fmt.Sprintf("X-Flood-%d", i), strings.Repeat("x", 1<<13))
				}
			})
		}, "server response headers exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistry(t)
			f.breakWith(tt.fault(f))
			r, _ := newTestResolver()
			contains(t, refuse(t, r, f.ref("app:1"), nil, insecure, Unreachable).Error(), tt.want)
		})
	}
}

func TestBodyThatJustFits(t *testing.T) {
	read := func(length, limit int64) error {
		body := &limitedBody{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", int(length)))), left: limit, limit: limit}
		got, err := io.ReadAll(body)
		if int64(len(got)) != min(length, limit) {
			t.Errorf("read %d of %d bytes", len(got), length)
		}
		return err
	}
	if err := read(1000, 1000); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	var tooLarge *bodyTooLargeError
	if err := read(1001, 1000); !errors.As(err, &tooLarge) {
		t.Errorf("beyond the limit: %v", err)
	}
}

func TestSlowRegistriesAreGivenUp(t *testing.T) {
	release := make(chan struct{})
	hang := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}
	for name, fault := range map[string]http.HandlerFunc{
		"handshake": hang,
		"manifest":  manifests(hang),
		"body that never ends": manifests(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistry(t)
			f.breakWith(fault)
			r, _ := newTestResolver()
			r.limits.request = 300 * time.Millisecond
			contains(t, refuse(t, r, f.ref("app:1"), nil, insecure, Unreachable).Error(), "no complete answer within 300ms")
		})
	}
	close(release)
}

func TestSlowDialAndTLSAreGivenUp(t *testing.T) {
	// Accepts connections and never says a word.
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	r, _ := newTestResolver()
	r.limits.tls = 100 * time.Millisecond
	err = refuse(t, r, mustParse(t, silent.Addr().String()+"/app:1"), nil, TransportOptions{}, Unreachable)
	contains(t, err.Error(), "TLS handshake timeout")
}

// dialAlways dials one address whatever it is asked for.
func dialAlways(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
}
