package apply

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Expires says whether an object is a Job that the cluster removes some time
// after it ran (spec.ttlSecondsAfterFinished). That such a Job is gone does not
// tell that somebody deleted it, and applying it again would run it again.
func Expires(obj *unstructured.Unstructured) bool {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}) {
		return false
	}
	ttl, found, err := unstructured.NestedFieldNoCopy(obj.Object, "spec", "ttlSecondsAfterFinished")
	return found && err == nil && ttl != nil
}

// finished says whether a Job ran to its end, one way or the other.
func finished(job *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedFieldNoCopy(job.Object, "status", "conditions")
	list, _ := conditions.([]any)
	return err == nil && slices.ContainsFunc(list, func(condition any) bool {
		c, _ := condition.(map[string]any)
		ended := c["type"] == string(batchv1.JobComplete) || c["type"] == string(batchv1.JobFailed)
		return ended && c["status"] == string(corev1.ConditionTrue)
	})
}
