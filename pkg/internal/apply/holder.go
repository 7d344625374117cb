package apply

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// holder describes to whom an object belongs that is not ours.
func holder(m metav1.Object) string {
	if kind, name, ok := OwnerOf(m); ok {
		return fmt.Sprintf("the %s %s", kind.Kind, qualified(name))
	}
	if ref := metav1.GetControllerOfNoCopy(m); ref != nil {
		return fmt.Sprintf("the %s %s", ref.Kind, ref.Name)
	}
	if release := m.GetAnnotations()[releaseName]; release != "" {
		return fmt.Sprintf("the Helm release %s in namespace %s", release, m.GetAnnotations()[releaseNamespace])
	}
	if refs := m.GetOwnerReferences(); len(refs) > 0 {
		return fmt.Sprintf("the %s %s", refs[0].Kind, refs[0].Name)
	}
	if manager := lastManager(m); manager != "" {
		return fmt.Sprintf("somebody else (field manager %s)", manager)
	}
	return "somebody else"
}

func qualified(name types.NamespacedName) string {
	if name.Namespace == "" {
		return name.Name
	}
	return name.String()
}

// lastManager is the manager other than ours that changed the object itself
// (not a subresource such as its status) last.
func lastManager(m metav1.Object) string {
	var last *metav1.ManagedFieldsEntry
	entries := m.GetManagedFields()
	for i := range entries {
		entry := &entries[i]
		if entry.Manager == FieldManager || entry.Subresource == "status" {
			continue
		}
		if last == nil || last.Time.Before(entry.Time) {
			last = entry
		}
	}
	if last == nil {
		return ""
	}
	return last.Manager
}
