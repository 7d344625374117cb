package v1alpha1

// Names under which the operator marks what is its own in the cluster.
const (
	// Finalizer keeps a resource until its release is removed; it is the one
	// operator-sdk uses.
	Finalizer = "helm.sdk.operatorframework.io/uninstall-release"
	// OwnerLabel stands on every applied object; its value tells the kind of the
	// resource that the release belongs to.
	OwnerLabel = "helm.sdk.operatorframework.io/owner-kind"
)
