package image

import (
	"fmt"
	"io"
	"net/http"
)

// bodyTooLargeError is an answer longer than is read.
type bodyTooLargeError struct{ limit int64 }

func (e *bodyTooLargeError) Error() string {
	return fmt.Sprintf("the answer is larger than %d bytes", e.limit)
}

// withBodyLimit makes reading a longer body than allowed fail. The length that
// a response declares is not trusted.
func withBodyLimit(next http.RoundTripper, l limits) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		limit := l.other
		if isManifest(r) {
			limit = l.manifest
		}
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: limit, limit: limit}
		return resp, nil
	})
}

type limitedBody struct {
	io.ReadCloser
	left, limit int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	// One byte beyond the limit tells "just fits" from "too large".
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		b.left = 0
		return n, &bodyTooLargeError{limit: b.limit}
	}
	b.left -= int64(n)
	return n, err
}
