package apply_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestAwait(t *testing.T) {
	b := newBench(t, options{})
	phase := func(want string) func(watch.Event) (bool, error) {
		return func(e watch.Event) (bool, error) {
			if e.Type == watch.Deleted {
				return false, errors.New("it is gone")
			}
			got, _, _ := unstructured.NestedString(e.Object.(*unstructured.Unstructured).Object, "status", "phase")
			return got == want, nil
		}
	}
	pod := b.wanted("{apiVersion: v1, kind: Pod, metadata: {name: app}, spec: {restartPolicy: Never, containers: [{name: app, image: 'example.com/app:1'}]}}")
	entry := b.apply(pod, "")
	t.Run("until the object is as wanted", func(t *testing.T) {
		if err := b.client.Await(t.Context(), entry, phase("Succeeded")); err != nil {
			t.Error(err)
		}
	})
	t.Run("no longer than the context", func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("time is up"))
		defer cancel()
		if err := b.client.Await(ctx, entry, phase("Never")); err == nil || !strings.Contains(err.Error(), "time is up") {
			t.Errorf("error %v, want the context's cause", err)
		}
	})
	t.Run("its removal while waiting and before", func(t *testing.T) {
		deleted := make(chan struct{})
		gone := func(e watch.Event) (bool, error) {
			if e.Type == watch.Added {
				go func() { b.deleteQuietly(pod); close(deleted) }()
			}
			return e.Type == watch.Deleted, nil
		}
		if err := b.client.Await(t.Context(), entry, gone); err != nil {
			t.Error(err)
		}
		<-deleted
		if err := b.client.Await(t.Context(), entry, phase("Succeeded")); err == nil || err.Error() != "it is gone" {
			t.Errorf("error %v, want the caller's", err)
		}
	})
	for verb, verbs := range map[string][]string{"list": {"get"}, "watch": {"get", "list"}} {
		t.Run("not at all where it may not "+verb, func(t *testing.T) {
			cfg, _ := restricted(t, rule("", "pods", verbs...))
			never := func(watch.Event) (bool, error) { return false, nil }
			err := newBench(t, options{config: cfg}).client.Await(t.Context(), entry, never)
			var forbidden *apply.ForbiddenError
			if !errors.As(err, &forbidden) || forbidden.Verb != verb {
				t.Errorf("error %v, want that %s is forbidden", err, verb)
			}
		})
	}
}

// A hook may run for hours, longer than an API server is sure to be there.
func TestAwaitSurvivesARestartOfTheAPIServer(t *testing.T) {
	controlPlane := clustertest.Cluster(t)
	cfg, _ := restricted(t, rule("batch", "jobs", "create", "get", "list", "patch", "watch"))
	b := newBench(t, options{config: cfg})
	job := b.wanted(`{apiVersion: batch/v1, kind: Job, metadata: {name: app}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: app, image: "example.com/app:1"}]}}}}`)
	entry := b.apply(job, "")
	looked, watched := make(chan struct{}, 100), make(chan struct{}, 100)
	complete := func(e watch.Event) (bool, error) {
		if e.Type == watch.Added {
			looked <- struct{}{}
		} else {
			watched <- struct{}{}
		}
		conditions, _, _ := unstructured.NestedSlice(e.Object.(*unstructured.Unstructured).Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == "Complete" && condition["status"] == "True"
		}), nil
	}
	result := make(chan error, 1)
	go func() { result <- b.client.Await(t.Context(), entry, complete) }()
	<-looked
	b.patch(job, `{"metadata":{"annotations":{"a":"b"}}}`)
	await(t, "the watch to begin", func() error {
		if len(watched) == 0 {
			return errors.New("no event")
		}
		return nil
	})
	if err := controlPlane.Restart(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	b.patch(job, `{"spec":{"suspend":false}}`)
	if err := <-result; err != nil {
		t.Error(err)
	}
	if len(looked) == 0 {
		t.Error("the watch did not begin anew, so the test shows nothing")
	}
}

func TestAwaitAsksAgainWhenTheAPIServerFails(t *testing.T) {
	tests := map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		final  bool
	}{
		"connection refused": {answer: func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }},
		"too many requests":  {answer: failing(http.StatusTooManyRequests)},         //nolint:bodyclose // the client that is tested closes it
		"internal error":     {answer: failing(http.StatusInternalServerError)},     //nolint:bodyclose // the client that is tested closes it
		"unavailable":        {answer: failing(http.StatusServiceUnavailable)},      //nolint:bodyclose // the client that is tested closes it
		"gateway timeout":    {answer: failing(http.StatusGatewayTimeout)},          //nolint:bodyclose // the client that is tested closes it
		"bad request":        {answer: failing(http.StatusBadRequest), final: true}, //nolint:bodyclose // the client that is tested closes it
	}
	for name, test := range tests {
		for _, watches := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, watching %v", name, watches), func(t *testing.T) {
				t.Parallel()
				cfg := rest.CopyConfig(clustertest.Config(t))
				var failures atomic.Int32
				cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						asked := strings.HasSuffix(r.URL.Path, "/configmaps") && (r.URL.Query().Get("watch") == "true") == watches
						if asked && failures.Add(1) == 1 {
							return test.answer(r)
						}
						return next.RoundTrip(r)
					})
				})
				b := newBench(t, options{config: cfg})
				obj := b.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: app}}")
				entry := b.apply(obj, "")
				// It looks at the object again after the failure.
				err := b.client.Await(t.Context(), entry, func(watch.Event) (bool, error) { return failures.Load() > 0, nil })
				var invalid *apply.InvalidError
				if test.final != errors.As(err, &invalid) || !test.final && err != nil {
					t.Errorf("error %v, want a final one: %v", err, test.final)
				}
			})
		}
	}
}

func failing(code int) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		status := apierrors.NewGenericServerResponse(code, "list", schema.GroupResource{}, "", "", 0, false).Status()
		body, err := json.Marshal(status)
		return &http.Response{
			StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		}, err
	}
}
