package release

import (
	"context"
	"errors"
	"fmt"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// upgrade renders, because chart, values or what the templates read changed or
// because the last attempt was not finished.
func (m *Manager) upgrade(ctx context.Context, rel *Release, at Situation, out *Outcome) error {
	if at.State == Interrupted {
		return m.resume(ctx, rel, out)
	}
	d, err := m.render(ctx, rel, rel.Status.Release.Revision+1)
	if err != nil {
		return err
	}
	return m.roll(ctx, rel, d, at.Reason, out)
}

// retransform makes a new revision from the payload of the current one. A
// payload that is lost is made anew by rendering.
func (m *Manager) retransform(ctx context.Context, rel *Release, at Situation, out *Outcome) error {
	record := rel.Status.Release
	stored, err := m.payload(ctx, rel, record.Revision)
	if lost(err) {
		d, err := m.render(ctx, rel, record.Revision+1)
		if err != nil {
			return err
		}
		return m.roll(ctx, rel, d, at.Reason, out)
	}
	if err != nil {
		return err
	}
	d, err := m.reuse(ctx, rel, stored, record.Revision+1)
	if err != nil {
		return err
	}
	return m.roll(ctx, rel, d, at.Reason, out)
}

// roll deploys the desired state unless it is what is deployed already: then
// only the digests of the inputs are noted and no revision is made.
func (m *Manager) roll(ctx context.Context, rel *Release, d *desired, reason string, out *Outcome) error {
	record := rel.Status.Release
	if record.State == releasev1alpha1.StateDeployed && record.Digests.Manifest == d.digests.Manifest {
		payload := record.Digests.Payload
		record.Digests = d.digests
		record.Digests.Payload = payload
		record.Lookups, record.Capabilities = d.lookups, d.capabilities
		rel.Inputs.Recorded()
		return nil
	}
	if err := m.deploy(ctx, rel, d, ActionUpgrade, reason); err != nil {
		return err
	}
	out.event(ActionUpgrade, ReasonUpgradeSuccessful, fmt.Sprintf("Upgraded release %s to revision %d: %s",
		rel.Owner.ReleaseName, rel.Status.Release.Revision, reason))
	return m.watch(ctx, rel)
}

// resume finishes a revision that failed or that a restart interrupted, from
// its payload, so that nothing is drawn at random twice.
func (m *Manager) resume(ctx context.Context, rel *Release, out *Outcome) error {
	record := rel.Status.Release
	stored, err := m.payload(ctx, rel, record.Revision)
	if lost(err) {
		d, err := m.render(ctx, rel, record.Revision)
		if err != nil {
			return err
		}
		return m.finishRevision(ctx, rel, d, out)
	}
	if err != nil {
		return err
	}
	d, err := m.reuse(ctx, rel, stored, record.Revision)
	if err != nil {
		return err
	}
	return m.finishRevision(ctx, rel, d, out)
}

// finishRevision deploys d under the record's own revision.
func (m *Manager) finishRevision(ctx context.Context, rel *Release, d *desired, out *Outcome) error {
	action, reason := ActionUpgrade, ReasonUpgradeSuccessful
	if rel.Status.Release.Revision == 1 {
		action, reason = ActionInstall, ReasonInstallSuccessful
	}
	if err := m.deploy(ctx, rel, d, action, "resumed after an interruption"); err != nil {
		return err
	}
	out.event(action, reason, fmt.Sprintf("Finished revision %d of release %s", rel.Status.Release.Revision, rel.Owner.ReleaseName))
	return m.watch(ctx, rel)
}

// payload reads a stored revision, from memory if it was handled lately.
func (m *Manager) payload(ctx context.Context, rel *Release, revision int64) (*storage.Payload, error) {
	if p, ok := m.payloads.get(rel.Owner.UID, revision); ok {
		return p, nil
	}
	p, err := m.Store.Get(ctx, rel.Owner.ReleaseNamespace, rel.Owner.ReleaseName, revision)
	if err != nil {
		return nil, fmt.Errorf("reading the payload of revision %d of release %s: %w", revision, rel.Owner.ReleaseName, err)
	}
	if !mine(rel, p.Owner) {
		return nil, fmt.Errorf("reading the payload of revision %d of release %s: it belongs to %s: %w",
			revision, rel.Owner.ReleaseName, p.Owner, storage.ErrNotFound)
	}
	if r := rel.Status.Release; r != nil && r.Revision == revision && storage.Digest(p) != r.Digests.Payload {
		return nil, fmt.Errorf("reading the payload of revision %d of release %s: it is not what was stored: %w",
			revision, rel.Owner.ReleaseName, storage.ErrCorrupt)
	}
	m.payloads.put(rel.Owner.UID, p)
	return p, nil
}

func lost(err error) bool {
	return errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt)
}
