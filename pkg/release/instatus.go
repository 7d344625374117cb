package release

import (
	"context"
	"errors"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

type releaseKey struct{}

// withRelease lets the status store find the status of the release at hand.
func withRelease(ctx context.Context, rel *Release) context.Context {
	return context.WithValue(ctx, releaseKey{}, rel)
}

// statusSlot is the place for the payload in the status of the release at hand.
// A release without a record has none to offer, and nothing to read.
func statusSlot(ctx context.Context, _, _ string) (*[]byte, error) {
	rel, ok := ctx.Value(releaseKey{}).(*Release)
	if !ok {
		return nil, errors.New("storing payloads in the status: no release is being worked on")
	}
	if rel.Status.Release == nil {
		return new([]byte), nil
	}
	return &rel.Status.Release.Payload, nil
}

// beginInStatus makes the pending record that carries the payload, and writes
// it: like a payload in a Secret it has to be there before the first object.
func (m *Manager) beginInStatus(ctx context.Context, rel *Release, d *desired) error {
	before := rel.Status.DeepCopy()
	m.archive(rel, d.payload.Revision)
	state := releasev1alpha1.StatePendingUpgrade
	if d.payload.Revision == 1 {
		state = releasev1alpha1.StatePendingInstall
	}
	rel.Status.Release = m.record(rel, d, state)
	rel.Status.Release.Payload = nil
	if err := m.Store.Create(ctx, d.payload); err != nil {
		*rel.Status = *before
		return err
	}
	return rel.Persist(ctx)
}
