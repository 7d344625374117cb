package release

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
)

// deploy applies a desired state as a revision of its own. The order is what
// makes a crash harmless: claim (nothing foreign is touched), store the
// payload, hooks, objects, prune, hooks, record.
func (m *Manager) deploy(ctx context.Context, rel *Release, d *desired, action Action, reason string) error {
	if err := m.claim(ctx, rel, d); err != nil {
		return err
	}
	if err := m.watchWanted(ctx, rel, d); err != nil {
		return err
	}
	old := m.held(rel)
	d, err := m.begin(ctx, rel, d)
	if err != nil {
		return err
	}
	entries, err := m.rollForward(ctx, rel, d, action)
	if err != nil {
		m.recordFailure(ctx, rel, d, entries)
		return err
	}
	m.archive(rel, d.payload.Revision)
	// What cannot be marked or trimmed now stays in the history and is tried
	// again with the next revision; this one is in place all the same.
	_ = m.supersede(ctx, rel, old)
	m.recordSuccess(rel, d, entries, action, reason)
	_ = m.trimHistory(ctx, rel)
	return nil
}

// watchWanted watches the kinds of the revision before it is applied, so that
// the cache takes in what is applied, and so that a missing right is told before
// anything is. A kind that the release itself brings is watched afterwards.
func (m *Manager) watchWanted(ctx context.Context, rel *Release, d *desired) error {
	var entries []releasev1alpha1.InventoryEntry
	for _, obj := range d.objects {
		var noKind *apply.NoKindError
		if _, err := m.Objects.Mapping(obj.GroupVersionKind()); errors.As(err, &noKind) {
			continue
		}
		entries = append(entries, apply.Entry(obj))
	}
	all := append(slices.Clone(entries), rel.Status.Inventory...)
	if m.Dependents.Use(ctx, rel.Owner, kinds(all)) == nil {
		return nil
	}
	// A kind that is about to go need not be watched any more.
	return m.Dependents.Use(ctx, rel.Owner, kinds(entries))
}

// claim refuses the whole revision when an object that it would newly create
// exists already and belongs to somebody else: nothing is ever overwritten.
func (m *Manager) claim(ctx context.Context, rel *Release, d *desired) error {
	known := inventoryByKey(rel.Status.Inventory)
	for _, obj := range d.objects {
		if _, ok := known[apply.EntryKey(apply.Entry(obj))]; ok {
			continue
		}
		found, err := m.Objects.Check(ctx, rel.Owner, obj)
		var noKind *apply.NoKindError
		switch {
		case errors.As(err, &noKind):
			continue // mark made sure that the release brings the kind itself
		case err != nil:
			return err
		case found.Exists && !found.Ours:
			return &apply.ForeignError{Object: apply.Entry(obj), Other: found.Other}
		}
	}
	return nil
}

// rollForward runs hooks and applies and prunes objects. The entries it returns
// are the inventory as it stands, also after an error.
func (m *Manager) rollForward(ctx context.Context, rel *Release, d *desired, action Action) ([]releasev1alpha1.InventoryEntry, error) {
	entries := rel.Status.Inventory
	if err := m.applyCRDs(ctx, rel, d); err != nil {
		return entries, err
	}
	pre, post := hookEvents(action)
	if err := m.runHooks(ctx, rel, d.hooks, pre); err != nil {
		return entries, err
	}
	entries, err := m.applyAll(ctx, rel, d)
	if err != nil {
		return entries, err
	}
	entries, err = m.prune(ctx, rel, entries, d)
	if err != nil {
		return entries, err
	}
	return entries, m.runHooks(ctx, rel, d.hooks, post)
}

// applyAll applies, in order, every object that is not yet as wanted. It
// returns old and new inventory entries together, also after an error.
func (m *Manager) applyAll(ctx context.Context, rel *Release, d *desired) ([]releasev1alpha1.InventoryEntry, error) {
	entries := slices.Clone(rel.Status.Inventory)
	known := inventoryByKey(entries)
	for _, obj := range d.objects {
		at, old := known[apply.EntryKey(apply.Entry(obj))]
		wanted := objectDigest(d.salt, obj)
		if !old {
			entry, err := m.applyNew(ctx, d, obj)
			if err != nil {
				return entries, err
			}
			entry.Object = wanted
			entries = append(entries, entry)
			continue
		}
		if m.asWanted(rel, &entries[at], wanted) {
			continue
		}
		entry, err := m.applyOwned(ctx, rel, entries[at], obj)
		if err != nil {
			return entries, err
		}
		entry.Object = wanted
		entries[at] = entry
	}
	return entries, nil
}

// asWanted says that the last apply of the object had the same content and
// that the object still is as it was applied. It refreshes the uid of one that
// was recreated since.
func (m *Manager) asWanted(rel *Release, entry *releasev1alpha1.InventoryEntry, digest string) bool {
	if entry.Object != digest {
		return false
	}
	observed, exists := m.Dependents.Get(*entry)
	if _, is := rel.Owner.Drifted(*entry, observed, exists); is {
		return false
	}
	if exists {
		entry.UID = observed.UID
	}
	return true
}

// applyOwned applies an object of the inventory. It looks first whose the object
// is, unless the cache has just seen it in our hands or seen it go.
func (m *Manager) applyOwned(ctx context.Context, rel *Release, entry releasev1alpha1.InventoryEntry, obj *unstructured.Unstructured) (releasev1alpha1.InventoryEntry, error) {
	observed, exists := m.Dependents.Get(entry)
	switch {
	case exists && rel.Owner.Holds(observed):
		return m.Objects.Apply(ctx, obj, observed.UID)
	case !exists && observed.Deleted:
		return m.Objects.Apply(ctx, obj, "")
	case observed.Unknown && entry.UID != "":
		applied, err := m.Objects.Apply(ctx, obj, entry.UID)
		var replaced *apply.GoneError
		if !errors.As(err, &replaced) {
			return applied, err
		}
	}
	found, err := m.Objects.Check(ctx, rel.Owner, obj)
	if err != nil {
		return entry, err
	}
	if found.Exists && !found.Ours {
		return entry, &apply.ForeignError{Object: apply.Entry(obj), Other: found.Other}
	}
	return m.Objects.Apply(ctx, obj, found.UID)
}

// crdWait bounds the wait for a kind whose CRD was just applied.
const crdWait = 10 * time.Second

// applyNew applies an object whose kind may have come to life a moment ago.
func (m *Manager) applyNew(ctx context.Context, d *desired, obj *unstructured.Unstructured) (releasev1alpha1.InventoryEntry, error) {
	var entry releasev1alpha1.InventoryEntry
	var last error
	namespaced := false
	fresh := brings(d, obj.GroupVersionKind().GroupKind(), &namespaced)
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, crdWait, true, func(ctx context.Context) (bool, error) {
		entry, last = m.Objects.Apply(ctx, obj, "")
		var noKind *apply.NoKindError
		if fresh && errors.As(last, &noKind) {
			return false, nil
		}
		return true, last
	})
	if last != nil {
		err = last
	}
	return entry, err
}

// applyCRDs installs the chart's crds/ folder with the first revision, as Helm
// does: they are never upgraded and never removed.
func (m *Manager) applyCRDs(ctx context.Context, rel *Release, d *desired) error {
	if !neverDeployed(rel.Status) {
		return nil
	}
	for _, crd := range d.crds {
		found, err := m.Objects.Check(ctx, rel.Owner, crd)
		if err != nil {
			return err
		}
		if found.Exists {
			continue
		}
		if _, err := m.Objects.Apply(ctx, crd, ""); err != nil {
			return err
		}
	}
	return nil
}

// prune deletes, in reverse order, what the inventory has and the desired state
// has not, and drops it from the entries. Kept objects are only forgotten.
func (m *Manager) prune(ctx context.Context, rel *Release, entries []releasev1alpha1.InventoryEntry, d *desired) ([]releasev1alpha1.InventoryEntry, error) {
	wanted := make([]releasev1alpha1.InventoryEntry, len(d.objects))
	order := map[apply.Key]int{}
	for i, obj := range d.objects {
		wanted[i] = apply.Entry(obj)
		order[apply.EntryKey(wanted[i])] = i
	}
	gone := map[apply.Key]bool{}
	for _, entry := range slices.Backward(apply.Diff(entries, wanted)) {
		if !entry.Keep {
			_, err := m.Objects.Delete(ctx, entry, rel.Owner)
			var noKind *apply.NoKindError
			if err != nil && !errors.As(err, &noKind) { // a kind that went took its objects along
				return without(entries, gone), err
			}
		}
		gone[apply.EntryKey(entry)] = true
	}
	entries = without(entries, gone)
	slices.SortStableFunc(entries, func(a, b releasev1alpha1.InventoryEntry) int {
		return order[apply.EntryKey(a)] - order[apply.EntryKey(b)]
	})
	return entries, nil
}

func without(entries []releasev1alpha1.InventoryEntry, gone map[apply.Key]bool) []releasev1alpha1.InventoryEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e releasev1alpha1.InventoryEntry) bool {
		return gone[apply.EntryKey(e)]
	})
}

func inventoryByKey(entries []releasev1alpha1.InventoryEntry) map[apply.Key]int {
	out := make(map[apply.Key]int, len(entries))
	for i, e := range entries {
		out[apply.EntryKey(e)] = i
	}
	return out
}
