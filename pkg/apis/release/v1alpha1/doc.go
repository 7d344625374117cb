// Package v1alpha1 holds the API types that every kind run by the engine
// shares: what a user may ask of the operator around a release (OperatorSpec)
// and what the operator reports about it (Status). The types have no group or
// kind of their own; each custom resource embeds them in its spec and status.
//
// +k8s:deepcopy-gen=package
package v1alpha1
