package release

import (
	"context"
	"errors"
	"fmt"

	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// begin stores the payload of the revision before anything is applied. A payload
// that a crash left under the same number is never just written over: it is what
// the first objects may already carry.
func (m *Manager) begin(ctx context.Context, rel *Release, d *desired) (*desired, error) {
	m.leftovers.note(rel.name(), d.payload.Revision)
	if d.stored {
		return d, m.restore(ctx, rel, d)
	}
	err := m.create(ctx, rel, d)
	if err == nil {
		m.payloads.put(rel.Owner.UID, d.payload)
		return d, nil
	}
	if !errors.Is(err, storage.ErrExists) {
		return nil, fmt.Errorf("storing revision %d of release %s: %w", d.payload.Revision, d.payload.Name, err)
	}
	left, err := m.Store.Get(ctx, d.payload.Namespace, d.payload.Name, d.payload.Revision)
	switch {
	case errors.Is(err, storage.ErrCorrupt):
		return d, m.replace(ctx, rel, d, nil)
	case err != nil:
		return nil, fmt.Errorf("reading revision %d of release %s, which exists already: %w", d.payload.Revision, d.payload.Name, err)
	case !mine(rel, left.Owner):
		return m.beginBeside(ctx, rel, d, left)
	case left.Owner.UID == rel.Owner.UID && left.InputsDigest == d.payload.InputsDigest:
		return m.takeOver(ctx, rel, d, left)
	default:
		return d, m.replace(ctx, rel, d, left)
	}
}

func (m *Manager) create(ctx context.Context, rel *Release, d *desired) error {
	if m.InStatus {
		return m.beginInStatus(ctx, rel, d)
	}
	return m.Store.Create(ctx, d.payload)
}

// beginBeside handles a payload that somebody else stored under our revision:
// another owner's release is refused by name; a revision that the helm command
// added to our own release is left alone and the next number taken.
func (m *Manager) beginBeside(ctx context.Context, rel *Release, d *desired, left *storage.Payload) (*desired, error) {
	if rel.Status.Release == nil || left.Owner != (storage.Owner{}) {
		return nil, &NameTakenError{Release: d.payload.Name, Namespace: d.payload.Namespace, Other: left.Owner.String()}
	}
	d.payload.Revision++
	return m.begin(ctx, rel, d)
}

// mine says whether a stored payload is of the resource, or of one of the same
// kind and name that was there before it.
func mine(rel *Release, owner storage.Owner) bool {
	return owner.UID == rel.Owner.UID || owner.GroupKind == rel.Owner.GVK.GroupKind() &&
		owner.Namespace == rel.Owner.Namespace && owner.Name == rel.Owner.Name
}

// takeOver goes on with a payload that was rendered from the same inputs: what d
// drew at random is forgotten, for the first objects may carry what the payload
// drew. Images may have become known since.
func (m *Manager) takeOver(ctx context.Context, rel *Release, d *desired, left *storage.Payload) (*desired, error) {
	taken, err := m.reuse(ctx, rel, left, left.Revision, d)
	if err != nil {
		return nil, err
	}
	if taken.payload.Manifest != left.Manifest {
		return taken, m.replace(ctx, rel, taken, left)
	}
	m.payloads.put(rel.Owner.UID, taken.payload)
	return taken, nil
}

// replace writes the payload of other inputs over the one that an interrupted
// attempt left. Only that one knows which objects the attempt may have applied,
// so they enter the record before it goes.
func (m *Manager) replace(ctx context.Context, rel *Release, d *desired, left *storage.Payload) error {
	if err := absorb(rel.Status, left); err != nil {
		return err
	}
	if err := rel.Persist(ctx); err != nil {
		return err
	}
	return m.restore(ctx, rel, d)
}

// restore writes the payload over the one that is stored under its revision.
func (m *Manager) restore(ctx context.Context, rel *Release, d *desired) error {
	err := m.Store.Update(ctx, d.payload)
	if errors.Is(err, storage.ErrNotFound) {
		err = m.create(ctx, rel, d)
	}
	if err != nil {
		return fmt.Errorf("replacing revision %d of release %s: %w", d.payload.Revision, d.payload.Name, err)
	}
	m.payloads.put(rel.Owner.UID, d.payload)
	return nil
}
