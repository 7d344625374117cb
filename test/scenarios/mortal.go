package scenarios

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// mortal is a proxy to the API server that kills the operator when it sends a certain request, before that request has
// any effect: a crash between two requests, at a place of the scenario's choice.
type mortal struct {
	url    string
	ca     []byte     // PEM
	at     int64      // the write that is the last
	killed chan error // told once, when the operator is dead
	writes atomic.Int64

	server *http.Server
}

// startMortal starts a proxy that calls kill at the n-th request that would change something.
func startMortal(ctx context.Context, config *rest.Config, n int, kill func() error) (*mortal, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	// The CA of the API server, but not the administrator's credentials: those of the request go through.
	transport, err := rest.TransportFor(&rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{
		CAData: config.CAData, CAFile: config.CAFile,
	}})
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	m := &mortal{at: int64(n), killed: make(chan error, 1)}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if changes(r) {
			switch count := m.writes.Add(1); {
			case count == m.at:
				m.killed <- kill()
				return
			case count > m.at:
				return // sent at the same time as the one before
			}
		}
		proxy.ServeHTTP(w, r)
	})
	return m, m.serve(ctx, handler)
}

// serve speaks TLS, without which clients send no token.
func (m *mortal) serve(ctx context.Context, handler http.Handler) error {
	address := net.IPv4(127, 0, 0, 1)
	cert, key, err := certutil.GenerateSelfSignedCertKey(address.String(), []net.IP{address}, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address.String(), "0"))
	if err != nil {
		return err
	}
	m.url, m.ca = "https://"+listener.Addr().String(), cert
	m.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0), // a client that is killed closes no connection
	}
	go func() { _ = m.server.ServeTLS(listener, "", "") }() // it ends by Close, with an error that says so
	return nil
}

// reached says whether the last write came.
func (m *mortal) reached() bool { return m.writes.Load() >= m.at }

// changes says whether a request would change what a scenario is about.
func changes(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	for _, free := range []string{"/events", "/leases", "/selfsubjectaccessreviews"} {
		if strings.Contains(r.URL.Path, free) {
			return false
		}
	}
	return true
}

func (m *mortal) close() { _ = m.server.Close() } // nothing more is sent through it
