package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WebSite is a fixture.
//
// +kubebuilder:object:root=true
type WebSite struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the site.
	Spec WebSiteSpec `json:"spec,omitempty"`
}
