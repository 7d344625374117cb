package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// deploy applies a desired state as a revision of its own. The order is what
// makes a crash harmless: claim (nothing foreign is touched), store the
// payload, hooks, objects, prune, hooks, record.
func (m *Manager) deploy(ctx context.Context, rel *Release, d *desired, action Action, reason string) error {
	if err := m.claim(ctx, rel, d); err != nil {
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
	if err := m.supersede(ctx, rel, old); err != nil {
		return err
	}
	m.recordSuccess(rel, d, entries, action, reason)
	return m.trimHistory(ctx, rel)
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
	taken.objects, taken.hooks, taken.payload = objects, left.Hooks, left
	taken.digests.Manifest = manifestDigest(left.Manifest)
	m.payloads.put(rel.Owner.UID, left)
	return &taken, nil
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
// returns old and new inventory entries together.
func (m *Manager) applyAll(ctx context.Context, rel *Release, d *desired) ([]releasev1alpha1.InventoryEntry, error) {
	entries := slices.Clone(rel.Status.Inventory)
	known := inventoryByKey(entries)
	for _, obj := range d.objects {
		key := apply.EntryKey(apply.Entry(obj))
		at, old := known[key]
		if old && m.asWanted(entries[at], obj) {
			continue
		}
		var uid types.UID
		if old {
			uid = m.currentUID(rel, entries[at])
		}
		entry, err := m.applyNew(ctx, d, obj, uid)
		if err != nil {
			return entries, err
		}
		if old {
			entries[at] = entry
		} else {
			known[key] = len(entries)
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// asWanted says that the last apply of the object had the same content and
// that the object still is as it was applied.
func (m *Manager) asWanted(entry releasev1alpha1.InventoryEntry, obj *unstructured.Unstructured) bool {
	if entry.Object != apply.ObjectDigest(obj) {
		return false
	}
	observed, exists := m.Dependents.Get(entry)
	_, is := apply.Drifted(entry, observed, exists)
	return !is
}

// currentUID is the uid to expect of an object: the one in the cluster when the
// object is ours, whoever recreated it, and none when it is gone.
func (m *Manager) currentUID(rel *Release, entry releasev1alpha1.InventoryEntry) types.UID {
	observed, exists := m.Dependents.Get(entry)
	switch {
	case !exists && m.Dependents.Synced(apply.EntryGVK(entry)):
		return ""
	case exists && observed.Managed != "":
		return observed.UID
	default:
		return entry.UID
	}
}

// crdWait bounds the wait for a kind whose CRD was just applied.
const crdWait = 10 * time.Second

// applyNew applies an object whose kind may have come to life a moment ago.
func (m *Manager) applyNew(ctx context.Context, d *desired, obj *unstructured.Unstructured, uid types.UID) (releasev1alpha1.InventoryEntry, error) {
	var entry releasev1alpha1.InventoryEntry
	var last error
	namespaced := false
	fresh := brings(d, obj.GroupVersionKind().GroupKind(), &namespaced)
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, crdWait, true, func(ctx context.Context) (bool, error) {
		entry, last = m.Objects.Apply(ctx, obj, uid)
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
	if d.payload.Revision > 1 {
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
			if _, err := m.Objects.Delete(ctx, entry, rel.Owner); err != nil {
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
