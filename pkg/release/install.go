package release

import "context"

// install makes the first revision, unless revisions are stored already that
// the resource has lost the record of.
func (m *Manager) install(ctx context.Context, rel *Release, out *Outcome) error {
	if known, err := m.reclaimUnrecorded(ctx, rel); known || err != nil {
		return err
	}
	d, err := m.render(ctx, rel, 1)
	if err != nil {
		return err
	}
	return m.apply(ctx, rel, d, "installed", out)
}
