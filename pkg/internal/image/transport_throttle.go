package image

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter caps what a registry may ask for: Docker Hub's window, the
// longest known.
const maxRetryAfter = 6 * time.Hour

// ThrottledError is a registry that asks for fewer requests.
type ThrottledError struct {
	// Host that throttles.
	Host string
	// RetryAfter is how long to wait, at most six hours; zero if the registry
	// did not say.
	RetryAfter time.Duration
	// Quota says that RetryAfter is the window of the account's quota and not
	// the registry's wish to this client, so other accounts may go on.
	Quota bool
}

// Error says how long the registry wants to be left alone.
func (e *ThrottledError) Error() string {
	if e.RetryAfter == 0 {
		return "registry " + e.Host + " limits the rate of requests"
	}
	return fmt.Sprintf("registry %s limits the rate of requests and asks to wait %s", e.Host, e.RetryAfter)
}

// withThrottling turns 429, and 503 that says when to come back, into a
// ThrottledError. A bare 503 is an outage.
func withThrottling(next http.RoundTripper, now func() time.Time) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		wait, told := retryAfter(resp.Header.Get("Retry-After"), now())
		switch {
		case resp.StatusCode == http.StatusTooManyRequests:
		case resp.StatusCode == http.StatusServiceUnavailable && told:
		default:
			return resp, nil
		}
		_ = resp.Body.Close() // what it would say matters less than the status
		throttled := &ThrottledError{Host: r.URL.Host, RetryAfter: wait}
		if !told {
			throttled.RetryAfter = quotaWindow(resp.Header)
			throttled.Quota = throttled.RetryAfter > 0
		}
		return nil, throttled
	})
}

// retryAfter reads a number of seconds or an HTTP date; false for neither.
func retryAfter(header string, now time.Time) (time.Duration, bool) {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return clampRetry(time.Duration(seconds) * time.Second), true
	}
	if at, err := http.ParseTime(header); err == nil {
		return clampRetry(at.Sub(now)), true
	}
	return 0, false
}

func clampRetry(d time.Duration) time.Duration {
	return min(max(d, time.Second), maxRetryAfter)
}

// quotaWindow reads Docker Hub's "ratelimit-remaining: 0;w=21600", where w is
// the window in seconds; zero if there is none.
func quotaWindow(h http.Header) time.Duration {
	for _, header := range []string{h.Get("RateLimit-Remaining"), h.Get("RateLimit-Limit")} {
		for field := range strings.SplitSeq(header, ";") {
			window, ok := strings.CutPrefix(strings.TrimSpace(field), "w=")
			if !ok {
				continue
			}
			if seconds, err := strconv.ParseUint(window, 10, 32); err == nil {
				return clampRetry(time.Duration(seconds) * time.Second)
			}
		}
	}
	return 0
}

// quotaLeft reads how many requests are left; false if the registry is silent.
func quotaLeft(h http.Header) (int, bool) {
	left, _, _ := strings.Cut(h.Get("RateLimit-Remaining"), ";")
	n, err := strconv.ParseUint(strings.TrimSpace(left), 10, 31)
	return int(n), err == nil
}
