package chart

import (
	"fmt"
	"strconv"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Hook is an object that the chart installs at an event of the release.
type Hook struct {
	// Name of the object.
	Name string
	// Kind of the object.
	Kind string
	// Path of its template.
	Path string
	// Object itself.
	Object *unstructured.Unstructured
	// Events at which it runs; the event test included.
	Events []HookEvent
	// Weight orders the hooks of an event, lowest first.
	Weight int
	// DeletePolicies say when it is removed; empty means before the next run.
	DeletePolicies []HookDeletePolicy
}

// HookEvent is an event of a release, such as pre-install.
type HookEvent = release.HookEvent

// The events at which the operator runs hooks. Charts may name more.
const (
	HookPreInstall  = release.HookPreInstall
	HookPostInstall = release.HookPostInstall
	HookPreUpgrade  = release.HookPreUpgrade
	HookPostUpgrade = release.HookPostUpgrade
	HookPreDelete   = release.HookPreDelete
	HookPostDelete  = release.HookPostDelete
)

// HookDeletePolicy says when a hook's object is removed.
type HookDeletePolicy = release.HookDeletePolicy

// The policies for the deletion of hooks.
const (
	HookSucceeded          = release.HookSucceeded
	HookFailed             = release.HookFailed
	HookBeforeHookCreation = release.HookBeforeHookCreation
)

// hookEvents are the events that Helm knows, by the words in the annotation.
var hookEvents = map[string]HookEvent{
	"pre-install":   release.HookPreInstall,
	"post-install":  release.HookPostInstall,
	"pre-delete":    release.HookPreDelete,
	"post-delete":   release.HookPostDelete,
	"pre-upgrade":   release.HookPreUpgrade,
	"post-upgrade":  release.HookPostUpgrade,
	"pre-rollback":  release.HookPreRollback,
	"post-rollback": release.HookPostRollback,
	"test":          release.HookTest,
	"test-success":  release.HookTest, // Helm 2
}

// addHook reads the annotations of a hook. Like Helm, it leaves out a hook with
// an unknown event (crd-install of Helm 2), and takes a weight that is no
// number for 0.
func (r *Rendered) addHook(d document) {
	h := Hook{Name: d.object.GetName(), Kind: d.object.GetKind(), Path: d.file, Object: d.object}
	for _, word := range words(d.hook) {
		event, known := hookEvents[word]
		if !known {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %s is skipped, as %q is no hook that Helm knows", d.file, KeyOf(d.object), word))
			return
		}
		h.Events = append(h.Events, event)
	}
	if weight, err := strconv.Atoi(d.annotations[release.HookWeightAnnotation]); err == nil {
		h.Weight = weight
	}
	for _, word := range words(d.annotations[release.HookDeleteAnnotation]) {
		h.DeletePolicies = append(h.DeletePolicies, HookDeletePolicy(word))
	}
	r.Hooks = append(r.Hooks, h)
}

// words of a list in an annotation.
func words(list string) []string {
	var out []string
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.ToLower(strings.TrimSpace(word)); word != "" {
			out = append(out, word)
		}
	}
	return out
}
