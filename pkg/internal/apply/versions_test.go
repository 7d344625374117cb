package apply_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
)

// relic is a CRD that has an old and a new version.
const relic = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: relics.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Relic, plural: relics, singular: relic}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`

// Whatever remembers the old version (the mapper, inventories, watches) has to
// find the objects in the new one.
func TestAVersionThatIsNoLongerServed(t *testing.T) {
	b := newBench(t, options{})
	crd := b.parse(relic)
	must(b.resource(crd).Create(t.Context(), crd, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { b.deleteQuietly(crd) })
	obj, other := b.relic("app"), b.relic("other")
	await(t, "the kind", func() error {
		_, err := b.client.Apply(t.Context(), other, "")
		return err
	})
	b.use(obj.GroupVersionKind())
	entry, unwanted := b.apply(obj, ""), b.apply(other, "")
	b.awaitDrift(entry, "")
	current := obj.DeepCopy()
	current.SetAPIVersion("example.com/v1")

	b.patch(crd, strings.ReplaceAll(`{"spec":{"versions":[
		{"name":"v1","served":true,"storage":true,"schema":SCHEMA},{"name":"v1beta1","served":false,"storage":false,"schema":SCHEMA}]}}`,
		"SCHEMA", `{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`))
	b.awaitNoKind(obj, "v1")

	t.Run("Check and LastManager look in the new one", func(t *testing.T) {
		b := b.in(t)
		found, err := b.client.Check(t.Context(), b.owner, obj)
		if err != nil || !found.Ours || found.UID != entry.UID {
			t.Errorf("Check = %+v, %v, want it found", found, err)
		}
		b.patch(current, `{"spec":{"more":1}}`)
		if manager, err := b.client.LastManager(t.Context(), entry); err != nil || manager != "somebody" {
			t.Errorf("LastManager = %q, %v", manager, err)
		}
	})
	t.Run("Delete deletes in the new one", func(t *testing.T) {
		b := b.in(t)
		gone, err := b.client.Delete(t.Context(), unwanted, b.owner)
		if err != nil || !gone {
			t.Errorf("Delete = %v, %v", gone, err)
		}
		if found, err := b.client.Check(t.Context(), b.owner, other); err != nil || found.Exists {
			t.Errorf("after deleting: %+v, %v", found, err)
		}
	})
	t.Run("a watch goes on in the new one", func(t *testing.T) {
		b := b.in(t)
		b.patch(current, `{"spec":{"size":2}}`)
		b.awaitDrift(entry, apply.DriftModified)
	})
	t.Run("a watch of the old one begins in the new one", func(t *testing.T) {
		b := b.in(t)
		b.cache.Release(b.owner)
		b.use(obj.GroupVersionKind())
		b.awaitDrift(entry, apply.DriftModified)
	})
	b.delete(crd)
	b.awaitNoKind(obj)
	var noKind *apply.NoKindError
	if _, err := b.client.Check(t.Context(), b.owner, obj); !errors.As(err, &noKind) || len(noKind.Served) > 0 {
		t.Errorf("Check of a kind that is gone: %v, want a NoKindError", err)
	}
}

func (b *bench) relic(name string) *unstructured.Unstructured {
	obj := b.parse("{apiVersion: example.com/v1beta1, kind: Relic, metadata: {name: " + name + "}, spec: {size: 1}}")
	b.owner.Mark(obj, true)
	return obj
}

// awaitNoKind waits until an apply is answered that the kind is served in these
// versions only.
func (b *bench) awaitNoKind(obj *unstructured.Unstructured, served ...string) {
	b.Helper()
	await(b.T, "the version to be served no longer", func() error {
		_, err := b.client.Apply(b.Context(), obj, "")
		var noKind *apply.NoKindError
		if !errors.As(err, &noKind) || !slices.Equal(noKind.Served, served) {
			return fmt.Errorf("error %w, want a NoKindError that names %v", err, served)
		}
		return nil
	})
}
