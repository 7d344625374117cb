package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// An attempt that a crash interrupts leaves its payload and some objects, and no
// record. If what is wanted is then the same as in the record, or something else
// again, nothing would ever look at that payload: its objects would stay, with
// its values. So each process asks once which revisions are stored.

// Stored tells the newest stored revision of every Helm release, by namespace
// and name.
type Stored func(ctx context.Context) (map[types.NamespacedName]int64, error)

// leftovers are the newest stored revisions as they were when the process first
// asked, of the releases that were not looked at since. The zero value is ready.
type leftovers struct {
	mu     sync.Mutex
	asked  bool
	newest map[types.NamespacedName]int64
}

// take returns the newest stored revision of a release the first time it is
// asked for it, later 0.
func (l *leftovers) take(ctx context.Context, stored Stored, name types.NamespacedName) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stored != nil && !l.asked {
		newest, err := stored(ctx)
		if err != nil {
			return 0, fmt.Errorf("looking for what a restart interrupted: %w", err)
		}
		maps.Copy(newest, l.newest)
		l.newest, l.asked = newest, true
	}
	revision := l.newest[name]
	delete(l.newest, name)
	return revision, nil
}

// note keeps that a revision was begun, in case its record is never written.
func (l *leftovers) note(name types.NamespacedName, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest == nil {
		l.newest = map[types.NamespacedName]int64{}
	}
	l.newest[name] = revision
}

func (rel *Release) name() types.NamespacedName {
	return types.NamespacedName{Namespace: rel.Owner.ReleaseNamespace, Name: rel.Owner.ReleaseName}
}

// reclaim finds what an attempt left behind the back of a record that is as
// wanted, and makes the record say so: its revision is then finished anew, and
// what only the attempt brought is pruned. It reports whether there was
// anything.
func (m *Manager) reclaim(ctx context.Context, rel *Release) (bool, error) {
	newest, err := m.leftovers.take(ctx, m.Stored, rel.name())
	if err != nil {
		return false, err
	}
	found := false
	for revision := rel.Status.Release.Revision + 1; revision <= newest; revision++ {
		left, err := m.Store.Get(ctx, rel.name().Namespace, rel.name().Name, revision)
		switch {
		case errors.Is(err, storage.ErrNotFound), err == nil && !mine(rel, left.Owner):
			continue // nothing, or the helm command's own
		case err != nil && !errors.Is(err, storage.ErrCorrupt):
			return false, fmt.Errorf("reading revision %d of release %s, which was interrupted: %w", revision, rel.name().Name, err)
		}
		if err := absorb(rel.Status, left); err != nil {
			return false, err
		}
		rel.Status.Release.State, rel.Status.Release.Failures = releasev1alpha1.StateFailed, 0
		if err := rel.Persist(ctx); err != nil {
			return false, err
		}
		if err := m.Store.Delete(ctx, rel.name().Namespace, rel.name().Name, revision); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return false, fmt.Errorf("removing revision %d of release %s, which was interrupted: %w", revision, rel.name().Name, err)
		}
		found = true
	}
	return found, nil
}

// reclaimUnrecorded takes up a release that has no record though revisions of it
// are stored, as after a restore of the resource from a backup: revisions go on
// counting and the objects are known. A release that is not ours is refused.
func (m *Manager) reclaimUnrecorded(ctx context.Context, rel *Release) (bool, error) {
	newest, err := m.leftovers.take(ctx, m.Stored, rel.name())
	if err != nil || newest <= 1 {
		return false, err // one revision alone is taken over when it is begun again
	}
	left, err := m.Store.Get(ctx, rel.name().Namespace, rel.name().Name, newest)
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrCorrupt):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading revision %d of release %s: %w", newest, rel.name().Name, err)
	case !mine(rel, left.Owner):
		return false, &NameTakenError{Release: left.Name, Namespace: left.Namespace, Other: left.Owner.String()}
	}
	revisions, err := m.Store.Revisions(ctx, left.Namespace, left.Name)
	if err != nil {
		return false, fmt.Errorf("listing the revisions of release %s: %w", left.Name, err)
	}
	for _, revision := range slices.Backward(revisions) {
		if revision < newest {
			rel.Status.History = append(rel.Status.History, releasev1alpha1.HistoryEntry{
				Revision: revision, State: releasev1alpha1.StateSuperseded, ChartVersion: left.Chart.Version,
			})
		}
	}
	first := metav1.NewTime(left.FirstDeployed)
	rel.Status.Release = &releasev1alpha1.Record{
		Name: left.Name, Revision: newest, State: releasev1alpha1.StatePendingUpgrade, FirstDeployed: &first,
		Chart: releasev1alpha1.ChartReference{Name: left.Chart.Name, Version: left.Chart.Version},
	}
	return true, absorb(rel.Status, left)
}

// absorb enters the objects of a payload that may have been applied into the
// inventory, and forgets what is known of their content, so that each is applied
// again or pruned. Of a payload that cannot be read nothing is known.
func absorb(status *releasev1alpha1.Status, left *storage.Payload) error {
	if left == nil {
		for i := range status.Inventory {
			status.Inventory[i].Object = ""
		}
		return nil
	}
	named, err := namedBy(left)
	if err != nil {
		return err
	}
	entries := withLeftovers(status.Inventory, named)
	at := inventoryByKey(entries)
	for _, entry := range named {
		entries[at[apply.EntryKey(entry)]].Object = ""
	}
	status.Inventory = entries
	return nil
}

// absorbUnfinished does the same for the revision of the record when that was
// not finished and something else is wanted now.
func (m *Manager) absorbUnfinished(ctx context.Context, rel *Release) error {
	record := rel.Status.Release
	if record == nil || !failedBefore(record) {
		return nil
	}
	left, err := m.payload(ctx, rel, record.Revision)
	if err != nil && !lost(err) {
		return err
	}
	return absorb(rel.Status, left)
}

// neverDeployed says that no revision of the release was ever in place: the next
// one is an install, for templates and for hooks.
func neverDeployed(status *releasev1alpha1.Status) bool {
	done := []releasev1alpha1.State{releasev1alpha1.StateDeployed, releasev1alpha1.StateSuperseded, releasev1alpha1.StateUninstalling}
	if r := status.Release; r != nil && (slices.Contains(done, r.State) || r.State == releasev1alpha1.StatePendingUpgrade) {
		return false
	}
	return !slices.ContainsFunc(status.History, func(h releasev1alpha1.HistoryEntry) bool { return slices.Contains(done, h.State) })
}
