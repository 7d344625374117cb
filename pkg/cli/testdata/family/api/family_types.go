package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Family is a fixture.
//
// +kubebuilder:object:root=true
type Family struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the family.
	Spec FamilySpec `json:"spec,omitempty"`
}
