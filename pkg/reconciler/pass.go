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

	// invalid is why nothing can be done but to remove the release; nil for
	// every resource that the CRD's schema guards.
	invalid    *invalidError
	owner      apply.Owner
	references References
	referred   []refs.Reference
	before     *releasev1alpha1.Status
	gone       bool
}

// newPass reads a resource, as far as it can be read.
func (r *Reconciler) newPass(obj *unstructured.Unstructured) *Pass {
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
	p.invalid = readStatus(obj, p.Status)
	p.before = p.Status.DeepCopy()
	p.Status.ObservedGeneration = obj.GetGeneration()
	if unreadable := r.readSpec(p); p.invalid == nil {
		p.invalid = unreadable
	}
	if obj.GetNamespace() == "" && p.invalid == nil {
		p.invalid = &invalidError{ReasonClusterScoped, clusterScoped(r.gvk)}
	}
	return p
}

// readSpec splits spec into the operator's part and the chart's values. It reads
// what can be read.
func (r *Reconciler) readSpec(p *Pass) *invalidError {
	p.Values = map[string]any{}
	if spec := p.Object.Object["spec"]; spec != nil {
		object, ok := spec.(map[string]any)
		if !ok {
			return &invalidError{ReasonInvalidSpec, "spec has to be an object"}
		}
		p.Values = runtime.DeepCopyJSON(object)
	}
	operator, ok := p.Values[r.operatorKey]
	if r.operatorKey == "" || !ok {
		return nil
	}
	delete(p.Values, r.operatorKey)
	data, err := json.Marshal(operator)
	if err == nil {
		err = json.Unmarshal(data, p.Operator)
	}
	if err != nil {
		return &invalidError{ReasonInvalidSpec, fmt.Sprintf("spec.%s is not what the operator understands: %v", r.operatorKey, err)}
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
