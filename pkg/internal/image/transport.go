package image

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// TransportOptions say how a registry is reached. The zero value is HTTPS with
// the system's certificate authorities.
type TransportOptions struct {
	// Insecure allows plain HTTP to the registry and unverified certificates.
	Insecure bool
	// CAPEM holds certificate authorities to trust besides the system's.
	CAPEM []byte
}

// caFingerprint identifies CAPEM; empty for none.
func (o TransportOptions) caFingerprint() string {
	if len(o.CAPEM) == 0 {
		return ""
	}
	sum := sha256.Sum256(o.CAPEM)
	return hex.EncodeToString(sum[:16])
}

// limits bound what one request may take.
type limits struct {
	dial, tls, request time.Duration
	manifest, other    int64 // bytes of a response's body
}

var defaultLimits = limits{
	dial:     5 * time.Second,
	tls:      5 * time.Second,
	request:  15 * time.Second,
	manifest: 4 << 20, // what registries accept as a manifest at most
	other:    1 << 20,
}

// maxHeader bounds the headers of one response, in bytes.
const maxHeader = 256 << 10

// idleConnection is longer than a poll's burst of requests and shorter than the
// idle timeouts of common load balancers; polls minutes apart dial again.
const idleConnection = 30 * time.Second

// roundTripper lets a function be an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newConnections returns the pool of connections, the lowest of the stack. One
// is shared by all that have the same options. names is nil but in tests.
func newConnections(o TransportOptions, l limits, names *net.Resolver) (*http.Transport, error) {
	roots, err := certificatePool(o.CAPEM)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: l.dial, Resolver: names, ControlContext: refuseBlockedAddress}
	return &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            roots,
			InsecureSkipVerify: o.Insecure, // only where the user asked for it
		},
		TLSHandshakeTimeout:    l.tls,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        idleConnection,
		ForceAttemptHTTP2:      true,
	}, nil
}

// certificatePool adds certificates to the system's; nil means the system's.
func certificatePool(pem []byte) (*x509.CertPool, error) {
	if len(pem) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // an image FROM scratch may have none
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errNoCertificate
	}
	return pool, nil
}

var errNoCertificate = errors.New("the certificate authority given holds no certificate in PEM; put one under the key ca.crt of its Secret")

// stack puts the guards for one registry on a pool of connections. Each sees
// every request: the handshake, the token's and those of redirects.
func stack(base http.RoundTripper, host string, insecure bool, userAgent string, l limits, now func() time.Time) http.RoundTripper {
	t := withUserAgent(base, userAgent)
	t = withBodyLimit(t, l)
	t = withObservation(t)
	t = withThrottling(t, now)
	t = withAddressGuard(t)
	t = withPlaintextGuard(t, host, insecure)
	t = withCredentialGuard(t)
	return withDeadline(t, l.request)
}

// firstRequest returns the request that a chain of redirects began with; the
// HTTP client links them through Response.
func firstRequest(r *http.Request) *http.Request {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return r
}

// isManifest reports whether a request, before redirects, asks for a manifest.
func isManifest(r *http.Request) bool {
	return strings.Contains(firstRequest(r).URL.Path, "/manifests/")
}
