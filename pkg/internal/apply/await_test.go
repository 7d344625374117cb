package apply_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
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
	t.Run("not at all where it may not", func(t *testing.T) {
		cfg, _ := restricted(t, rule("", "pods", "get"))
		err := newBench(t, options{config: cfg}).client.Await(t.Context(), entry, phase("Succeeded"))
		var forbidden *apply.ForbiddenError
		if !errors.As(err, &forbidden) || forbidden.Verb != "list" {
			t.Errorf("error %v, want that listing is forbidden", err)
		}
	})
}
