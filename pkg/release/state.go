package release

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
)

// State says where a release is, compared with what is wanted.
type State string

// The states of a release.
const (
	// Absent: no revision was ever recorded.
	Absent State = "Absent"
	// InSync: the record says what is wanted and the objects agree.
	InSync State = "InSync"
	// OutOfSync: chart, values or what templates read changed; render.
	OutOfSync State = "OutOfSync"
	// Transformed: only images or pull secrets changed; transform again what
	// was rendered before.
	Transformed State = "Transformed"
	// Interrupted: an action was begun and not finished.
	Interrupted State = "Interrupted"
	// Drifted: objects differ from what was applied.
	Drifted State = "Drifted"
	// Waiting: the same inputs failed a short while ago.
	Waiting State = "Waiting"
	// Uninstalling: the resource is being deleted.
	Uninstalling State = "Uninstalling"
)

// Situation is a state with its reasons.
type Situation struct {
	State State
	// Reason why the release is there, for history and events.
	Reason string
	// Drift lists the objects that drifted, in apply order.
	Drift []drifted
	// RetryAfter is how long to wait; only with Waiting.
	RetryAfter time.Duration
}

// drifted is an inventory entry whose object is not as applied.
type drifted struct {
	entry    releasev1alpha1.InventoryEntry
	observed apply.Observed
	exists   bool
	how      apply.Drift
}

// situation compares record and wishes. It costs no request but the first
// watch of a kind.
func (m *Manager) situation(ctx context.Context, rel *Release) (Situation, error) {
	record := rel.Status.Release
	if record == nil {
		return Situation{State: Absent, Reason: "the release does not exist yet"}, nil
	}
	wanted := wantedDigests(rel, record)
	state, reason := compare(record, wanted)
	if failedBefore(record) {
		if state == InSync {
			state, reason = Interrupted, "the last attempt was not finished"
		} else if record.State == releasev1alpha1.StateFailed {
			// New inputs end the wait: they may be the cure.
			record.Failures = 0
		}
		if wait := m.backoff(record); state == Interrupted && wait > 0 {
			return Situation{State: Waiting, RetryAfter: wait}, nil
		}
	}
	if state != InSync {
		return Situation{State: state, Reason: reason}, nil
	}
	if found, err := m.reclaim(ctx, rel); found || err != nil {
		return Situation{State: Interrupted, Reason: "an attempt was interrupted"}, err
	}
	drift, err := m.drift(ctx, rel)
	if err != nil {
		return Situation{State: InSync}, err
	}
	if len(drift) > 0 {
		return Situation{State: Drifted, Drift: drift, Reason: "objects were changed or removed"}, nil
	}
	return Situation{State: InSync}, nil
}

func failedBefore(record *releasev1alpha1.Record) bool {
	switch record.State {
	case releasev1alpha1.StateFailed, releasev1alpha1.StatePendingInstall, releasev1alpha1.StatePendingUpgrade:
		return true
	default:
		return false
	}
}

// wantedDigests are the digests of the inputs as they stand. What the templates
// read is taken from the record, because only rendering can tell it anew.
func wantedDigests(rel *Release, record *releasev1alpha1.Record) releasev1alpha1.Digests {
	return releasev1alpha1.Digests{
		Chart:      rel.Chart.Digest(),
		Values:     chart.Digest(rel.Values),
		Inputs:     readsDigest(rel, record.Capabilities, record.Lookups, record.Digests.Inputs),
		Transforms: rel.Inputs.Digest(),
	}
}

// compare names the first input that differs from the record.
func compare(record *releasev1alpha1.Record, wanted releasev1alpha1.Digests) (State, string) {
	have := record.Digests
	switch {
	case differ(have.Chart, wanted.Chart):
		return OutOfSync, "the chart changed"
	case differ(have.Values, wanted.Values):
		return OutOfSync, "the values changed"
	case differ(have.Inputs, wanted.Inputs):
		return OutOfSync, "what the chart reads of the cluster changed"
	case differ(have.Transforms, wanted.Transforms):
		return Transformed, "an image or pull secret changed"
	default:
		return InSync, ""
	}
}

// differ compares digests. Those of different recipes cannot be compared and
// count as equal: a new version of the operator must not roll the world.
func differ(have, wanted string) bool {
	x, _, madeX := strings.Cut(have, ":")
	y, _, madeY := strings.Cut(wanted, ":")
	return have != wanted && (!madeX || !madeY || x == y)
}

// readsDigest is the digest of what templates read besides values. While a
// reference is not known yet it answers unknown, so that a restart does not
// render.
func readsDigest(rel *Release, asked []string, lookups []releasev1alpha1.LookupReference, unknown string) string {
	versions := make([]string, 0, len(lookups))
	for _, ref := range lookups {
		version := rel.References.Version(ref)
		if version == "" {
			return unknown
		}
		versions = append(versions, version)
	}
	return chart.Digest(map[string]any{
		"capabilities": anyStrings(rel.Capabilities.Answers(asked)),
		"lookups":      anyStrings(versions),
	})
}

func anyStrings(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// drift compares the inventory with what the watches tell.
func (m *Manager) drift(ctx context.Context, rel *Release) ([]drifted, error) {
	if err := m.watch(ctx, rel); err != nil {
		return nil, err
	}
	var found []drifted
	for _, entry := range rel.Status.Inventory {
		observed, exists := m.Dependents.Get(entry)
		if how, is := rel.Owner.Drifted(entry, observed, exists); is {
			found = append(found, drifted{entry, observed, exists, how})
		}
	}
	return found, nil
}

// watch makes sure that every kind of the inventory is watched.
func (m *Manager) watch(ctx context.Context, rel *Release) error {
	return m.Dependents.Use(ctx, rel.Owner, kinds(rel.Status.Inventory))
}

func kinds(inventory []releasev1alpha1.InventoryEntry) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, e := range inventory {
		gvk := schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
		if !slices.Contains(out, gvk) {
			out = append(out, gvk)
		}
	}
	return out
}

// The wait after the n-th failure at the same inputs is 2^n seconds, at most
// maxBackoff: an error that needs a human costs at most a try each 5 minutes.
const maxBackoff = 5 * time.Minute

func (m *Manager) backoff(record *releasev1alpha1.Record) time.Duration {
	if record.Failures == 0 || record.LastDeployed == nil {
		return 0
	}
	wait := min(time.Second<<min(record.Failures, 20), maxBackoff)
	return wait - m.Clock.Since(record.LastDeployed.Time)
}
