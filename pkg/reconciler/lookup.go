package reconciler

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
)

// lookupItems bounds how many objects one lookup of a collection may bring into
// memory: 500 of 10 KiB are 5 MiB, in each of the passes that run at a time.
const lookupItems = 500

// lookup serves the templates' lookup function for a resource: one GET or LIST,
// of which the watches are told.
func (e *Engine) lookup(owner Key) chart.Lookup {
	return func(ctx context.Context, ref refs.Reference) (map[string]any, error) {
		before := e.references.Version(ref)
		found, err := e.read(ctx, ref)
		if err == nil {
			e.references.Read(owner, ref, before, found)
		}
		return found, err
	}
}

// read returns what does not exist as empty, as Helm does.
func (e *Engine) read(ctx context.Context, ref refs.Reference) (map[string]any, error) {
	mapping, err := e.objects.Mapping(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	var noKind *apply.NoKindError
	if errors.As(err, &noKind) {
		return map[string]any{}, nil
	}
	if err != nil {
		return nil, err
	}
	namespace, possible := refs.Namespace(ref, mapping.Scope)
	if !possible {
		return map[string]any{}, nil
	}
	resource := e.dynamic.Resource(mapping.Resource).Namespace(namespace)
	if ref.Name == "" {
		return list(ctx, resource, ref)
	}
	obj, err := resource.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return map[string]any{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	return obj.Object, nil
}

func list(ctx context.Context, resource dynamic.ResourceInterface, ref refs.Reference) (map[string]any, error) {
	found, err := resource.List(ctx, metav1.ListOptions{Limit: lookupItems})
	if apierrors.IsNotFound(err) {
		return map[string]any{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up all %s in namespace %q: %w", ref.Kind, ref.Namespace, err)
	}
	if found.GetContinue() != "" {
		return nil, fmt.Errorf("looking up all %s in namespace %q: there are more than %d; let the chart look them up by name, or in one namespace",
			ref.Kind, ref.Namespace, lookupItems)
	}
	return found.UnstructuredContent(), nil
}
