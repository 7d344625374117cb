package image

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

var errRedirectedBody = errors.New("the registry redirects a request that carries credentials to another host; refused")

// withCredentialGuard keeps credentials from following a redirect to another
// host. The client library does not send them there either, except for the
// body of a token request, which HTTP repeats on 307 and 308.
func withCredentialGuard(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if !leftOrigin(r) {
			return next.RoundTrip(r)
		}
		if r.Body != nil && r.Body != http.NoBody {
			return nil, errRedirectedBody
		}
		if r.Header.Get("Authorization") != "" && !ownAnonymousToken(r) {
			r = r.Clone(r.Context())
			r.Header.Del("Authorization")
		}
		return next.RoundTrip(r)
	})
}

// leftOrigin reports whether redirects led the request to another origin.
func leftOrigin(r *http.Request) bool {
	return r.Response != nil && origin(firstRequest(r).URL) != origin(r.URL)
}

// ownAnonymousToken reports whether the header is a token that the other host
// itself handed out to the unauthenticated client, as registry.k8s.io's
// mirrors do: a bearer token that no earlier request of the chain carried.
func ownAnonymousToken(r *http.Request) bool {
	header := r.Header.Get("Authorization")
	if !strings.HasPrefix(header, "Bearer ") {
		return false
	}
	for hop := r; hop.Response != nil && hop.Response.Request != nil; {
		hop = hop.Response.Request
		if hop.Header.Get("Authorization") == header {
			return false
		}
	}
	return true
}

// origin is scheme, host and port; another port is another origin.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
