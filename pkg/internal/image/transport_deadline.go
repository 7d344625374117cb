package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// timeoutError is a request that took longer than allowed.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("no complete answer within %s", e.limit)
}

// withDeadline bounds a request from dialling to the last byte of the body, so
// that a registry that trickles bytes cannot hold a worker.
func withDeadline(next http.RoundTripper, limit time.Duration) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), limit, &timeoutError{limit: limit})
		resp, err := next.RoundTrip(r.WithContext(ctx))
		if err != nil {
			err = timeoutOr(ctx, err)
			cancel()
			return nil, err
		}
		resp.Body = &deadlineBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel}
		return resp, nil
	})
}

// deadlineBody ends the request's context when the body is closed.
type deadlineBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelFunc
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = timeoutOr(b.ctx, err)
	}
	return n, err
}

func (b *deadlineBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// timeoutOr returns why the context ended if that was the deadline set here,
// else err.
func timeoutOr(ctx context.Context, err error) error {
	var timeout *timeoutError
	if errors.As(context.Cause(ctx), &timeout) {
		return timeout
	}
	return err
}
