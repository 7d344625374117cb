package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Reason is the outcome of looking for an image's digest, fit for a condition.
type Reason string

// The reasons.
const (
	// Resolved means that the digest is known.
	Resolved Reason = "Resolved"
	// TagNotFound means that the registry has no such repository or tag.
	TagNotFound Reason = "TagNotFound"
	// AuthenticationFailed means that the registry refused every credential.
	AuthenticationFailed Reason = "AuthenticationFailed"
	// Throttled means that the registry asks for fewer requests.
	Throttled Reason = "Throttled"
	// Unreachable means that no usable answer came.
	Unreachable Reason = "Unreachable"
	// InvalidReference means that the image cannot be one.
	InvalidReference Reason = "InvalidReference"
)

// Error is why an image has no digest. Its text is for the user and never holds
// credentials or an answer's body.
type Error struct {
	// Reason in one word.
	Reason Reason
	// Image as it was written.
	Image string
	// Host of the registry; empty for an InvalidReference.
	Host string
	// Tried are the credentials that were shown, in order. All but the last
	// were refused.
	Tried []Credential

	detail string // safe to show
	cause  error  // context errors and *ThrottledError only; others may hold secrets
}

// Error names the image, the registry, what happened, what was tried and, where
// the user can do something, what.
func (e *Error) Error() string {
	prefix := "image " + e.Image + ": "
	switch e.Reason {
	case InvalidReference, Throttled:
		return prefix + e.detail
	case TagNotFound:
		return prefix + fmt.Sprintf("registry %s has no such repository or tag, as far as it shows to %s", e.Host, e.Tried[len(e.Tried)-1])
	case AuthenticationFailed:
		tried := make([]string, len(e.Tried))
		for i, c := range e.Tried {
			tried[i] = c.String()
		}
		return prefix + fmt.Sprintf("registry %s refused access (%s); tried in this order: %s; check that one of them may pull the image",
			e.Host, e.detail, strings.Join(tried, ", "))
	default:
		return prefix + fmt.Sprintf("registry %s gave no usable answer: %s", e.Host, e.detail)
	}
}

// seenBy returns the error for another who asks the same with credentials of
// the same content: in their words, naming their Secrets.
func (e *Error) seenBy(image string, credentials []Credential) *Error {
	own := *e
	own.Image, own.Tried = image, make([]Credential, len(e.Tried))
	for i, tried := range e.Tried {
		own.Tried[i] = tried
		for _, c := range credentials {
			if c.Fingerprint() == tried.Fingerprint() {
				own.Tried[i] = c
				break
			}
		}
	}
	return &own
}

// Unwrap returns a context's error or the *ThrottledError behind it, or nil.
func (e *Error) Unwrap() error { return e.cause }

// ReasonOf returns the reason of an error of this package: Resolved for none,
// Unreachable for one without a reason.
func ReasonOf(err error) Reason {
	if err == nil {
		return Resolved
	}
	var known *Error
	if errors.As(err, &known) {
		return known.Reason
	}
	return Unreachable
}

func invalidReference(image string, err error) *Error {
	if len(image) > maxDetail {
		image = image[:maxDetail] + "…"
	}
	return &Error{Reason: InvalidReference, Image: fmt.Sprintf("%q", image), detail: err.Error()}
}

// explain turns what the client library returned into an Error. All tried but
// the last were refused.
func explain(ref Ref, tried []Credential, err error) *Error {
	e := &Error{Image: ref.String(), Host: ref.Host(), Tried: tried}
	var throttled *ThrottledError
	switch {
	case errors.As(err, &throttled):
		e.Reason, e.detail, e.cause = Throttled, throttled.Error(), throttled
	case isThrottlingCode(err):
		e.cause = &ThrottledError{Host: e.Host}
		e.Reason, e.detail = Throttled, e.cause.Error()
	case isDenied(err):
		e.Reason, e.detail = AuthenticationFailed, describe(err, tried)
	case isNotFound(err) && len(tried) > 1:
		// Some registries hide behind a 404 what one may not see.
		e.Reason, e.detail = AuthenticationFailed, "the credential tried last finds no such image"
	case isNotFound(err):
		e.Reason = TagNotFound
	default:
		e.Reason, e.detail, e.cause = Unreachable, describe(err, tried), contextError(err)
	}
	return e
}

func contextError(err error) error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known
		}
	}
	return nil
}

// isDenied reports whether other credentials may do better.
func isDenied(err error) bool {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return !isThrottlingCode(err)
	case http.StatusBadRequest:
		// Token servers answer so to a refresh token that is no longer good.
		return answer.Request != nil && !strings.HasPrefix(answer.Request.URL.Path, "/v2/")
	}
	return hasCode(answer, transport.UnauthorizedErrorCode, transport.DeniedErrorCode)
}

func isNotFound(err error) bool {
	var answer *transport.Error
	// A 404 to the handshake or from a token server says nothing of the image.
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound &&
		answer.Request != nil && isManifest(answer.Request)
}

func isThrottlingCode(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && hasCode(answer, transport.TooManyRequestsErrorCode)
}

func hasCode(answer *transport.Error, codes ...transport.ErrorCode) bool {
	for _, diagnostic := range answer.Errors {
		for _, code := range codes {
			if diagnostic.Code == code {
				return true
			}
		}
	}
	return false
}

// maxDetail bounds what is told of an error that came from outside, in bytes.
const maxDetail = 200

// query is the part of an address that may hold tokens.
var query = regexp.MustCompile(`\?[^\s"']+`)

// describe says what went wrong in words that hold no secret. What the registry
// wrote is not repeated but for its status and the specification's error codes.
func describe(err error, tried []Credential) string {
	var answer *transport.Error
	if errors.As(err, &answer) {
		return describeAnswer(answer)
	}
	if known := describeKnown(err); known != "" {
		return known
	}
	err = innermost(err)
	// Further lines are where the library puts what a token server wrote.
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = query.ReplaceAllString(text, "?…")
	for _, credential := range tried {
		for _, secret := range credential.secrets() {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + "…"
	}
	return text
}

// innermost is the error without the addresses that were requested, which may
// have been made by a redirect; of several attempts it is that of the first.
func innermost(err error) error {
	var request *url.Error
	for errors.As(err, &request) {
		err = request.Err
	}
	return err
}

func describeAnswer(answer *transport.Error) string {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode)))
	for _, diagnostic := range answer.Errors {
		if isErrorCode(diagnostic.Code) {
			return text + ", " + string(diagnostic.Code)
		}
	}
	return text
}

// isErrorCode reports whether the code is one of the distribution
// specification's kind, and not free text.
func isErrorCode(code transport.ErrorCode) bool {
	if code == "" || len(code) > 32 {
		return false
	}
	return !strings.ContainsFunc(string(code), func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') })
}

// describeKnown words the errors whose own text is safe and best; "" for others.
func describeKnown(err error) string {
	var (
		address     *blockedAddressError
		plaintext   *plaintextError
		tooLarge    *bodyTooLargeError
		timeout     *timeoutError
		authority   x509.UnknownAuthorityError
		certificate *tls.CertificateVerificationError
		network     *net.OpError
	)
	switch {
	case errors.As(err, &address):
		return address.Error()
	case errors.As(err, &tooLarge):
		return tooLarge.Error()
	case errors.As(err, &timeout):
		return timeout.Error()
	case errors.As(err, &authority):
		return "its certificate is signed by an authority that is not trusted; name it in images.caSecretRef"
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &network):
		return network.Error()
	// For local and private addresses the library tries plain HTTP whenever
	// HTTPS fails. Having refused that explains nothing, unless HTTP is what the
	// registry speaks or where it leads.
	case errors.As(err, &plaintext) && (errors.Is(err, http.ErrSchemeMismatch) || errors.As(innermost(err), &plaintext)):
		return plaintext.Error()
	}
	return ""
}
