package scenarios

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// dump tells all there is to know of a scenario that failed: the resources whole, the other objects by name and status,
// the events, and the end of the operator's log.
func (r *run) dump(ctx context.Context) string {
	var out strings.Builder
	resources, err := r.resources(ctx)
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	for _, resource := range resources {
		resource.SetManagedFields(nil)
		text, err := yaml.Marshal(resource.Object)
		fmt.Fprintf(&out, "--- %s/%s %v\n%s", resource.GetKind(), resource.GetName(), err, text)
	}
	for _, kind := range []string{"ConfigMap", "Secret", "Service", "ServiceAccount", "Role", "Ingress", "Deployment", "StatefulSet", "Job", "HorizontalPodAutoscaler", "Pod"} {
		items, err := r.objects.list(ctx, kind, "", r.vars.Namespace)
		if err != nil {
			fmt.Fprintln(&out, err)
		}
		for _, item := range items {
			fmt.Fprintf(&out, "%s/%s uid %s version %s generation %d deleted %v %s\n", item.GetKind(), item.GetName(), item.GetUID(),
				item.GetResourceVersion(), item.GetGeneration(), item.GetDeletionTimestamp(), status(&item))
		}
	}
	out.WriteString("--- events\n")
	events, err := r.objects.list(ctx, "Event.events.k8s.io", "", r.vars.Namespace)
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	for _, event := range events {
		fmt.Fprintf(&out, "%v %v %v/%v: %v\n", event.Object["eventTime"], event.Object["reason"],
			field(event.Object, "regarding.kind"), field(event.Object, "regarding.name"), event.Object["note"])
	}
	fmt.Fprintf(&out, "--- %s\n%s", r.operator.log(), tail(r.operator.log()))
	return out.String()
}

func status(obj *unstructured.Unstructured) string {
	if !slices.Contains([]string{"Deployment", "StatefulSet", "Job", "Pod"}, obj.GetKind()) {
		return ""
	}
	return show(field(obj.Object, "status.conditions"))
}

// tail is the end of a log.
func tail(path string) string {
	const most = 80
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(content), "\n")
	return strings.Join(all[max(0, len(all)-most):], "\n")
}
