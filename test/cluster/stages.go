package cluster

import (
	_ "embed"
	"strings"
)

// A Pod does what its OutcomeAnnotation says. Without one, the tag of any of its images decides: one that contains
// "broken" cannot be pulled, "not-ready" never becomes ready, "failing" fails; so a test can play a bad image without
// touching the Pod template. Everything else becomes ready.
const (
	OutcomeAnnotation = "cluster.test/outcome"

	OutcomeReady     = "ready"      // Running and Ready; Succeeded if its restartPolicy lets it end
	OutcomeNotReady  = "not-ready"  // Running, never Ready, never Succeeded; follows when the annotation changes
	OutcomePullFails = "pull-fails" // Pending, ImagePullBackOff
	OutcomeFails     = "fails"      // Failed with exit code 1; CrashLoopBackOff where the restartPolicy is Always

	// DelayAnnotation is how long after its scheduling a Pod starts, as a Go duration; at once without it.
	DelayAnnotation = "cluster.test/start-delay"
)

// storageClass is the default StorageClass, whose claims the stages bind.
const storageClass = "simulated"

//go:embed stages.yaml
var stagesTemplate string

// stages returns kwok's configuration.
func stages() string {
	const outcome = `(.metadata.annotations["` + OutcomeAnnotation + `"] // ` +
		`([.spec.initContainers[]?, .spec.containers[]] | map(.image // "") | ` +
		`if any(test(":[^/@]*broken")) then "` + OutcomePullFails + `" ` +
		`elif any(test(":[^/@]*not-ready")) then "` + OutcomeNotReady + `" ` +
		`elif any(test(":[^/@]*failing")) then "` + OutcomeFails + `" ` +
		`else "` + OutcomeReady + `" end))`
	const delay = `.metadata.annotations["` + DelayAnnotation + `"] // "0s"`
	// Double quotes inside a YAML flow mapping want single quotes around; a folded block, as in pod-run, wants none.
	return strings.NewReplacer(
		"key: OUTCOME", "key: '"+outcome+"'",
		"OUTCOME", outcome,
		"expression: DELAY", "expression: '"+delay+"'",
		"KUBELET", Version,
	).Replace(stagesTemplate)
}
