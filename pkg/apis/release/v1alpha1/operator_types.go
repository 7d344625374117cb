package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperatorSpec is what a user asks of the operator around the release. It
// stands under one reserved key of spec ("operator" unless the kind names
// another) and is taken out before the values reach the chart.
type OperatorSpec struct {
	// Suspend stops every action on the release (install, upgrade, heal) until
	// it is false again. Deleting the resource still removes the release.
	// Default: false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// Images says how the operator follows the images of the release in their
	// registries.
	// +optional
	Images *ImagesSpec `json:"images,omitempty"`

	// Release says how the operator handles the release.
	// +optional
	Release *ReleaseSpec `json:"release,omitempty"`
}

// PinMode says what a resolved image digest changes in a pod template.
// +kubebuilder:validation:Enum=Digest;Annotation;Off
type PinMode string

const (
	// PinDigest writes repository:tag@digest into the pod template.
	PinDigest PinMode = "Digest"
	// PinAnnotation leaves the image as it is and writes its digest into an
	// annotation of the pod template, which needs imagePullPolicy Always.
	PinAnnotation PinMode = "Annotation"
	// PinOff neither resolves nor polls images.
	PinOff PinMode = "Off"
)

// ImagesSpec says how images are followed in their registries.
type ImagesSpec struct {
	// Interval between two looks at the registry, at least 30s.
	// Default: the operator's --image-poll-interval, 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('30s')",message="must be a duration of at least 30s, such as 5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Pin says what a new digest changes: Digest pins repository:tag@digest in
	// the pod templates, Annotation notes the digest in an annotation, Off does
	// not look at registries at all.
	// Default: Digest.
	// +optional
	Pin *PinMode `json:"pin,omitempty"`

	// Include names further images to follow besides the app's own, as they are
	// written in the pod templates; "*" follows every image.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	Include []string `json:"include,omitempty"`

	// Insecure allows plain HTTP and unverified certificates for the
	// registries of this resource.
	// Default: false.
	// +optional
	Insecure *bool `json:"insecure,omitempty"`

	// CASecretRef names a Secret in the same namespace whose key ca.crt holds
	// certificate authorities, in PEM, to trust besides the system's.
	// +optional
	CASecretRef *LocalObjectReference `json:"caSecretRef,omitempty"`
}

// LocalObjectReference names an object in the namespace of the resource.
type LocalObjectReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ReleaseSpec says how the operator handles the release.
type ReleaseSpec struct {
	// MaxHistory is how many revisions of the release are kept.
	// Default: 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxHistory *int32 `json:"maxHistory,omitempty"`

	// Timeout for each hook of the chart.
	// Default: 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be a positive duration, such as 5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// DisableHooks skips the chart's hooks.
	// Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// PatchServiceAccount says whether the pull secret is also added to the
	// namespace's default ServiceAccount. It always reaches the pods of the
	// release.
	// Default: true.
	// +optional
	PatchServiceAccount *bool `json:"patchServiceAccount,omitempty"`
}
