package image

import (
	"context"
	"errors"
	"net/http"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// observation is what a poll wants to know of the answers, beyond what the
// client library tells.
type observation struct {
	status    int    // of the last manifest request
	digest    string // Docker-Content-Digest of the last manifest request
	complete  bool   // the answer to HEAD has all headers that are needed
	remaining int    // quota left, -1 if unknown
}

type observationKey struct{}

func observing(ctx context.Context, o *observation) context.Context {
	o.remaining = -1
	return context.WithValue(ctx, observationKey{}, o)
}

// withObservation notes headers of manifest requests in the observation that
// the request's context carries. After a redirect, the last answer counts.
func withObservation(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if o, ok := r.Context().Value(observationKey{}).(*observation); ok && isManifest(r) {
			o.note(resp)
		}
		return resp, nil
	})
}

// digestError says that the registry's header is not a digest; nil if it is, or
// if there was none.
func (o *observation) digestError() error {
	if o.status != http.StatusOK || o.digest == "" {
		return nil
	}
	if _, err := v1.NewHash(o.digest); err != nil {
		// The library's error would repeat what the registry wrote.
		return errors.New("its Docker-Content-Digest header is not a digest")
	}
	return nil
}

func (o *observation) note(resp *http.Response) {
	o.status = resp.StatusCode
	o.digest = resp.Header.Get("Docker-Content-Digest")
	o.complete = o.digest != "" && resp.Header.Get("Content-Type") != "" && resp.ContentLength >= 0
	if left, ok := quotaLeft(resp.Header); ok {
		o.remaining = left
	}
}
