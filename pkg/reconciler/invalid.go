package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// Reasons of Irreconcilable and Ready for resources that cannot be read.
const (
	// ReasonInvalidSpec: spec is not of the shape that is documented.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonInvalidStatus: somebody wrote into the status what the operator does
	// not write. Without its record the operator would install once more.
	ReasonInvalidStatus = "InvalidStatus"
	// ReasonClusterScoped: a release needs the namespace of its resource.
	ReasonClusterScoped = "ClusterScoped"
)

// invalidError is why a resource cannot be worked on.
type invalidError struct{ reason, message string }

func (e *invalidError) Error() string { return e.message }

func clusterScoped(gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("kind %s is cluster-scoped; a release is installed into the namespace of its resource, so the CRD has to be namespaced", gvk.GroupKind())
}

// readStatus reads what the operator wrote. Of a status that is not what it
// writes it reads the fields that are.
func readStatus(obj *unstructured.Unstructured, status *releasev1alpha1.Status) *invalidError {
	written := obj.Object["status"]
	if written == nil {
		return nil
	}
	fields, ok := written.(map[string]any)
	if !ok {
		return &invalidError{ReasonInvalidStatus, "status has to be an object; remove it to let the operator begin anew"}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, status); err == nil {
		return nil
	}
	*status = releasev1alpha1.Status{}
	var bad []string
	for name, value := range fields {
		one := status.DeepCopy()
		data, err := json.Marshal(map[string]any{name: value})
		if err == nil {
			err = json.Unmarshal(data, one)
		}
		if err != nil {
			bad = append(bad, "status."+name)
			continue
		}
		*status = *one
	}
	slices.Sort(bad)
	return &invalidError{ReasonInvalidStatus, strings.Join(bad, ", ") + " is not what the operator writes; restore it, or remove it to let the operator begin anew"}
}

// statusRetry is how often a status that cannot be read is looked at again: no
// event tells that somebody mended it.
const statusRetry = DefaultMaxRetryDelay

// refuse says why the resource is not worked on. It is no error to try again:
// only a change of the resource helps.
func (r *Reconciler) refuse(ctx context.Context, p *Pass) time.Duration {
	why := p.invalid
	release.NoteInitialized(p.Status)
	before := meta.FindStatusCondition(p.Status.Conditions, release.ConditionIrreconcilable)
	if before == nil || before.Status != metav1.ConditionTrue || before.Message != cut(why.message) {
		log.FromContext(ctx).Info("Waiting for a change of the resource", "reason", why.message)
		action := release.ActionInstall
		if p.Installed() {
			action = release.ActionUpgrade
		}
		p.Events = append(p.Events, release.Event{Warning: true, Reason: why.reason, Action: action, Message: why.message})
	}
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: release.ConditionIrreconcilable, Status: metav1.ConditionTrue, Reason: why.reason, Message: cut(why.message),
		ObservedGeneration: p.Status.ObservedGeneration,
	})
	setReady(p.Status, metav1.ConditionFalse, why.reason, why.message)
	if why.reason == ReasonInvalidStatus {
		return statusRetry
	}
	return 0
}
