package release

import (
	"context"
	"errors"
	"fmt"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// upgrade renders, because chart, values or what the templates read changed.
func (m *Manager) upgrade(ctx context.Context, rel *Release, at Situation, out *Outcome) error {
	record := rel.Status.Release
	d, err := m.render(ctx, rel, record.Revision+1)
	if err != nil {
		return err
	}
	if record.Digests.Chart == "" { // reclaimed: what is stored may be just this
		stored, err := m.payload(ctx, rel, record.Revision)
		if err == nil && stored.InputsDigest == d.payload.InputsDigest {
			d, err = m.reuse(ctx, rel, stored, record.Revision+1, d)
		}
		if err != nil && !lost(err) {
			return err
		}
	}
	return m.roll(ctx, rel, d, at.Reason, out)
}

// retransform makes a new revision from the payload of the current one. A
// payload that is lost is made anew by rendering.
func (m *Manager) retransform(ctx context.Context, rel *Release, at Situation, out *Outcome) error {
	d, err := m.storedOrRendered(ctx, rel, rel.Status.Release.Revision+1)
	if err != nil {
		return err
	}
	return m.roll(ctx, rel, d, at.Reason, out)
}

// resume finishes a revision that failed or was interrupted, from its payload,
// so that nothing is drawn at random twice.
func (m *Manager) resume(ctx context.Context, rel *Release, out *Outcome) error {
	d, err := m.storedOrRendered(ctx, rel, rel.Status.Release.Revision)
	if err != nil {
		return err
	}
	return m.apply(ctx, rel, d, "finished after an interruption", out)
}

// storedOrRendered is the current revision's payload as it is wanted now, under
// the given number.
func (m *Manager) storedOrRendered(ctx context.Context, rel *Release, revision int64) (*desired, error) {
	stored, err := m.payload(ctx, rel, rel.Status.Release.Revision)
	if lost(err) {
		return m.render(ctx, rel, revision)
	}
	if err != nil {
		return nil, err
	}
	return m.reuse(ctx, rel, stored, revision, nil)
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
	if err := m.absorbUnfinished(ctx, rel); err != nil {
		return err
	}
	return m.apply(ctx, rel, d, reason, out)
}

// apply deploys the desired state and tells of it.
func (m *Manager) apply(ctx context.Context, rel *Release, d *desired, reason string, out *Outcome) error {
	action := ActionUpgrade
	if neverDeployed(rel.Status) {
		action = ActionInstall
	}
	if err := m.deploy(ctx, rel, d, action, reason); err != nil {
		return err
	}
	r := rel.Status.Release
	if action == ActionInstall {
		out.event(action, ReasonInstallSuccessful, fmt.Sprintf("Installed release %s with chart %s-%s: %d objects",
			r.Name, r.Chart.Name, r.Chart.Version, len(rel.Status.Inventory)))
	} else {
		out.event(action, ReasonUpgradeSuccessful, fmt.Sprintf("Upgraded release %s to revision %d: %s", r.Name, r.Revision, reason))
	}
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
	if r := rel.Status.Release; r != nil && r.Revision == revision && r.Digests.Payload != "" && storage.Digest(p) != r.Digests.Payload {
		return nil, fmt.Errorf("reading the payload of revision %d of release %s: it is not what was stored: %w",
			revision, rel.Owner.ReleaseName, storage.ErrCorrupt)
	}
	m.payloads.put(rel.Owner.UID, p)
	return p, nil
}

func lost(err error) bool {
	return errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt)
}
