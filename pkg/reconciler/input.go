package reconciler

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Input is something besides chart and values that the release of a resource
// depends on, such as the digest of an image. An Input is shared by all
// resources of a kind and must be safe for concurrent use.
type Input interface {
	// Prepare takes the input up for one pass over a resource. It is called on
	// every pass, so it must not cost requests while nothing changed. It may set
	// conditions of its own in pass.Status. A *release.HoldError delays the
	// first install and lets an installed release be.
	Prepare(ctx context.Context, pass *Pass) (Prepared, error)
	// Cleanup undoes, when the resource is deleted, what the input did outside
	// the release, and forgets the resource.
	Cleanup(ctx context.Context, pass *Pass) error
	// Forget drops what is held in memory for a resource that is gone.
	Forget(key Key)
}

// Prepared is an Input during one pass; see release.Inputs for the contract of
// its methods.
type Prepared interface {
	// Digest of the input as it stands; "" when it changes nothing.
	Digest() string
	// Resolve is told of rendered objects before they are transformed.
	Resolve(ctx context.Context, objects []*unstructured.Unstructured) error
	// Transform changes one object.
	Transform(obj *unstructured.Unstructured) error
	// Recorded is called when the record says that it was made with the input.
	Recorded()
}

// prepared joins the inputs of one pass into the release manager's view.
type prepared []Prepared

// Digest of all inputs; "" when none changes anything, so that adding an input
// to the operator changes no release that does not use it.
func (p prepared) Digest() string {
	var joined string
	for i, input := range p {
		if d := input.Digest(); d != "" {
			joined += string(rune('0'+i)) + "=" + d + ";"
		}
	}
	return joined
}

func (p prepared) Resolve(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, input := range p {
		if err := input.Resolve(ctx, objects); err != nil {
			return err
		}
	}
	return nil
}

func (p prepared) Transform(obj *unstructured.Unstructured) error {
	for _, input := range p {
		if err := input.Transform(obj); err != nil {
			return err
		}
	}
	return nil
}

func (p prepared) Recorded() {
	for _, input := range p {
		input.Recorded()
	}
}
