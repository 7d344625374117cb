package image

import (
	"fmt"
	"net/http"
	"strings"
)

// plaintextError is a request that would have gone over plain HTTP.
type plaintextError struct {
	host     string
	insecure bool // plain HTTP was asked for, but not for this host
}

func (e *plaintextError) Error() string {
	if e.insecure {
		return fmt.Sprintf("%s would be reached over plain HTTP, which is allowed for the registry's own host only; it needs HTTPS", e.host)
	}
	return fmt.Sprintf("%s would be reached over plain HTTP, which is not allowed unless images.insecure is set", e.host)
}

// withPlaintextGuard refuses plain HTTP unless the user asked for it, and then
// to any but the registry's own host: token servers and redirects elsewhere
// need HTTPS. The client library alone would try plain HTTP for localhost and
// private addresses unasked.
func withPlaintextGuard(next http.RoundTripper, host string, insecure bool) http.RoundTripper {
	own, _ := splitPort(host)
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Scheme == "https" || insecure && strings.EqualFold(r.URL.Hostname(), own) {
			return next.RoundTrip(r)
		}
		return nil, &plaintextError{host: r.URL.Host, insecure: insecure}
	})
}
