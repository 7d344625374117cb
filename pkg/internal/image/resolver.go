package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"k8s.io/utils/clock"
)

// Bounds of what a Resolver remembers. An entry is idle when nothing polled it;
// intervals longer than that begin with a handshake each time.
const (
	maxPullers     = 1024
	maxConnections = 64
	maxRemembered  = 4096
	idlePuller     = 2 * time.Hour
	idleMemory     = 24 * time.Hour
)

// Resolution is what a registry says of an image.
type Resolution struct {
	// Digest of what the tag names: the index, where there is one, and never
	// one platform's manifest.
	Digest string
	// Credential the registry accepted.
	Credential Credential
	// Remaining requests of the quota, -1 if the registry does not tell. It is
	// set, where known, when there is an error too.
	Remaining int
}

// Resolver asks registries for digests. It keeps tokens and connections, so
// that asking again is one request. It is safe for concurrent use.
type Resolver struct {
	userAgent string
	now       func() time.Time
	limits    limits
	names     *net.Resolver

	connections *lru[connectionKey, *http.Transport]
	pullers     *lru[pullerKey, *remote.Puller]
	// accepted remembers the credential that worked last for a repository.
	accepted *lru[acceptedKey, string]
	// withoutHead remembers hosts that answer GET only. GET counts as a pull,
	// so they are asked again with HEAD after a day.
	withoutHead *lru[string, time.Time]
}

type connectionKey struct {
	ca       string
	insecure bool
}

type pullerKey struct {
	connectionKey
	repository, credential string
}

type acceptedKey struct {
	connectionKey
	repository, credentials string
}

// ResolverOptions configure a Resolver; the zero value is ready for use.
type ResolverOptions struct {
	// Version of the operator, for the User-Agent header. Default: devel.
	Version string
	// Clock for idle times and HTTP dates. Default: the system's.
	Clock clock.PassiveClock
}

// NewResolver returns a Resolver.
func NewResolver(o ResolverOptions) *Resolver {
	if o.Version == "" {
		o.Version = "devel"
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	now := o.Clock.Now
	return &Resolver{
		userAgent:   "go-helm-operator/" + o.Version,
		now:         now,
		limits:      defaultLimits,
		connections: newLRU[connectionKey, *http.Transport](maxConnections, idleMemory, now),
		pullers:     newLRU[pullerKey, *remote.Puller](maxPullers, idlePuller, now),
		accepted:    newLRU[acceptedKey, string](maxRemembered, idleMemory, now),
		withoutHead: newLRU[string, time.Time](maxRemembered, idleMemory, now),
	}
}

// Digest asks the registry which digest the image's tag has now. Credentials
// are tried in order, beginning with the one that worked last; the next one on
// 401 and 403 only. None means anonymous access. An image that is pinned has
// its digest, without asking. An error is an *Error.
func (r *Resolver) Digest(ctx context.Context, ref Ref, credentials []Credential, o TransportOptions) (Resolution, error) {
	if ref.Digest() != "" {
		return Resolution{Digest: ref.Digest(), Remaining: -1}, nil
	}
	if len(credentials) == 0 {
		credentials = []Credential{Anonymous()}
	}
	memory := acceptedKey{
		connectionKey: connectionKey{ca: o.caFingerprint(), insecure: o.Insecure},
		repository:    ref.parsed.Repository.Name(), credentials: fingerprintSet(credentials),
	}
	seen := &observation{}
	ctx = observing(ctx, seen)
	var last error
	var tried []Credential
	for _, credential := range r.acceptedFirst(memory, credentials) {
		digest, err := r.ask(ctx, ref, credential, memory.connectionKey, o, seen)
		if err == nil {
			r.accepted.put(memory, credential.Fingerprint())
			return Resolution{Digest: digest, Credential: credential, Remaining: seen.remaining}, nil
		}
		tried, last = append(tried, credential), err
		if !isDenied(err) {
			break
		}
	}
	return Resolution{Remaining: seen.remaining}, explain(ref, tried, last)
}

// acceptedFirst moves the credential that worked last to the front.
func (r *Resolver) acceptedFirst(key acceptedKey, credentials []Credential) []Credential {
	good, ok := r.accepted.get(key)
	if !ok {
		return credentials
	}
	at := slices.IndexFunc(credentials, func(c Credential) bool { return c.Fingerprint() == good })
	if at <= 0 {
		return credentials
	}
	sorted := append([]Credential{credentials[at]}, credentials[:at]...)
	return append(sorted, credentials[at+1:]...)
}

// ask uses one credential. A kept puller that is refused is replaced once, as
// the registry may have changed how it authenticates.
func (r *Resolver) ask(ctx context.Context, ref Ref, c Credential, k connectionKey, o TransportOptions, seen *observation) (string, error) {
	key := pullerKey{connectionKey: k, repository: ref.parsed.Repository.Name(), credential: c.Fingerprint()}
	for attempt := 1; ; attempt++ {
		puller, fresh, err := r.pullers.getOrAdd(key, func() (*remote.Puller, error) { return r.newPuller(ref, c, k, o) })
		if err != nil {
			return "", err
		}
		digest, err := r.manifest(ctx, puller, ref, o.Insecure, seen)
		if err == nil || isNotFound(err) || isThrottled(err) {
			return digest, err
		}
		r.pullers.remove(key)
		if fresh || attempt == 2 || !isDenied(err) {
			return "", err
		}
	}
}

func isThrottled(err error) bool {
	var throttled *ThrottledError
	return errors.As(err, &throttled)
}

func (r *Resolver) newPuller(ref Ref, c Credential, k connectionKey, o TransportOptions) (*remote.Puller, error) {
	base, _, err := r.connections.getOrAdd(k, func() (*http.Transport, error) {
		return newConnections(o, r.limits, r.names)
	})
	if err != nil {
		return nil, err
	}
	return remote.NewPuller(
		remote.WithAuth(c.authenticator()),
		remote.WithTransport(stack(base, ref.Host(), o.Insecure, r.userAgent, r.limits, r.now)),
		// The library's retries ignore Retry-After; the poller has its own.
		remote.WithRetryStatusCodes(),
		remote.WithRetryPredicate(func(error) bool { return false }),
	)
}

// manifest asks with HEAD, which is no pull for registries that count pulls,
// and with GET where the registry does not support HEAD.
func (r *Resolver) manifest(ctx context.Context, p *remote.Puller, ref Ref, insecure bool, seen *observation) (string, error) {
	tag := ref.parsed
	if insecure {
		var err error
		if tag, err = name.NewTag(ref.Name(), name.Insecure); err != nil {
			return "", err
		}
	}
	if r.usesHead(ref.Host()) {
		seen.status = 0
		descriptor, err := p.Head(ctx, tag)
		if err == nil {
			return descriptor.Digest.String(), nil
		}
		if !headUnsupported(seen) {
			return "", cmp.Or(seen.digestError(), err)
		}
	}
	return r.get(ctx, p, tag, seen)
}

func (r *Resolver) usesHead(host string) bool {
	since, ok := r.withoutHead.get(host)
	return !ok || r.now().Sub(since) > idleMemory
}

// headUnsupported reports whether the answer to HEAD says that GET may do
// better: a status for an unknown method, or missing headers.
func headUnsupported(seen *observation) bool {
	switch seen.status {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	case http.StatusOK:
		return !seen.complete
	}
	return false
}

func (r *Resolver) get(ctx context.Context, p *remote.Puller, tag name.Tag, seen *observation) (string, error) {
	descriptor, err := p.Get(ctx, tag)
	if err != nil {
		return "", err
	}
	digest, err := checkDigest(descriptor, seen)
	if err != nil {
		return "", err
	}
	if r.usesHead(tag.RegistryStr()) {
		r.withoutHead.put(tag.RegistryStr(), r.now())
	}
	return digest, nil
}

// checkDigest returns the digest of the manifest that came, after checking that
// the registry's header, if there is one, says the same.
func checkDigest(d *remote.Descriptor, seen *observation) (string, error) {
	// The library does not check the header for tags. A signed manifest of
	// schema 1 has the digest of its payload, which the library takes from it.
	if seen.digest == "" || d.MediaType == types.DockerManifestSchema1Signed {
		return d.Digest.String(), nil
	}
	if err := seen.digestError(); err != nil {
		return "", err
	}
	algorithm, _, _ := strings.Cut(seen.digest, ":")
	hasher, err := v1.Hasher(algorithm)
	if err != nil {
		return "", err
	}
	hasher.Write(d.Manifest)
	if got := fmt.Sprintf("%s:%x", algorithm, hasher.Sum(nil)); got != seen.digest {
		return "", fmt.Errorf("its Docker-Content-Digest header does not fit the manifest, which has %s", got)
	}
	return seen.digest, nil
}
