package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// Uninstall removes the release. It needs the record and, for delete hooks, the
// payload: neither chart nor values nor a registry. It does not wait: until
// Outcome.Done it is called again whenever one of the objects goes.
func (m *Manager) Uninstall(ctx context.Context, rel *Release) (Outcome, error) {
	var out Outcome
	ctx = withRelease(ctx, rel)
	at := Situation{State: Uninstalling}
	done, err := m.uninstall(ctx, rel, &out)
	if err != nil {
		return out, noteFailure(rel.Status, at, err, &out)
	}
	noteHealthy(rel.Status)
	out.Done = done
	if done {
		out.event(ActionUninstall, ReasonUninstallSuccessful, "Removed release "+rel.Owner.ReleaseName)
	}
	return out, nil
}

func (m *Manager) uninstall(ctx context.Context, rel *Release, out *Outcome) (bool, error) {
	payload, err := m.lastPayload(ctx, rel)
	if err != nil && !lost(err) {
		return false, err
	}
	var hooks []chart.Hook
	if payload != nil {
		hooks = payload.Hooks
	}
	if rel.Status.Release == nil || rel.Status.Release.State != releasev1alpha1.StateUninstalling {
		if err := m.beginUninstall(ctx, rel, payload, hooks, out); err != nil {
			return false, err
		}
	}
	left, err := m.deleteAll(ctx, rel, rel.Status.Inventory)
	rel.Status.Inventory = left
	if err != nil {
		return false, err
	}
	for _, entry := range left {
		out.Waiting = append(out.Waiting, describe(entry))
	}
	if len(left) > 0 {
		return false, nil
	}
	if err := m.runDeleteHooks(ctx, rel, hooks, chart.HookPostDelete, out); err != nil {
		return false, err
	}
	return true, m.dropPayloads(ctx, rel, payload)
}

// beginUninstall runs the hooks before the first object goes, and records that
// the release is being removed and all that it may consist of.
func (m *Manager) beginUninstall(ctx context.Context, rel *Release, payload *storage.Payload, hooks []chart.Hook, out *Outcome) error {
	entries := rel.Status.Inventory
	switch {
	case payload != nil:
		named, err := namedBy(payload)
		if err != nil {
			return err
		}
		entries = withLeftovers(entries, named)
	case rel.Status.Release != nil:
		out.warn(ActionUninstall, ReasonPayloadLost, "The stored payload is gone; removing the objects of the inventory without running hooks")
	}
	if err := m.runDeleteHooks(ctx, rel, hooks, chart.HookPreDelete, out); err != nil {
		return err
	}
	// A kind that may not be watched is looked at by asking again.
	_ = m.watch(ctx, rel)
	noteUninstalling(rel, payload)
	rel.Status.Inventory = entries
	return nil
}

// runDeleteHooks runs hooks unless the whole namespace is going: nothing can be
// created there any more.
func (m *Manager) runDeleteHooks(ctx context.Context, rel *Release, hooks []chart.Hook, event chart.HookEvent, out *Outcome) error {
	err := m.runHooks(ctx, rel, hooks, event)
	if namespaceTerminating(err, rel.Owner.ReleaseNamespace) {
		out.warn(ActionUninstall, ReasonHookSkipped, fmt.Sprintf("The namespace is being deleted; skipping the %s hooks", event))
		return nil
	}
	return err
}

// lastPayload is the newest payload there may be: one revision further than the
// record if a crash left it; without a record, the newest that is stored.
func (m *Manager) lastPayload(ctx context.Context, rel *Release) (*storage.Payload, error) {
	r := rel.Status.Release
	if r == nil {
		stored, err := m.Store.Revisions(ctx, rel.Owner.ReleaseNamespace, rel.Owner.ReleaseName)
		if err != nil || len(stored) == 0 {
			return nil, cmp.Or(err, storage.ErrNotFound)
		}
		return m.payload(ctx, rel, stored[len(stored)-1])
	}
	next, err := m.payload(ctx, rel, r.Revision+1)
	if !lost(err) {
		return next, err
	}
	return m.payload(ctx, rel, r.Revision)
}

// withLeftovers adds the objects of a payload that the inventory does not know:
// a crash may have applied them before the record was written.
func withLeftovers(entries, named []releasev1alpha1.InventoryEntry) []releasev1alpha1.InventoryEntry {
	out := slices.Clone(entries)
	known := inventoryByKey(entries)
	for _, entry := range named {
		if _, ok := known[apply.EntryKey(entry)]; !ok {
			out = append(out, entry)
		}
	}
	return out
}

// namedBy are the objects of a payload as inventory entries, of which nothing is
// known but their identity.
func namedBy(payload *storage.Payload) ([]releasev1alpha1.InventoryEntry, error) {
	objects, err := storage.DecodeManifest(payload.Manifest)
	if err != nil {
		return nil, fmt.Errorf("reading the payload of revision %d: %w", payload.Revision, err)
	}
	out := make([]releasev1alpha1.InventoryEntry, len(objects))
	for i, obj := range objects {
		out[i] = apply.Entry(obj)
	}
	return out, nil
}

// noteUninstalling records that the delete hooks ran. Of a release that a crash
// kept from being recorded only the payload knows.
func noteUninstalling(rel *Release, payload *storage.Payload) {
	if rel.Status.Release == nil && payload != nil {
		rel.Status.Release = &releasev1alpha1.Record{Name: payload.Name, Revision: payload.Revision}
	}
	if rel.Status.Release != nil {
		rel.Status.Release.State = releasev1alpha1.StateUninstalling
	}
}

// deleteAll deletes in reverse order and returns what is not gone yet, in the
// order of application. Kept objects stay, and are forgotten.
func (m *Manager) deleteAll(ctx context.Context, rel *Release, entries []releasev1alpha1.InventoryEntry) ([]releasev1alpha1.InventoryEntry, error) {
	var left []releasev1alpha1.InventoryEntry
	var errs []error
	for _, entry := range slices.Backward(entries) {
		if entry.Keep {
			continue
		}
		observed, exists := m.Dependents.Get(entry)
		if exists && rel.Owner.Holds(observed) {
			entry.UID = observed.UID // it may have been recreated
		}
		if exists && observed.Deleting {
			left = append(left, entry)
			continue
		}
		gone, err := m.Objects.Delete(ctx, entry, rel.Owner)
		var noKind *apply.NoKindError
		switch {
		case errors.As(err, &noKind): // the kind went, and its objects with it
		case err != nil:
			errs = append(errs, err)
			left = append(left, entry)
		case !gone:
			left = append(left, entry)
		}
	}
	slices.Reverse(left)
	return left, errors.Join(errs...)
}

// dropPayloads removes every stored revision that is known to be ours: those of
// the record and the one that was found.
func (m *Manager) dropPayloads(ctx context.Context, rel *Release, found *storage.Payload) error {
	m.Forget(rel.Owner)
	revisions := map[int64]bool{}
	if found != nil {
		revisions[found.Revision] = true
	}
	if r := rel.Status.Release; r != nil {
		revisions[r.Revision] = true
	}
	for _, h := range rel.Status.History {
		revisions[h.Revision] = true
	}
	for _, revision := range slices.Sorted(maps.Keys(revisions)) {
		err := m.Store.Delete(ctx, rel.Owner.ReleaseNamespace, rel.Owner.ReleaseName, revision)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return fmt.Errorf("removing revision %d of release %s: %w", revision, rel.Owner.ReleaseName, err)
		}
	}
	return nil
}

// Forget drops what is held in memory for the release of a resource that is
// gone.
func (m *Manager) Forget(owner apply.Owner) {
	m.payloads.forget(owner.UID)
	m.Dependents.Release(owner)
}
