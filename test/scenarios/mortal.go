package scenarios

import (
	"context"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// mortal is a proxy to the API server that kills the operator when it sends a certain request, before that request has
// any effect: a crash between two requests, at a place of the scenario's choice.
type mortal struct {
	url    string
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
	m := &mortal{killed: make(chan error, 1)}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if changes(r) {
			switch count := m.writes.Add(1); {
			case count == int64(n):
				m.killed <- kill()
				return
			case count > int64(n):
				return // sent at the same time as the one before
			}
		}
		proxy.ServeHTTP(w, r)
	})
	m.server, m.url, err = listen(ctx, handler)
	return m, err
}

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
