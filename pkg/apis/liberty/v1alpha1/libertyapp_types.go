package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// LibertyApp is an application on WebSphere Liberty. Its spec holds values of
// the ibm-websphere-liberty chart under their own keys; what is left out has
// the chart's default. The operator keeps one release of the chart for it, with
// the name of the resource.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=libertyapps,shortName=la,categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the release is as wanted and its workloads are healthy"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready or not"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.readyReplicas`,description="Pods that are ready"
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.status.replicas`,priority=1,description="Pods that are wanted"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.release.revision`,description="Revision of the release"
// +kubebuilder:printcolumn:name="Chart",type=string,JSONPath=`.status.release.chart.version`,priority=1,description="Version of the chart"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.images[0].image`,priority=1,description="First image that is followed in its registry"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the resource was created"
type LibertyApp struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec holds the values of the chart under their own keys. What is left out
	// has the chart's default.
	// +optional
	Spec LibertyAppSpec `json:"spec,omitempty"`

	// Status is what the operator reports; it is of the same type for every kind.
	// +optional
	Status releasev1alpha1.Status `json:"status,omitempty"`
}

// LibertyAppList is a list of LibertyApps.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type LibertyAppList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items of the list.
	Items []LibertyApp `json:"items"`
}
