package release

import (
	"context"
	"errors"
	"fmt"

	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// begin stores the payload of the revision before anything is applied. When a
// crash left one that was made from the same inputs, that one is what is
// deployed: a second render may have drawn other random values than the first
// objects already carry.
func (m *Manager) begin(ctx context.Context, rel *Release, d *desired) (*desired, error) {
	if d.stored {
		return m.restore(ctx, rel, d)
	}
	create := m.Store.Create
	if m.InStatus {
		create = func(ctx context.Context, _ *storage.Payload) error { return m.beginInStatus(ctx, rel, d) }
	}
	err := create(ctx, d.payload)
	if err == nil {
		m.payloads.put(rel.Owner.UID, d.payload)
		return d, nil
	}
	if !errors.Is(err, storage.ErrExists) {
		return nil, fmt.Errorf("storing revision %d of release %s: %w", d.payload.Revision, d.payload.Name, err)
	}
	left, err := m.Store.Get(ctx, d.payload.Namespace, d.payload.Name, d.payload.Revision)
	switch {
	case err != nil && !errors.Is(err, storage.ErrCorrupt):
		return nil, fmt.Errorf("reading revision %d of release %s, which exists already: %w", d.payload.Revision, d.payload.Name, err)
	case err == nil && !mine(rel, left.Owner):
		return m.beginBeside(ctx, rel, d, left)
	case err == nil && left.Owner.UID == rel.Owner.UID && left.InputsDigest == d.payload.InputsDigest:
		return m.takeOver(rel, d, left)
	}
	return m.restore(ctx, rel, d)
}

// restore writes the payload over the one that is stored under its revision.
func (m *Manager) restore(ctx context.Context, rel *Release, d *desired) (*desired, error) {
	if err := m.Store.Update(ctx, d.payload); err != nil {
		return nil, fmt.Errorf("replacing revision %d of release %s: %w", d.payload.Revision, d.payload.Name, err)
	}
	m.payloads.put(rel.Owner.UID, d.payload)
	return d, nil
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

func (m *Manager) takeOver(rel *Release, d *desired, left *storage.Payload) (*desired, error) {
	objects, err := storage.DecodeManifest(left.Manifest)
	if err != nil {
		return nil, fmt.Errorf("reading revision %d of release %s, which a restart left: %w", left.Revision, left.Name, err)
	}
	taken := *d
	taken.objects, taken.hooks, taken.payload, taken.salt = objects, left.Hooks, left, saltOf(left.Manifest)
	taken.digests.Manifest = manifestDigest(left.Manifest)
	m.payloads.put(rel.Owner.UID, left)
	return &taken, nil
}
