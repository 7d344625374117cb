package image_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
	"github.com/jkwong888/go-helm-operator/test/registry"
)

// TestAgainstDistribution follows an image in a real registry: from a pull
// secret to a changed tag, an outage, and a password that is wrong.
func TestAgainstDistribution(t *testing.T) {
	const username, password = "puller", "right horse"
	r, err := registry.Start(t.Context(), registry.Options{Username: username, Password: password, TLS: true, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	first, err := r.PushIndex(t.Context(), "plants/app", "1.0", 1)
	if err != nil {
		t.Fatal(err)
	}
	who := image.Subscriber{Kind: "LibertyApp", Namespace: "garden", Name: "plants"}
	app := r.Host() + "/plants/app:1.0"
	told := make(chan image.Subscriber, 100)
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	poller := image.NewPoller(image.PollerOptions{Clock: clock, Notify: func(s image.Subscriber) { told <- s }})
	follow := func(pass string) {
		t.Helper()
		credentials := credentialsFor(t, app, "https://"+r.Host(), pass)
		poller.Set(who, []image.Subscription{{Image: app, Credentials: credentials, CAPEM: r.CA()}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- poller.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	await := func(digest string, reason image.Reason) image.Result {
		t.Helper()
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Fatalf("no notice of %s", reason)
		}
		got, ok := poller.Result(who, app)
		if !ok || got.Digest != digest || got.Reason != reason {
			t.Fatalf("digest %q, reason %s, error %v; want %q, %s", got.Digest, got.Reason, got.Err, digest, reason)
		}
		return got
	}
	var mark registry.Mark
	requested := func() []string {
		t.Helper()
		requests, err := r.Requests(mark)
		if err == nil {
			mark, err = r.Mark()
		}
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, request := range requests {
			lines = append(lines, fmt.Sprintf("%s %s %d", request.Method, request.Path, request.Status))
		}
		return lines
	}

	follow(password)
	if got := await(first, image.Resolved); got.Credential != "pull" {
		t.Errorf("credential %q", got.Credential)
	}
	if diff := cmp.Diff([]string{"GET /v2/ 401", "HEAD /v2/plants/app/manifests/1.0 200"}, requested()); diff != "" {
		t.Errorf("first poll: -want +got:\n%s", diff)
	}
	second, err := r.PushImage(t.Context(), "plants/app", "1.0", 2)
	if err != nil {
		t.Fatal(err)
	}
	clock.Step(6 * time.Minute)
	await(second, image.Resolved)
	if diff := cmp.Diff([]string{"HEAD /v2/plants/app/manifests/1.0 200"}, requested()); diff != "" {
		t.Errorf("second poll: -want +got:\n%s", diff)
	}

	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	poller.Poll(who)
	got := await(second, image.Unreachable)
	if !strings.Contains(got.Err.Error(), "connection refused") {
		t.Errorf("error %v", got.Err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	poller.Poll(who)
	await(second, image.Resolved)

	requested()
	follow("wrong horse")
	got = await(second, image.AuthenticationFailed)
	var known *image.Error
	if !errors.As(got.Err, &known) || !strings.Contains(got.Err.Error(), "tried in this order: secret pull, anonymous") ||
		strings.Contains(got.Err.Error(), "horse") {
		t.Errorf("error %v", got.Err)
	}
	refused := []string{"GET /v2/ 401", "HEAD /v2/plants/app/manifests/1.0 401"}
	if diff := cmp.Diff(slices.Concat(refused, refused), requested()); diff != "" { // with the password and without
		t.Errorf("wrong password: -want +got:\n%s", diff)
	}
}

// credentialsFor looks an image up in a pull secret of this password.
func credentialsFor(t *testing.T, app, host, password string) []image.Credential {
	t.Helper()
	entries, problems := image.ParseSecret("pull", corev1.SecretTypeDockerConfigJson, map[string][]byte{
		corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"username":"puller","password":%q}}}`, host, password)})
	ref, err := image.Parse(app)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return image.NewKeyring(entries...).Lookup(ref)
}
