package scenarios

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jkwong888/go-helm-operator/test/cluster"
)

// patience bounds a wait that says nothing else. What is waited for takes a second or two on an idle machine.
const patience = 90 * time.Second

// snapshot is what a snapshot step remembers.
type snapshot struct {
	objects map[Ref]map[string]any
	mark    cluster.Mark
}

// wait waits until an expectation holds.
func (r *run) wait(ctx context.Context, e *Expectation) error {
	within := patience
	if e.Within.Duration > 0 {
		within = e.Within.Duration
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %s", within))
	defer cancel()
	if e.Count != nil {
		kind, err := r.objects.kind(e.Kind)
		if err != nil {
			return err
		}
		return awaitList(ctx, r.objects.resource(kind, r.vars.Namespace), metav1.ListOptions{LabelSelector: e.Selector},
			func(all map[types.UID]*unstructured.Unstructured) string {
				return e.counted(slices.Collect(maps.Values(all)))
			})
	}
	return r.objects.await(ctx, e.Object, r.vars.Namespace, func(obj *unstructured.Unstructured) string {
		return r.complaint(e, obj)
	})
}

// expect checks an expectation now.
func (r *run) expect(ctx context.Context, e *Expectation) error {
	var complaint string
	if e.Count != nil {
		items, err := r.objects.list(ctx, e.Kind, e.Selector, r.vars.Namespace)
		if err != nil {
			return err
		}
		all := make([]*unstructured.Unstructured, len(items))
		for i := range items {
			all[i] = &items[i]
		}
		complaint = e.counted(all)
	} else {
		obj, err := r.objects.get(ctx, e.Object, r.vars.Namespace)
		if err != nil {
			return err
		}
		complaint = r.complaint(e, obj)
		if complaint == "" && e.SameAs != "" {
			complaint, err = r.differs(ctx, e, obj)
		}
		if err != nil {
			return err
		}
	}
	if complaint != "" {
		return errors.New(complaint)
	}
	return nil
}

func (e *Expectation) counted(all []*unstructured.Unstructured) string {
	if len(all) == *e.Count {
		return ""
	}
	names := make([]string, len(all))
	for i, obj := range all {
		names[i] = obj.GetName()
	}
	slices.Sort(names)
	return fmt.Sprintf("want %d of %s with %q, there are %d: %v", *e.Count, e.Kind, e.Selector, len(all), names)
}

// complaint says why an object, nil if there is none, is not as expected; "" if it is.
func (r *run) complaint(e *Expectation, obj *unstructured.Unstructured) string {
	if obj == nil || e.Absent {
		if (obj == nil) == e.Absent {
			return ""
		}
		return fmt.Sprintf("%s: absent is %t, want %t", e.Object, obj == nil, e.Absent)
	}
	actual, err := asJSON(obj.Object)
	if err != nil {
		return err.Error()
	}
	object, _ := actual.(map[string]any)
	if complaint := conditions(e.Conditions, object); complaint != "" {
		return fmt.Sprintf("%s: %s", e.Object, complaint)
	}
	if e.Matches != nil {
		if complaint := mismatch(string(e.Object), e.Matches, object); complaint != "" {
			return complaint
		}
	}
	return r.compare(e, object)
}

// conditions compares the conditions of an object's present generation: older ones tell of another spec.
func conditions(expected map[string]Condition, object map[string]any) string {
	if len(expected) == 0 {
		return ""
	}
	if seen := field(object, "status.observedGeneration"); seen != nil && seen != field(object, "metadata.generation") {
		return fmt.Sprintf("status is of generation %v, the object of %v", seen, field(object, "metadata.generation"))
	}
	list, _ := field(object, "status.conditions").([]any)
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if complaint := expected[name].complaint(find(list, name)); complaint != "" {
			return fmt.Sprintf("condition %s: %s", name, complaint)
		}
	}
	return ""
}

func find(conditions []any, name string) map[string]any {
	for _, c := range conditions {
		if c, is := c.(map[string]any); is && c["type"] == name {
			return c
		}
	}
	return nil
}

func (c Condition) complaint(actual map[string]any) string {
	if c.Absent || actual == nil {
		if c.Absent == (actual == nil) {
			return ""
		}
		return fmt.Sprintf("absent is %t, want %t", actual == nil, c.Absent)
	}
	for key, want := range map[string]string{"status": c.Status, "reason": c.Reason, "message": c.Message} {
		if want != "" && !matchText(want, actual[key]) {
			return fmt.Sprintf("want %s %q, is %v %v: %v", key, want, actual["status"], actual["reason"], actual["message"])
		}
	}
	return ""
}

// compare compares fields with those of a snapshot.
func (r *run) compare(e *Expectation, object map[string]any) string {
	if e.Since == "" {
		return ""
	}
	before, ok := r.snapshots[e.Since].objects[e.Object]
	if !ok {
		return fmt.Sprintf("snapshot %q has no %s", e.Since, e.Object)
	}
	for _, path := range e.Unchanged {
		if was, is := field(before, path), field(object, path); !reflect.DeepEqual(was, is) {
			return fmt.Sprintf("%s: %s was %s, is %s", e.Object, path, show(was), show(is))
		}
	}
	for _, path := range e.Changed {
		if was, is := field(before, path), field(object, path); reflect.DeepEqual(was, is) {
			return fmt.Sprintf("%s: %s still is %s", e.Object, path, show(is))
		}
	}
	return ""
}

// differs says in which field an object is not as another one is.
func (r *run) differs(ctx context.Context, e *Expectation, obj *unstructured.Unstructured) (string, error) {
	other, err := r.objects.get(ctx, e.SameAs, r.vars.Namespace)
	if err != nil {
		return "", err
	}
	if other == nil {
		return fmt.Sprintf("there is no %s", e.SameAs), nil
	}
	for _, path := range e.Fields {
		if mine, its := field(obj.Object, path), field(other.Object, path); mine == nil || !reflect.DeepEqual(mine, its) {
			return fmt.Sprintf("%s of %s is %s, of %s %s", path, e.Object, show(mine), e.SameAs, show(its)), nil
		}
	}
	return "", nil
}

// takeSnapshot remembers objects, which must exist, and the point in the stream of requests.
func (r *run) takeSnapshot(ctx context.Context, s *Snapshot) error {
	taken := snapshot{objects: map[Ref]map[string]any{}}
	for _, ref := range s.Objects {
		obj, err := r.objects.get(ctx, ref, r.vars.Namespace)
		if err != nil {
			return err
		}
		if obj == nil {
			return fmt.Errorf("there is no %s", ref)
		}
		plain, err := asJSON(obj.Object)
		if err != nil {
			return err
		}
		taken.objects[ref], _ = plain.(map[string]any)
	}
	var err error
	taken.mark, err = r.env.cluster.Mark(ctx)
	r.snapshots[s.Name] = taken
	return err
}

// event waits for an event.
func (r *run) event(ctx context.Context, e *EventExpectation) error {
	within := patience
	if e.Within.Duration > 0 {
		within = e.Within.Duration
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %s", within))
	defer cancel()
	kind, err := r.objects.kind("Event.events.k8s.io")
	if err != nil {
		return err
	}
	expected := map[string]any{"reason": e.Reason}
	if e.Type != "" {
		expected["type"] = e.Type
	}
	if e.Note != "" {
		expected["note"] = e.Note
	}
	return awaitList(ctx, r.objects.resource(kind, r.vars.Namespace), metav1.ListOptions{},
		func(all map[types.UID]*unstructured.Unstructured) string {
			complaint := fmt.Sprintf("there is no event about %s", e.Object)
			for _, event := range all {
				about := fmt.Sprintf("%v/%v", field(event.Object, "regarding.kind"), field(event.Object, "regarding.name"))
				if about != string(e.Object) {
					continue
				}
				diff := mismatch("event about "+about, expected, event.Object)
				if diff == "" {
					return ""
				}
				if field(event.Object, "reason") == e.Reason || complaint == "" {
					complaint = diff
				}
			}
			return complaint
		})
}

// requests checks how many requests the operator sent since a snapshot.
func (r *run) requests(ctx context.Context, e *RequestsExpectation) error {
	since, ok := r.snapshots[e.Since]
	if !ok {
		return fmt.Errorf("there is no snapshot %q", e.Since)
	}
	filters := []cluster.Filter{r.byOperator()}
	if len(e.Verbs) > 0 {
		filters = append(filters, cluster.ByVerb(e.Verbs...))
	}
	if len(e.Resources) > 0 {
		filters = append(filters, cluster.ByResource(e.Resources...))
	}
	if len(e.ExceptResources) > 0 {
		filters = append(filters, cluster.Not(cluster.ByResource(e.ExceptResources...)))
	}
	found, err := r.env.cluster.Requests(ctx, since.mark, filters...)
	if err != nil {
		return err
	}
	if len(found) > e.AtMost || len(found) < e.AtLeast {
		return fmt.Errorf("want %d to %d requests since %s, there were %d:\n%s", e.AtLeast, e.AtMost, e.Since, len(found), lines(found))
	}
	return nil
}

// byOperator chooses the requests of the scenario's operator, without those that cost nothing to speak of: its watches,
// its Lease, its events.
func (r *run) byOperator() cluster.Filter {
	user := cluster.ByUser("system:serviceaccount:" + r.operator.namespace + ":" + serviceAccount)
	free := []cluster.Filter{cluster.ByVerb("watch"), cluster.ByResource("leases", "events")}
	return func(request cluster.Request) bool {
		return user(request) && !slices.ContainsFunc(free, func(f cluster.Filter) bool { return f(request) })
	}
}
