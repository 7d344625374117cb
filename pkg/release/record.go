package release

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// manifestDigest is the digest of all that a revision brings into the cluster.
func manifestDigest(manifest string, hooks []chart.Hook) string {
	all := []any{manifest}
	for _, h := range hooks {
		all = append(all, h.Object.Object, fmt.Sprint(h.Events, h.Weight, h.DeletePolicies))
	}
	return chart.Digest(all)
}

// recordSuccess notes a revision that is in place.
func (m *Manager) recordSuccess(rel *Release, d *desired, entries []releasev1alpha1.InventoryEntry, action Action, reason string) {
	rel.Status.Release = m.record(rel, d, releasev1alpha1.StateDeployed)
	rel.Status.Release.Reason = reason
	rel.Status.Inventory = entries
	noteDeployed(rel.Status, action)
}

// recordFailure notes a revision that stopped halfway: what was applied is in
// the inventory, so that the next attempt and an uninstall know of it.
func (m *Manager) recordFailure(ctx context.Context, rel *Release, d *desired, entries []releasev1alpha1.InventoryEntry) {
	failures := int64(1)
	if r := rel.Status.Release; r != nil && r.Revision == d.payload.Revision {
		failures = r.Failures + 1
	} else {
		m.archive(rel, d.payload.Revision)
	}
	rel.Status.Release = m.record(rel, d, releasev1alpha1.StateFailed)
	rel.Status.Release.Failures = failures
	rel.Status.Inventory = entries
	if ctx.Err() != nil {
		rel.Status.Release.Failures = 0 // the operator stops: the next one goes on at once
		return
	}
	if failures == 1 {
		failed := *d.payload
		failed.Status = releasev1alpha1.StateFailed
		// The record above is what counts; this is for helm list.
		_ = m.Store.Update(ctx, &failed)
	}
	_ = m.trimHistory(ctx, rel) // tried again with the next revision
}

func (m *Manager) record(rel *Release, d *desired, state releasev1alpha1.State) *releasev1alpha1.Record {
	now := metav1.NewTime(m.Clock.Now())
	first := metav1.NewTime(d.payload.FirstDeployed)
	digests := d.digests
	digests.Payload = storage.Digest(d.payload)
	record := &releasev1alpha1.Record{
		Name: rel.Owner.ReleaseName, Revision: d.payload.Revision, State: state,
		Chart:         releasev1alpha1.ChartReference{Name: rel.Chart.Name(), Version: rel.Chart.Version()},
		Digests:       digests,
		FirstDeployed: &first, LastDeployed: &now,
		Lookups: d.lookups, Capabilities: d.capabilities,
	}
	if m.InStatus && rel.Status.Release != nil {
		record.Payload = rel.Status.Release.Payload
	}
	rel.Inputs.Recorded()
	return record
}

// archive puts the current revision into the history, once, before the next one
// becomes the current.
func (m *Manager) archive(rel *Release, next int64) {
	r, history := rel.Status.Release, rel.Status.History
	if r == nil || r.Revision == next || len(history) > 0 && history[0].Revision == r.Revision {
		return
	}
	rel.Status.History = slices.Insert(history, 0, releasev1alpha1.HistoryEntry{
		Revision: r.Revision, State: r.State, ChartVersion: r.Chart.Version, Deployed: r.LastDeployed, Reason: r.Reason,
	})
}

// held is the current revision's payload if it is in memory.
func (m *Manager) held(rel *Release) *storage.Payload {
	if r := rel.Status.Release; r != nil {
		if p, ok := m.payloads.get(rel.Owner.UID, r.Revision); ok {
			return p
		}
	}
	return nil
}

// supersede marks what was deployed before, in the history and, for helm
// history, in the store. Behind failed revisions there may be an older one. old
// is the payload of the last revision if it is at hand.
func (m *Manager) supersede(ctx context.Context, rel *Release, old *storage.Payload) error {
	for i := range rel.Status.History {
		entry := &rel.Status.History[i]
		if entry.State != releasev1alpha1.StateDeployed {
			continue
		}
		if err := m.markSuperseded(ctx, rel, entry.Revision, old); err != nil {
			return fmt.Errorf("marking revision %d of release %s as superseded: %w", entry.Revision, rel.Owner.ReleaseName, err)
		}
		entry.State = releasev1alpha1.StateSuperseded
	}
	return nil
}

func (m *Manager) markSuperseded(ctx context.Context, rel *Release, revision int64, old *storage.Payload) error {
	if old == nil || old.Revision != revision {
		stored, err := m.Store.Get(ctx, rel.Owner.ReleaseNamespace, rel.Owner.ReleaseName, revision)
		if lost(err) {
			return nil
		}
		if err != nil {
			return err
		}
		old = stored
	}
	old.Status = releasev1alpha1.StateSuperseded
	if err := m.Store.Update(ctx, old); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// trimHistory drops the oldest revisions beyond the limit, payload first, but
// not the newest one that was deployed: it is what a rollback goes back to.
func (m *Manager) trimHistory(ctx context.Context, rel *Release) error {
	limit := rel.Options.MaxHistory
	if limit <= 0 {
		limit = DefaultMaxHistory
	}
	for i := len(rel.Status.History) - 1; i >= 0 && len(rel.Status.History) >= limit; i-- {
		old := rel.Status.History[i]
		if old.State == releasev1alpha1.StateDeployed {
			continue
		}
		if err := m.Store.Delete(ctx, rel.Owner.ReleaseNamespace, rel.Owner.ReleaseName, old.Revision); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return fmt.Errorf("removing revision %d of release %s: %w", old.Revision, rel.Owner.ReleaseName, err)
		}
		rel.Status.History = slices.Delete(rel.Status.History, i, i+1)
	}
	return nil
}
