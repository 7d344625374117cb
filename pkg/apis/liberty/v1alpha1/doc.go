// Package v1alpha1 is the API liberty.ibm.com/v1alpha1: the kind LibertyApp,
// an application on WebSphere Liberty.
//
// The spec holds the values of the ibm-websphere-liberty chart key by key and
// is generated from the chart (hack/gen_from_liberty_chart.sh); types.yaml says
// what the chart's values.yaml cannot.
//
// +k8s:deepcopy-gen=package
// +kubebuilder:object:generate=true
// +groupName=liberty.ibm.com
package v1alpha1
