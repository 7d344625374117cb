package registry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/jkwong888/go-helm-operator/test/registry"
)

const (
	username = "puller"
	password = "right horse"
)

func start(t *testing.T, options registry.Options) *registry.Registry {
	t.Helper()
	r, err := registry.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func push(t *testing.T, r *registry.Registry, tag string, seed int64) string {
	t.Helper()
	digest, err := r.PushImage(t.Context(), "plants/app", tag, seed)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// head asks the registry for the digest of plants/app:tag.
func head(ctx context.Context, r *registry.Registry, tag string, options ...remote.Option) (string, error) {
	ref, err := name.NewTag(r.Host() + "/plants/app:" + tag)
	if err != nil {
		return "", err
	}
	descriptor, err := remote.Head(ref, append(options, remote.WithContext(ctx))...)
	if err != nil {
		return "", err
	}
	return descriptor.Digest.String(), nil
}

func basic(password string) remote.Option {
	return remote.WithAuth(&authn.Basic{Username: username, Password: password})
}

func TestPushedDigestIsServedAndDependsOnTheSeedAlone(t *testing.T) {
	r := start(t, registry.Options{})
	one, again, two := push(t, r, "a", 1), push(t, r, "b", 1), push(t, r, "c", 2)
	if one != again || one == two {
		t.Errorf("digests of seeds 1, 1, 2: %s, %s, %s", one, again, two)
	}
	for tag, want := range map[string]string{"a": one, "b": one, "c": two} {
		if got, err := head(t.Context(), r, tag); err != nil || got != want {
			t.Errorf("HEAD of tag %s: %s, %v; want %s", tag, got, err, want)
		}
	}
	if moved := push(t, r, "a", 3); moved == one {
		t.Error("a push with another seed left the digest as it was")
	} else if got, err := head(t.Context(), r, "a"); err != nil || got != moved {
		t.Errorf("HEAD of the moved tag: %s, %v; want %s", got, err, moved)
	}
}

func TestIndexHoldsBothArchitecturesUnderItsOwnDigest(t *testing.T) {
	r := start(t, registry.Options{})
	want, err := r.PushIndex(t.Context(), "plants/app", "v1", 1)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(r.Host() + "/plants/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	descriptor, err := remote.Get(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if descriptor.MediaType != types.OCIImageIndex || descriptor.Digest.String() != want {
		t.Errorf("served %s %s, pushed an index %s", descriptor.MediaType, descriptor.Digest, want)
	}
	index, err := descriptor.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, child := range manifest.Manifests {
		platforms = append(platforms, child.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Error(diff)
	}
}

func TestPasswordIsAskedFor(t *testing.T) {
	r := start(t, registry.Options{Username: username, Password: password})
	want := push(t, r, "v1", 1)
	for behaviour, tc := range map[string]struct {
		auth   remote.Option
		status int // 0: served
	}{
		"right password": {basic(password), 0},
		"wrong password": {basic("wrong"), http.StatusUnauthorized},
		"none":           {remote.WithAuth(authn.Anonymous), http.StatusUnauthorized},
	} {
		t.Run(behaviour, func(t *testing.T) {
			got, err := head(t.Context(), r, "v1", tc.auth)
			if tc.status == 0 {
				if err != nil || got != want {
					t.Errorf("HEAD: %s, %v; want %s", got, err, want)
				}
				return
			}
			var refusal *transport.Error
			if !errors.As(err, &refusal) || refusal.StatusCode != tc.status {
				t.Errorf("HEAD: %q, %v; want status %d", got, err, tc.status)
			}
		})
	}
}

func TestEveryRequestIsInTheAccessLog(t *testing.T) {
	r := start(t, registry.Options{Username: username, Password: password})
	digest := push(t, r, "v1", 1)
	mark, err := r.Mark()
	if err != nil {
		t.Fatal(err)
	}
	if requests, err := r.Requests(0); err != nil || len(requests) != 0 {
		t.Errorf("requests before the first: %v, %v; the push is not to be counted", requests, err)
	}
	const asks = 20
	for range asks {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+r.Host()+"/v2/plants/app/manifests/v1", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", string(types.DockerManifestSchema2))
		request.SetBasicAuth(username, password)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if got := response.Header.Get("Docker-Content-Digest"); got != digest {
			t.Fatalf("HEAD: %s, digest %q; want %s", response.Status, got, digest)
		}
	}
	if _, err := head(t.Context(), r, "v1", basic("wrong")); err == nil {
		t.Error("a wrong password was taken")
	}
	requests, err := r.Requests(mark)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, request := range requests {
		count[request.String()]++
	}
	want := map[string]int{
		`HEAD /v2/plants/app/manifests/v1 200 (user "puller")`: asks,
		`GET /v2/ 401 (user "")`:                               1, // the client asks how to authenticate
		`HEAD /v2/plants/app/manifests/v1 401 (user "puller")`: 1,
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestTLSNeedsTheRegistrysCA(t *testing.T) {
	r := start(t, registry.Options{TLS: true, Username: username, Password: password})
	want := push(t, r, "v1", 1)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(r.CA()) {
		t.Fatal("the CA is no PEM")
	}
	trusting := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(trusting.CloseIdleConnections)
	if got, err := head(t.Context(), r, "v1", basic(password), remote.WithTransport(trusting)); err != nil || got != want {
		t.Errorf("HEAD with the CA: %s, %v; want %s", got, err, want)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.Host()+"/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("GET without the CA: %v; want an unknown authority", err)
	}
	if err == nil {
		_ = response.Body.Close()
	}
}

func TestOutages(t *testing.T) {
	r := start(t, registry.Options{})
	want := push(t, r, "v1", 1)
	host := r.Host()
	// short is a context for a request that is not answered.
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := head(short(), r, "v1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("HEAD while paused: %v; want no answer in time", err)
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	if got, err := head(t.Context(), r, "v1"); err != nil || got != want {
		t.Errorf("HEAD after the pause: %s, %v; want %s", got, err, want)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := head(t.Context(), r, "v1"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("HEAD while stopped: %v; want connection refused", err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := head(t.Context(), r, "v1"); err != nil || got != want || r.Host() != host {
		t.Errorf("HEAD at %s after the outage: %s, %v; want %s at %s", r.Host(), got, err, want, host)
	}
}

func TestCloseLeavesOnlyWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, registry.Options{Dir: dir, TLS: true, Username: username, Password: password})
	push(t, r, "v1", 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{mine}, left); diff != "" {
		t.Error(diff)
	}
}
