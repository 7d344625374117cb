package image

import "net/http"

// withUserAgent names the operator to the registry, whose administrators then
// know whom to ask. It replaces the client library's own name.
func withUserAgent(next http.RoundTripper, userAgent string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("User-Agent", userAgent)
		return next.RoundTrip(r)
	})
}
