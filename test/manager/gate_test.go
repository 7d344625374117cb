package manager

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// gate is an API server that holds back answers: a proxy to the real one.
type gate struct {
	url     string
	ca      []byte        // PEM
	reached chan struct{} // closed at the first request that is held
	opened  chan struct{}
	open    func()
}

// startGate starts one that holds, until it is opened, the requests whose path contains part.
func startGate(t *testing.T, part string) *gate {
	t.Helper()
	anonymous := rest.AnonymousClientConfig(clustertest.Config(t)) // the operator sends its own token
	transport := must[http.RoundTripper](t)(rest.TransportFor(anonymous))
	target := must[*url.URL](t)(url.Parse(anonymous.Host))
	g := &gate{reached: make(chan struct{}), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	reach := sync.OnceFunc(func() { close(g.reached) })
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,                         // a watch's events are to come through one by one
		ErrorLog:      log.New(io.Discard, "", 0), // of watches that end with the operator
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, part) {
			reach()
			select {
			case <-g.opened:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	g.url = server.URL // without TLS, clients would send no token
	g.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	t.Cleanup(func() {
		g.open()
		server.CloseClientConnections()
		server.Close()
	})
	return g
}
