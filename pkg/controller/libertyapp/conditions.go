package libertyapp

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
	"github.com/jkwong888/go-helm-operator/pkg/release"
)

// The conditions that the inputs own.
const (
	// ConditionPullSecretReady says whether the pull secret can be used; it is
	// absent while spec names none.
	ConditionPullSecretReady = "PullSecretReady"
	// ConditionImageResolved says whether the digests of the followed images
	// are known; it is absent while images are not followed. It is no part of
	// Ready: a registry that is down harms no running app.
	ConditionImageResolved = "ImageResolved"
)

// Reasons of PullSecretReady, and of what waits for it.
const (
	// ReasonSecretReady: pods can use the pull secret.
	ReasonSecretReady = "SecretReady"
	// ReasonSecretNotFound: there is no Secret of the name.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonInvalidSecret: the Secret holds nothing that pods could use.
	ReasonInvalidSecret = "InvalidSecret"
	// ReasonForbidden: the operator may not read the Secret.
	ReasonForbidden = "Forbidden"
	// ReasonWaitingForPullSecret: the Secret is being looked for.
	ReasonWaitingForPullSecret = "WaitingForPullSecret"
	// ReasonWaitingForServiceAccount: the namespace is so new that it has no
	// default ServiceAccount yet.
	ReasonWaitingForServiceAccount = "WaitingForServiceAccount"
)

// Reasons of ImageResolved besides image.Reason, and of what waits for it.
const (
	// ReasonResolvingImages: the registry has been asked and has not answered.
	ReasonResolvingImages = "ResolvingImages"
	// ReasonInvalidCASecret: images.caSecretRef names no usable Secret.
	ReasonInvalidCASecret = "InvalidCASecret"
)

// Reasons of events.
const (
	// ReasonImageChanged: a registry gave another digest for a tag.
	ReasonImageChanged = "ImageChanged"
	// ReasonServiceAccountPatched: the pull secret was added to the default
	// ServiceAccount, or removed from it.
	ReasonServiceAccountPatched = "ServiceAccountPatched"
	// ReasonServiceAccountNotPatched: that was not possible.
	ReasonServiceAccountNotPatched = "ServiceAccountNotPatched"
)

// What events are about.
const (
	actionPullSecret release.Action = "PullSecret"
	actionResolve    release.Action = "ResolveImages"
)

// note sets a condition and says whether that is news. A message that differs
// from the one on record in nothing but numbers, such as a port or a duration,
// is none: a status must not be written for that.
func note(pass *reconciler.Pass, c metav1.Condition) bool {
	c.ObservedGeneration = pass.Status.ObservedGeneration
	before := meta.FindStatusCondition(pass.Status.Conditions, c.Type)
	news := before == nil || before.Status != c.Status || before.Reason != c.Reason ||
		withoutDigits(before.Message) != withoutDigits(c.Message)
	if !news && before.ObservedGeneration == c.ObservedGeneration {
		return false
	}
	meta.SetStatusCondition(&pass.Status.Conditions, c)
	return news
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

func emit(pass *reconciler.Pass, action release.Action, reason, message string) {
	pass.Events = append(pass.Events, release.Event{Action: action, Reason: reason, Message: message})
}

func warn(pass *reconciler.Pass, action release.Action, reason, message string) {
	pass.Events = append(pass.Events, release.Event{Warning: true, Action: action, Reason: reason, Message: message})
}
