package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Who changes the key of an item of ours in a list that is merged by key, such
// as the number of a Service's port, puts an item of their own in its place. An
// apply adds ours beside it, and the API server refuses both because they share
// a name. Nobody but we ever said that there is such an item, so ours has to
// stand alone: the items of others in that list become ours by the managed
// fields, and the next apply removes what it does not have.

// duplicateLists are the lists in which the API server found an item twice, as
// it names them: spec.ports, or spec.template.spec.containers[0].ports.
func duplicateLists(status metav1.Status) []string {
	if status.Details == nil {
		return nil
	}
	var lists []string
	for _, cause := range status.Details.Causes {
		at := strings.LastIndexByte(cause.Field, '[')
		if cause.Type == metav1.CauseTypeFieldValueDuplicate && at > 0 {
			lists = append(lists, cause.Field[:at])
		}
	}
	return slices.Compact(lists)
}

// takeItems makes the items of some lists that others hold ours, with two
// requests, or one when there are none. taken says whether there were any.
func (c *Client) takeItems(ctx context.Context, asked request, target []string, lists []string) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// A workload's controller may write its status at the same time.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		taken, err = c.tryToTakeItems(ctx, asked, target, lists)
		return err
	})
	return taken, err
}

func (c *Client) tryToTakeItems(ctx context.Context, asked request, target []string, lists []string) (taken bool, err error) {
	existing, err := c.read(c.rest.Get().AbsPath(target...).SetHeader("Accept", metadataOnly).Do(ctx), request{"get", asked.key, asked.mapping})
	if err != nil || existing == nil {
		return false, err
	}
	fields, taken, err := takeFields(existing.ManagedFields, lists)
	if err != nil {
		return false, fmt.Errorf("reading the managed fields of %s: %w", asked.key, err)
	}
	if !taken {
		return false, nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": existing.UID, "resourceVersion": existing.ResourceVersion, "managedFields": fields,
	}})
	if err != nil {
		return false, fmt.Errorf("encoding the managed fields of %s: %w", asked.key, err)
	}
	result := c.rest.Patch(types.MergePatchType).AbsPath(target...).Param("fieldManager", FieldManager).
		SetHeader("Accept", metadataOnly).Body(body).Do(ctx)
	_, err = c.read(result, asked)
	return err == nil, err
}

// takeFields moves, from the entries of others to the entry of our apply, all
// that is in items of the lists. The entries that were given stay as they are.
func takeFields(entries []metav1.ManagedFieldsEntry, lists []string) ([]metav1.ManagedFieldsEntry, bool, error) {
	own, all := -1, fieldpath.NewSet()
	out := make([]metav1.ManagedFieldsEntry, 0, len(entries))
	for _, entry := range entries {
		if entry.FieldsV1 == nil {
			out = append(out, entry)
			continue
		}
		if ours(entry.Manager, string(entry.Operation), entry.Subresource) {
			own = len(out)
			out = append(out, entry)
			continue
		}
		held, items := fieldpath.NewSet(), fieldpath.NewSet()
		if err := held.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, false, err
		}
		for path := range held.All() {
			if slices.ContainsFunc(lists, func(list string) bool { return inItem(path, list) }) {
				items.Insert(path.Copy())
			}
		}
		if left := held.Difference(items); !left.Empty() {
			if err := setFields(&entry, left); err != nil {
				return nil, false, err
			}
			out = append(out, entry)
		}
		all = all.Union(items)
	}
	if own < 0 || all.Empty() {
		return nil, false, nil
	}
	held := fieldpath.NewSet()
	if err := held.FromJSON(bytes.NewReader(out[own].FieldsV1.GetRawBytes())); err != nil {
		return nil, false, err
	}
	return out, true, setFields(&out[own], held.Union(all))
}

func setFields(entry *metav1.ManagedFieldsEntry, fields *fieldpath.Set) error {
	raw, err := fields.ToJSON()
	if err != nil {
		return err
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return nil
}

// inItem says whether a path leads to an item of a list, or into one. The
// numbers of outer items in the list's name are of the merged object, so any
// item stands for them.
func inItem(path fieldpath.Path, list string) bool {
	for name := range strings.SplitSeq(list, ".") {
		name, _, indexed := strings.Cut(name, "[")
		if len(path) == 0 || path[0].FieldName == nil || *path[0].FieldName != name {
			return false
		}
		path = path[1:]
		if indexed {
			if len(path) == 0 || path[0].FieldName != nil {
				return false
			}
			path = path[1:]
		}
	}
	return len(path) > 0 && path[0].Key != nil
}
