package libertyapp

import (
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// templatePaths are where objects keep a pod template: the workload kinds and
// those that follow them, CronJob, and PodTemplate.
var templatePaths = [][]string{
	{"spec", "template"},
	{"spec", "jobTemplate", "spec", "template"},
	{"template"},
}

// podTemplate returns the pod template of an object, to be changed in place: a
// map with metadata and spec. A Pod is its own. nil means that it has none.
func podTemplate(obj *unstructured.Unstructured) map[string]any {
	if obj.GetKind() == "Pod" && obj.GetAPIVersion() == "v1" {
		return obj.Object
	}
	for _, path := range templatePaths {
		found, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
		template, ok := found.(map[string]any)
		if !ok {
			continue
		}
		// Other kinds have templates of other things.
		if _, ok := podSpec(template)["containers"].([]any); ok {
			return template
		}
	}
	return nil
}

// podSpec returns the spec of a pod template; nil if it has none.
func podSpec(template map[string]any) map[string]any {
	spec, _ := template["spec"].(map[string]any)
	return spec
}

// containers yields the containers and init containers of a pod template that
// name an image, to be changed in place.
func containers(template map[string]any) iter.Seq2[map[string]any, string] {
	return func(yield func(map[string]any, string) bool) {
		for _, list := range []string{"initContainers", "containers"} {
			items, _ := podSpec(template)[list].([]any)
			for _, item := range items {
				container, _ := item.(map[string]any)
				image, _ := container["image"].(string)
				if image != "" && !yield(container, image) {
					return
				}
			}
		}
	}
}

// isJob says whether the object is a Job, whose template cannot change.
func isJob(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Job" && obj.GroupVersionKind().Group == "batch"
}
