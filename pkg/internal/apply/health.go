package apply

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// Health is the health of a release's objects, all together.
type Health struct {
	// Ready says that every object that has health is healthy.
	Ready bool
	// Failed names objects that will not become healthy by waiting, each with
	// the reason: "Job/x: Job Failed. failed: 1/1".
	Failed []string
	// Waiting names objects that are not healthy yet, each with the reason:
	// "Deployment/x: Updated: 1/2".
	Waiting []string
	// Replicas and ReadyReplicas of all workloads.
	Replicas, ReadyReplicas int64
}

// Health tells the health of the objects of an inventory. Objects of kinds
// without health count as healthy, whether they exist or not: what is missing
// is drift. So do objects in namespaces that the operator does not watch, of
// which it will never know: to wait for them would be to wait for ever. A Job
// that ran and was removed as it asked to be has the health it ended with.
func (c *Cache) Health(entries []releasev1alpha1.InventoryEntry) Health {
	var health Health
	for _, entry := range entries {
		if !hasHealth(EntryKey(entry).GroupKind) {
			continue
		}
		observed, exists := c.Get(entry)
		name := entry.Kind + "/" + entry.Name + ": "
		switch {
		case observed.Unwatched:
		case observed.Unknown:
			health.Waiting = append(health.Waiting, name+"not observed yet")
		case !exists && !observed.Completed:
			health.Waiting = append(health.Waiting, name+"does not exist")
		case observed.Deleting && !observed.Completed:
			health.Waiting = append(health.Waiting, name+"is being deleted")
		case observed.Status == status.FailedStatus:
			health.Failed = append(health.Failed, name+observed.Message)
		case observed.Status != status.CurrentStatus:
			health.Waiting = append(health.Waiting, name+observed.Message)
		}
		health.Replicas += observed.Replicas
		health.ReadyReplicas += observed.ReadyReplicas
	}
	health.Ready = len(health.Failed) == 0 && len(health.Waiting) == 0
	return health
}
