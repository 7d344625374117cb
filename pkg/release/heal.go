package release

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// heal applies drifted objects again from the payload. It makes no revision
// and, because the record already says what was applied, needs no status
// write: the uid of a recreated object enters the record with the next revision.
func (m *Manager) heal(ctx context.Context, rel *Release, at Situation, out *Outcome) error {
	wanted, err := m.wantedObjects(ctx, rel)
	if lost(err) {
		return m.healLost(ctx, rel, at, out)
	}
	if err != nil {
		return err
	}
	for _, d := range at.Drift {
		if wait := m.fights.wait(rel.Owner.UID, d.entry, m.Clock.Now()); wait > 0 {
			noteFight(rel.Status, m.fighter(ctx, d))
			out.RequeueAfter = min(nonZero(out.RequeueAfter, wait), wait)
			continue
		}
		obj := wanted[apply.EntryKey(d.entry)]
		if obj == nil {
			return fmt.Errorf("healing %s: the payload of revision %d does not have it", describe(d.entry), rel.Status.Release.Revision)
		}
		if expired(d, obj) {
			rel.Status.Inventory = without(rel.Status.Inventory, map[apply.Key]bool{apply.EntryKey(d.entry): true})
			continue
		}
		applied, err := m.applyOwned(ctx, rel, d.entry, obj)
		if err != nil {
			return err
		}
		m.noteManaged(rel, d.entry, applied.Managed)
		out.Events = append(out.Events, Event{
			Reason: ReasonHealed, Action: ActionHeal, Message: fmt.Sprintf("Healed %s (%s)", describe(d.entry), d.how), Related: reference(d.entry),
		})
	}
	return nil
}

// expired says that a Job which is gone went by itself, some time after it ended
// (ttlSecondsAfterFinished): it did its work and must not do it again. It is
// forgotten, until the next revision.
func expired(d drifted, wanted *unstructured.Unstructured) bool {
	removed := d.observed.Deleted && !d.observed.Completed
	return d.how == apply.DriftDeleted && apply.Expires(wanted) && !removed
}

func reference(e releasev1alpha1.InventoryEntry) *corev1.ObjectReference {
	gvk := schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
	return &corev1.ObjectReference{APIVersion: gvk.GroupVersion().String(), Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
}

// noteManaged records the fields that we own if an apply of the same content
// now gives others, as after a change of the kind's schema; otherwise the record
// needs no write.
func (m *Manager) noteManaged(rel *Release, healed releasev1alpha1.InventoryEntry, managed string) {
	if managed == healed.Managed {
		return
	}
	for i := range rel.Status.Inventory {
		if apply.EntryKey(rel.Status.Inventory[i]) == apply.EntryKey(healed) {
			rel.Status.Inventory[i].Managed = managed
		}
	}
}

func nonZero(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// wantedObjects are the objects of the current revision as it was deployed.
func (m *Manager) wantedObjects(ctx context.Context, rel *Release) (map[apply.Key]*unstructured.Unstructured, error) {
	stored, err := m.payload(ctx, rel, rel.Status.Release.Revision)
	if err != nil {
		return nil, err
	}
	objects, err := storage.DecodeManifest(stored.Manifest)
	if err != nil {
		return nil, err
	}
	out := make(map[apply.Key]*unstructured.Unstructured, len(objects))
	for _, obj := range objects {
		out[apply.EntryKey(apply.Entry(obj))] = obj
	}
	return out, nil
}

// healLost renders a new revision when the payload was lost: there is nothing
// else left to heal from.
func (m *Manager) healLost(ctx context.Context, rel *Release, at Situation, out *Outcome) error {
	out.warn(ActionHeal, ReasonPayloadLost, fmt.Sprintf("The stored payload of revision %d is gone; rendering the chart again", rel.Status.Release.Revision))
	d, err := m.render(ctx, rel, rel.Status.Release.Revision+1)
	if err != nil {
		return err
	}
	rel.Status.Release.Digests.Manifest = ""
	return m.roll(ctx, rel, d, "the payload was lost; "+at.Reason, out)
}

func describe(e releasev1alpha1.InventoryEntry) string { return e.Kind + "/" + e.Name }
