package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// write writes the status if it changed, in one request, and then emits the
// events of the pass: an event tells of what is on record. It returns when to
// look again if the write was put off.
func (r *Reconciler) write(ctx context.Context, p *Pass) (time.Duration, error) {
	for i := range p.Status.Conditions { // those of inputs too
		p.Status.Conditions[i].Message = cut(p.Status.Conditions[i].Message)
	}
	if p.changed() && !p.gone && !p.sealed() {
		if p.onlyProgress() {
			if wait := r.written.putOff(p.Key.NamespacedName, r.clock.Now()); wait > 0 {
				r.emit(p)
				return wait, nil
			}
		}
		if err := r.writeStatus(ctx, p); err != nil {
			return 0, err
		}
	}
	r.written.settled(p.Key.NamespacedName)
	r.emit(p)
	return 0, nil
}

// onlyProgress says whether nothing changed but that a roll-out begins or how
// far it is. That it begins is progress too, because a workload whose controller
// has not yet looked at a change of no consequence counts as rolling out.
func (p *Pass) onlyProgress() bool {
	before, after := p.before.DeepCopy(), p.Status.DeepCopy()
	was, is := meta.FindStatusCondition(before.Conditions, ConditionReady), meta.FindStatusCondition(after.Conditions, ConditionReady)
	if was == nil || is == nil || is.Reason != ReasonProgressing || was.Reason != ReasonProgressing && was.Reason != ReasonReady {
		return false
	}
	*is = *was
	before.Replicas, before.ReadyReplicas = after.Replicas, after.ReadyReplicas
	return equality.Semantic.DeepEqual(before, after)
}

// emit emits the events of the pass, each once.
func (r *Reconciler) emit(p *Pass) {
	for _, e := range p.Events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		var related runtime.Object // not a nil pointer in it
		if e.Related != nil {
			related = e.Related
		}
		r.recorder.Eventf(p.Object, related, kind, e.Reason, string(e.Action), "%s", cut(e.Message))
	}
	p.Events = nil
}

// messageBytes is the API server's limit for the note of an event, and enough
// for the message of a condition, which may have 32 KiB.
const messageBytes = 1024

func cut(s string) string {
	if len(s) > messageBytes {
		return strings.ToValidUTF8(s[:messageBytes-3], "") + "..."
	}
	return s
}

// writeStatus sends what differs from the status that was read.
func (r *Reconciler) writeStatus(ctx context.Context, p *Pass) error {
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.Status)
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", p.Key, err)
	}
	before, _ := p.Object.Object["status"].(map[string]any)
	if p.invalid != nil && !p.Deleting() {
		before, after = verdict(before), verdict(after) // the rest may not be what was read
	}
	patch, err := json.Marshal(map[string]any{
		// The uid keeps a recreated resource from getting its predecessor's status.
		"metadata": map[string]any{"uid": p.Object.GetUID()},
		"status":   difference(before, after),
	})
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", p.Key, err)
	}
	obj := p.Object.DeepCopy()
	err = r.client.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status of %s: %w", p.Key, err)
	}
	r.written.note(obj)
	p.Object, p.before = obj, p.Status.DeepCopy()
	return nil
}

// sealed says that no part of the status can be written without losing what
// somebody put there in its place.
func (p *Pass) sealed() bool {
	_, object := p.Object.Object["status"].(map[string]any)
	return p.Object.Object["status"] != nil && !object && !p.Deleting()
}

// verdict is the part of a status that tells why a resource is refused.
func verdict(status map[string]any) map[string]any {
	return keep(status, func(field string) bool { return field == "conditions" || field == "observedGeneration" })
}

func keep(fields map[string]any, which func(string) bool) map[string]any {
	out := maps.Clone(fields)
	maps.DeleteFunc(out, func(field string, _ any) bool { return !which(field) })
	return out
}

// statusFields are the names of the fields that the operator writes; another
// controller may keep its own beside them.
var statusFields = func() []string {
	var out []string
	t := reflect.TypeFor[releasev1alpha1.Status]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}()

// difference is the merge patch (RFC 7386) of the top-level fields of a status:
// fields that differ are sent whole, fields of ours that went are null.
func difference(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range after {
		if !equalJSON(before[key], value) {
			out[key] = value
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok && slices.Contains(statusFields, key) {
			out[key] = nil
		}
	}
	return out
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// staleRetry is how soon to look again when the cache has not yet seen the
// operator's own last write; a watch delivers within milliseconds.
const staleRetry = 20 * time.Millisecond

// writes remembers the resourceVersion of the last write to each resource: a
// pass over an older copy would not see its own record and act twice. The zero
// value is ready.
type writes struct {
	mu   sync.Mutex
	last map[types.NamespacedName]write
	// uids are those of the resources that were there at their last pass.
	uids map[types.NamespacedName]types.UID
	// since is when a change that only tells of progress was first put off.
	since map[types.NamespacedName]time.Time
}

type write struct {
	uid     types.UID
	version string
	// removed says that the write was the object's last.
	removed bool
}

func (w *writes) note(obj *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[types.NamespacedName]write{}
	}
	w.last[client.ObjectKeyFromObject(obj)] = write{uid: obj.GetUID(), version: obj.GetResourceVersion()}
}

// removed notes that the last finalizer is off the resource. The API server
// deletes it at once and answers with the version it had, so every copy there
// still is of it is old.
func (w *writes) removed(obj *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[types.NamespacedName]write{}
	}
	w.last[client.ObjectKeyFromObject(obj)] = write{uid: obj.GetUID(), removed: true}
}

// ahead says whether the last write is newer than the copy, and forgets it when
// it is not.
func (w *writes) ahead(obj *unstructured.Unstructured) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	last, ok := w.last[key]
	if !ok {
		return false
	}
	if last.uid == obj.GetUID() {
		if last.removed {
			return true
		}
		order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.version)
		if err == nil && order < 0 {
			return true
		}
	}
	delete(w.last, key)
	return false
}

func (w *writes) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, key)
	delete(w.since, key)
	delete(w.uids, key)
}

// met remembers the uid of a resource for when it is gone.
func (w *writes) met(obj *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uids == nil {
		w.uids = map[types.NamespacedName]types.UID{}
	}
	w.uids[client.ObjectKeyFromObject(obj)] = obj.GetUID()
}

func (w *writes) uid(key types.NamespacedName) types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.uids[key]
}

// progressInterval is how often, at most, a status is written only to tell how
// far a roll-out is: pods become ready one by one, each with several changes.
const progressInterval = time.Second

// putOff returns how long the write of mere progress has to wait yet.
func (w *writes) putOff(key types.NamespacedName, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since = map[types.NamespacedName]time.Time{}
	}
	since, ok := w.since[key]
	if !ok {
		since = now
		w.since[key] = now
	}
	return progressInterval - now.Sub(since)
}

// settled ends a put-off: the status is as it should be.
func (w *writes) settled(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.since, key)
}
