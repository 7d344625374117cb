package release

import (
	"context"
	"fmt"
)

// install makes the first revision.
func (m *Manager) install(ctx context.Context, rel *Release, out *Outcome) error {
	d, err := m.render(ctx, rel, 1)
	if err != nil {
		return err
	}
	if err := m.deploy(ctx, rel, d, ActionInstall, "installed"); err != nil {
		return err
	}
	out.event(ActionInstall, ReasonInstallSuccessful, fmt.Sprintf("Installed release %s with chart %s-%s: %d objects",
		rel.Owner.ReleaseName, rel.Chart.Name(), rel.Chart.Version(), len(rel.Status.Inventory)))
	return m.watch(ctx, rel)
}
