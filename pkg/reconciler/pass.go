package reconciler

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// Key names a resource among all kinds that the operator runs.
type Key struct {
	// Kind is Kind.group.
	Kind string
	types.NamespacedName
}

// Pass is one look at one resource. Inputs read and change Status; nothing
// else may be changed.
type Pass struct {
	// Key of the resource.
	Key Key
	// Object is the resource as it was read; do not change it.
	Object *unstructured.Unstructured
	// Values for the chart: spec without the operator's key.
	Values map[string]any
	// Operator is what spec asks of the operator; never nil.
	Operator *releasev1alpha1.OperatorSpec
	// Status as it will be written at the end of the pass.
	Status *releasev1alpha1.Status
	// Events to emit after the status is written.
	Events []release.Event

	owner      apply.Owner
	references References
	referred   []refs.Reference
	before     *releasev1alpha1.Status
	gone       bool
}

// newPass reads a resource. An error means that spec or status is not of the
// shape that the operator writes or documents.
func (r *Reconciler) newPass(obj *unstructured.Unstructured) (*Pass, error) {
	p := &Pass{
		Key:        r.key(types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}),
		Object:     obj,
		Operator:   &releasev1alpha1.OperatorSpec{},
		Status:     &releasev1alpha1.Status{},
		references: r.engine.references,
		owner: apply.Owner{
			GVK: r.gvk, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
			ReleaseName: obj.GetName(), ReleaseNamespace: obj.GetNamespace(),
		},
	}
	if status, ok := obj.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, p.Status); err != nil {
			return nil, fmt.Errorf("reading the status of %s: %w", p.Key, err)
		}
	}
	p.before = p.Status.DeepCopy()
	p.Status.ObservedGeneration = obj.GetGeneration()
	return p, r.readSpec(p)
}

// readSpec splits spec into the operator's part and the chart's values.
func (r *Reconciler) readSpec(p *Pass) error {
	spec, _, err := unstructured.NestedMap(p.Object.Object, "spec") // a deep copy
	if err != nil {
		return fmt.Errorf("reading spec of %s: %w", p.Key, err)
	}
	if spec == nil {
		spec = map[string]any{}
	}
	p.Values = spec
	if r.operatorKey == "" {
		return nil
	}
	operator, ok := spec[r.operatorKey]
	delete(spec, r.operatorKey)
	if !ok {
		return nil
	}
	data, err := json.Marshal(operator)
	if err != nil {
		return fmt.Errorf("reading spec.%s of %s: %w", r.operatorKey, p.Key, err)
	}
	if err := json.Unmarshal(data, p.Operator); err != nil {
		return fmt.Errorf("reading spec.%s of %s: %w", r.operatorKey, p.Key, err)
	}
	return nil
}

// References tells the versions of objects that a resource refers to.
type References interface {
	Version(ref refs.Reference) string
	Err(ref refs.Reference) error
}

// Refer watches an object, by name, for as long as each pass over the resource
// refers to it; a change of it brings another pass. It returns the object's
// version: "" until the watch has begun (another pass follows), refs.Absent
// while there is no such object.
func (p *Pass) Refer(apiVersion, kind, name string) (string, error) {
	ref := refs.Reference{APIVersion: apiVersion, Kind: kind, Namespace: p.Key.Namespace, Name: name}
	p.referred = append(p.referred, ref)
	if err := p.references.Err(ref); err != nil {
		return "", fmt.Errorf("watching %s %s/%s: %w", kind, p.Key.Namespace, name, err)
	}
	return p.references.Version(ref), nil
}

// String is Kind.group namespace/name.
func (k Key) String() string { return k.Kind + " " + k.NamespacedName.String() }

// Deleting says whether the resource is being deleted.
func (p *Pass) Deleting() bool { return p.Object.GetDeletionTimestamp() != nil }

// Installed says whether a revision of the release was ever recorded.
func (p *Pass) Installed() bool { return p.Status.Release != nil }

// changed says whether the status has to be written.
func (p *Pass) changed() bool { return !equality.Semantic.DeepEqual(p.before, p.Status) }

func (p *Pass) options() release.Options {
	var o release.Options
	spec := p.Operator.Release
	if spec == nil {
		return o
	}
	if spec.MaxHistory != nil {
		o.MaxHistory = int(*spec.MaxHistory)
	}
	if spec.Timeout != nil {
		o.HookTimeout = spec.Timeout.Duration
	}
	if spec.DisableHooks != nil {
		o.DisableHooks = *spec.DisableHooks
	}
	return o
}
