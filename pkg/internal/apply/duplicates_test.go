package apply_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
)

func TestAnItemThatGotAnotherKeyIsHealed(t *testing.T) {
	for name, test := range map[string]struct {
		manifest, patch string
		list            []string // of the whole object
	}{
		"the port of a Service": {
			"{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {selector: {app: app}, ports: [{name: http, port: 80}]}}",
			`{"spec":{"ports":[{"name":"http","port":81,"targetPort":80}]}}`,
			[]string{"spec", "ports"},
		},
		"the port of a container": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: app}, spec: {selector: {matchLabels: {app: app}}, template: {metadata: {labels: {app: app}},
			  spec: {containers: [{name: app, image: "example.com/app:1.0", ports: [{name: http, containerPort: 80}]}]}}}}`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/app:1.0","ports":[{"name":"http","containerPort":81}]}]}}}}`,
			[]string{"spec", "template", "spec", "containers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, options{})
			obj, entry := b.install(test.manifest)
			want := b.get(obj)
			b.patch(obj, test.patch)
			b.awaitDrift(entry, apply.DriftModified)
			healed := b.apply(obj, entry.UID)
			got := b.get(obj)
			if diff := cmp.Diff(slice(t, want, test.list), slice(t, got, test.list)); diff != "" {
				t.Errorf("the list differs (-want +got):\n%s", diff)
			}
			if healed.Managed != entry.Managed {
				t.Errorf("our fields have digest %s, want %s", healed.Managed, entry.Managed)
			}
			b.awaitDrift(entry, "")
		})
	}
}

func slice(t *testing.T, obj *unstructured.Unstructured, fields []string) []any {
	t.Helper()
	out, found, err := unstructured.NestedSlice(obj.Object, fields...)
	if !found || err != nil {
		t.Fatalf("no %v in %s: %v", fields, obj.GetName(), err)
	}
	return out
}

func TestAChartThatNamesTwoItemsAlikeIsTold(t *testing.T) {
	b := newBench(t, options{})
	_, err := b.client.Apply(t.Context(), b.wanted(
		"{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {selector: {app: app}, ports: [{name: http, port: 80}, {name: http, port: 81}]}}"), "")
	var invalid *apply.InvalidError
	if !errors.As(err, &invalid) {
		t.Errorf("error %v, want an InvalidError", err)
	}
}
