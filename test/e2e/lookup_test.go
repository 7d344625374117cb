package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jkwong888/go-helm-operator/pkg/watches"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// TestLookupsRenderOnceForEachChange has a chart that reads its own resource and
// everything it brings. Each render would be another revision.
func TestLookupsRenderOnceForEachChange(t *testing.T) {
	namespace := clustertest.Namespace(t)
	start(t, namespace, operatorOptions{kinds: []watches.Watch{
		{Group: "example.com", Version: "v1", Kind: "Stall", Chart: chartPath(t, "curious")},
	}})
	create(t, stalls, namespace, "stall", map[string]any{})
	awaitReady(t, stalls, namespace, "stall")
	secrets := clustertest.Client(t).CoreV1().Secrets(namespace)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
	for revision, text := range []string{"", "one", "two", "three"} {
		if text != "" {
			foreign.StringData = map[string]string{"text": text}
			made, err := secrets.Update(t.Context(), foreign, metav1.UpdateOptions{})
			if apierrors.IsNotFound(err) {
				made, err = secrets.Create(t.Context(), foreign, metav1.CreateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			foreign = made
		}
		want := map[string]string{"generation": "1", "stalls": "1", "nowhere": "true", "missing": "true"}
		if text != "" {
			want["foreign"] = text
		}
		eventually(t, "what the chart read", func(ctx context.Context) error {
			found, err := clustertest.Client(t).CoreV1().ConfigMaps(namespace).Get(ctx, "stall", metav1.GetOptions{})
			if err != nil {
				return err
			}
			delete(found.Data, "drawn")
			if diff := cmp.Diff(want, found.Data); diff != "" {
				return fmt.Errorf("the chart read (-want +got): %s", diff)
			}
			status, _, err := read(ctx, resources(t, stalls, namespace), "stall")
			if err != nil {
				return err
			}
			if status.Release.Revision < int64(revision+1) {
				return fmt.Errorf("revision %d, want %d", status.Release.Revision, revision+1)
			}
			return nil
		})
		status := awaitReady(t, stalls, namespace, "stall")
		if got := status.Release.Revision; got != int64(revision+1) {
			t.Fatalf("revision %d after %d changes, want %d; the last was made because %s", got, revision, revision+1, status.Release.Reason)
		}
	}
	remove(t, stalls, namespace, "stall")
}
