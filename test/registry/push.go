package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// pusher is the user agent of our own requests, which Requests leaves out.
const pusher = "registry-test-pusher"

// PushImage pushes a small image to repo:tag and returns its digest, sha256:…. The same seed always makes the same image,
// so the same digest.
func (r *Registry) PushImage(ctx context.Context, repo, tag string, seed int64) (digest string, err error) {
	img, err := image(seed)
	if err != nil {
		return "", err
	}
	ref, options, err := r.target(ctx, repo, tag)
	if err != nil {
		return "", err
	}
	if err := remote.Write(ref, img, options...); err != nil {
		return "", fmt.Errorf("pushing image %s: %w", ref, err)
	}
	return digestOf(img)
}

// PushIndex pushes an index of an amd64 and an arm64 image to repo:tag and returns the digest of the index, sha256:….
// The same seed always makes the same index.
func (r *Registry) PushIndex(ctx context.Context, repo, tag string, seed int64) (digest string, err error) {
	var index v1.ImageIndex = empty.Index
	for i, architecture := range []string{"amd64", "arm64"} {
		// Far from the seeds that a test counts up.
		img, err := image(seed + int64(i+1)<<40)
		if err != nil {
			return "", err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	ref, options, err := r.target(ctx, repo, tag)
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(ref, index, options...); err != nil {
		return "", fmt.Errorf("pushing index %s: %w", ref, err)
	}
	return digestOf(index)
}

// image makes an image of one small layer.
func image(seed int64) (v1.Image, error) {
	const size, layers = 256, 1
	img, err := random.Image(size, layers, random.WithSource(rand.NewSource(seed)))
	if err != nil {
		return nil, fmt.Errorf("making an image from seed %d: %w", seed, err)
	}
	return img, nil
}

func digestOf(pushed interface{ Digest() (v1.Hash, error) }) (string, error) {
	hash, err := pushed.Digest()
	if err != nil {
		return "", fmt.Errorf("computing the digest of what was pushed: %w", err)
	}
	return hash.String(), nil
}

// target returns where to push and how.
func (r *Registry) target(ctx context.Context, repo, tag string) (name.Tag, []remote.Option, error) {
	ref, err := name.NewTag(fmt.Sprintf("%s/%s:%s", r.Host(), repo, tag), name.StrictValidation)
	if err != nil {
		return name.Tag{}, nil, fmt.Errorf("naming what to push: %w", err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(r.transport()), remote.WithUserAgent(pusher)}
	if r.options.Username != "" {
		options = append(options, remote.WithAuth(&authn.Basic{Username: r.options.Username, Password: r.options.Password}))
	}
	return ref, options, nil
}

// transport trusts the registry's certificate and nothing else.
func (r *Registry) transport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.ca)
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return transport
}
