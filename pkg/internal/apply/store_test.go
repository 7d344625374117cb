package apply

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unique"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// The store is told things by the watch, by lists and by the client, in any
// order; only the newest may win.
func TestStoreOrder(t *testing.T) {
	const name = "app"
	key := types.NamespacedName{Namespace: "shop", Name: name}
	seen := func(version int, uid string) *item {
		it := &item{name: key}
		it.UID, it.version = types.UID(uid), fmt.Sprint(version)
		it.owner = unique.Make(plants().ref())
		return it
	}
	metadata := func(version int, uid string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid), ResourceVersion: fmt.Sprint(version)}}
	}
	update := func(version int, uid string) func(*store) {
		return func(s *store) { must(t, s.Update(seen(version, uid))) }
	}
	remove := func(version int, uid string) func(*store) {
		return func(s *store) { must(t, s.Delete(metadata(version, uid))) }
	}
	list := func(version int, items ...any) func(*store) {
		return func(s *store) {
			must(t, s.Replace(items, fmt.Sprint(version)))
			s.current(&s.watching)
		}
	}
	wrote := func(version int, uid string) func(*store) { return func(s *store) { s.wrote(seen(version, uid)) } }
	deleting := func(uid string, gone bool) func(*store) {
		return func(s *store) { s.deleting(key, types.UID(uid), gone) }
	}
	failed := func(s *store) { s.failed(fmt.Errorf("the API server is away")) }

	tests := map[string]struct {
		told     []func(*store)
		want     Observed
		exists   bool
		enqueued int // owners told
		refresh  int // times that all owners are told
	}{
		"nothing yet":                               {nil, Observed{Unknown: true}, false, 0, 0},
		"a list without it":                         {[]func(*store){list(5)}, Observed{}, false, 0, 1},
		"the first list tells all owners, once":     {[]func(*store){list(5, seen(4, "a"))}, Observed{UID: "a"}, true, 0, 1},
		"a new object tells its owner":              {[]func(*store){list(5), update(6, "a")}, Observed{UID: "a"}, true, 1, 1},
		"nothing new tells nobody":                  {[]func(*store){list(5, seen(4, "a")), update(6, "a"), update(7, "a")}, Observed{UID: "a"}, true, 0, 1},
		"our write is known at once":                {[]func(*store){list(5), wrote(6, "a")}, Observed{UID: "a"}, true, 0, 1},
		"the event of our write tells nobody":       {[]func(*store){list(5), wrote(6, "a"), update(6, "a")}, Observed{UID: "a"}, true, 0, 1},
		"an event from before our write is late":    {[]func(*store){list(5, seen(4, "a")), wrote(8, "b"), update(6, "a"), remove(7, "a")}, Observed{UID: "b"}, true, 0, 1},
		"a list from before our write is late":      {[]func(*store){list(5), wrote(8, "b"), list(7)}, Observed{UID: "b"}, true, 0, 1},
		"our write from before an event is late":    {[]func(*store){list(5), update(8, "b"), wrote(6, "a")}, Observed{UID: "b"}, true, 1, 1},
		"somebody's deletion":                       {[]func(*store){list(5, seen(4, "a")), remove(6, "a")}, Observed{Deleted: true}, false, 1, 1},
		"a deletion seen by a list":                 {[]func(*store){list(5, seen(4, "a")), list(7)}, Observed{Deleted: true}, false, 1, 1},
		"a deletion, then our write":                {[]func(*store){list(5, seen(4, "a")), remove(6, "a"), wrote(7, "b")}, Observed{UID: "b"}, true, 1, 1},
		"our deletion":                              {[]func(*store){list(5, seen(4, "a")), deleting("a", true), remove(6, "a")}, Observed{}, false, 0, 1},
		"our deletion of what is held":              {[]func(*store){list(5, seen(4, "a")), deleting("a", false)}, Observed{UID: "a", Deleting: true}, true, 0, 1},
		"its end":                                   {[]func(*store){list(5, seen(4, "a")), deleting("a", false), remove(6, "a")}, Observed{}, false, 1, 1},
		"our deletion of what was replaced":         {[]func(*store){list(5, seen(4, "b")), deleting("a", true)}, Observed{UID: "b"}, true, 0, 1},
		"a deletion forgotten with its owner":       {[]func(*store){list(5, seen(4, "a")), remove(6, "a"), func(s *store) { s.forget(seen(0, "").owner) }}, Observed{}, false, 1, 1},
		"a failure before the first list":           {[]func(*store){failed}, Observed{Unknown: true}, false, 0, 0},
		"a failure keeps what was known":            {[]func(*store){list(5, seen(4, "a")), failed}, Observed{UID: "a"}, true, 0, 1},
		"the end of a failure tells all owners":     {[]func(*store){list(5, seen(4, "a")), failed, list(6, seen(4, "a"))}, Observed{UID: "a"}, true, 0, 2},
		"a list that may not be watched is nothing": {[]func(*store){func(s *store) { must(t, s.Replace(nil, "5")) }, failed}, Observed{Unknown: true}, false, 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var enqueued, refreshed int
			s := newStore(true, func(ownerRef) { enqueued++ }, func() { refreshed++ }, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
			for _, tell := range test.told {
				tell(s)
			}
			got, exists := s.get(key)
			if got != test.want || exists != test.exists {
				t.Errorf("exists %v, want %v; observed %+v, want %+v", exists, test.exists, got, test.want)
			}
			if enqueued != test.enqueued || refreshed != test.refresh {
				t.Errorf("owners told %d times and all %d times, want %d and %d", enqueued, refreshed, test.enqueued, test.refresh)
			}
		})
	}
}

// A Job that ran and that the cluster removed is neither drift nor missing, however
// long ago that was.
func TestWhatIsLeftOfAJob(t *testing.T) {
	const job = "{apiVersion: batch/v1, kind: Job, metadata: {name: app, namespace: shop, resourceVersion: '5'}, spec: %s, status: {startTime: '2026-01-01T00:00:00Z', conditions: [{type: %s, status: '%s'}]}}"
	tests := map[string]struct {
		spec, condition, is string
		drift               Drift
		want                Health
	}{
		"complete, with a TTL":      {"{ttlSecondsAfterFinished: 0}", "Complete", "True", "", Health{Ready: true}},
		"failed, with a TTL":        {"{ttlSecondsAfterFinished: 60}", "Failed", "True", "", Health{Failed: []string{"Job/app: Job Failed. failed: 0/1"}}},
		"complete, without a TTL":   {"{}", "Complete", "True", DriftDeleted, Health{Waiting: []string{"Job/app: does not exist"}}},
		"not complete":              {"{ttlSecondsAfterFinished: 60}", "Complete", "False", DriftDeleted, Health{Waiting: []string{"Job/app: does not exist"}}},
		"suspended":                 {"{ttlSecondsAfterFinished: 60, suspend: true}", "Suspended", "True", DriftDeleted, Health{Waiting: []string{"Job/app: does not exist"}}},
		"complete, with a null TTL": {"{ttlSecondsAfterFinished: null}", "Complete", "True", DriftDeleted, Health{Waiting: []string{"Job/app: does not exist"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			s := newStore(true, func(ownerRef) {}, func() {}, now)
			obj := parse(t, fmt.Sprintf(job, test.spec, test.condition, test.is))
			must(t, s.Replace([]any{obj}, "4"))
			obj = obj.DeepCopy()
			obj.SetResourceVersion("5")
			obj.SetDeletionTimestamp(&metav1.Time{Time: now.Now()})
			must(t, s.Update(obj))
			s.current(&s.watching)
			must(t, s.Replace(nil, "6"))
			now.SetTime(now.Now().Add(time.Hour))

			kind := obj.GroupVersionKind().GroupKind()
			c := &Cache{informers: map[schema.GroupKind]*informer{kind: {stores: map[string]*store{"shop": s}}}}
			observed, exists := c.Get(Entry(obj))
			if got, is := plants().Drifted(Entry(obj), observed, exists); got != test.drift || is != (test.drift != "") || exists {
				t.Errorf("Drifted = %q, %v (observed %+v, %v), want %q", got, is, observed, exists, test.drift)
			}
			if diff := cmp.Diff(test.want, c.Health([]releasev1alpha1.InventoryEntry{Entry(obj)})); diff != "" {
				t.Errorf("health (-want +got):\n%s", diff)
			}
		})
	}
}

// A removal is believed for a moment only, and what is remembered is bounded.
func TestRemovalsAreForgotten(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	s := newStore(true, func(ownerRef) {}, func() {}, now)
	remove := func(i int) types.NamespacedName {
		name := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)}
		must(t, s.Update(&item{name: name, object: object{version: "5"}}))
		must(t, s.Delete(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, ResourceVersion: "6"}}))
		return name
	}
	seen := func(name types.NamespacedName) bool {
		observed, _ := s.get(name)
		return observed.Deleted
	}
	first := remove(0)
	now.SetTime(now.Now().Add(goneFor - 1))
	if !seen(first) {
		t.Error("a removal was forgotten too early")
	}
	now.SetTime(now.Now().Add(1))
	if seen(first) {
		t.Errorf("a removal is believed after %v", goneFor)
	}
	for i := range 2 * goneMost {
		if name := remove(i); seen(name) != (i < goneMost) {
			t.Fatalf("removal %d is remembered: %v", i, i >= goneMost)
		}
	}
	now.SetTime(now.Now().Add(goneFor))
	if name := remove(-1); !seen(name) || len(s.gone) != 1 {
		t.Errorf("%d removals are remembered, and the last is %v; want it alone", len(s.gone), seen(name))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatMattersOfAChange(t *testing.T) {
	base := Observed{UID: "a", Managed: "m", Generation: 1, Status: "InProgress", Message: "1/2", Replicas: 2, ReadyReplicas: 1}
	changes := map[string]struct {
		change         func(*Observed)
		builtIn, other bool // whether it matters
	}{
		"nothing":        {func(*Observed) {}, false, false},
		"generation":     {func(o *Observed) { o.Generation++ }, false, false},
		"message":        {func(o *Observed) { o.Message = "2/2" }, true, false},
		"uid":            {func(o *Observed) { o.UID = "b" }, true, true},
		"our fields":     {func(o *Observed) { o.Managed = "n" }, true, true},
		"deletion":       {func(o *Observed) { o.Deleting = true }, true, true},
		"status":         {func(o *Observed) { o.Status = "Current" }, true, true},
		"replicas":       {func(o *Observed) { o.Replicas = 3 }, true, true},
		"ready replicas": {func(o *Observed) { o.ReadyReplicas = 2 }, true, true},
	}
	for name, test := range changes {
		changed := base
		test.change(&changed)
		for messages, want := range map[bool]bool{true: test.builtIn, false: test.other} {
			if got := newStore(messages, nil, nil, nil).differ(base, changed); got != want {
				t.Errorf("%s matters: %v, want %v (messages compared: %v)", name, got, want, messages)
			}
		}
	}
}

func TestDrifted(t *testing.T) {
	entry := Entry(parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: app, namespace: shop}}"))
	entry.UID, entry.Managed = "a", "m"
	tests := map[string]struct {
		observed Observed
		exists   bool
		want     Drift
	}{
		"as recorded":                 {Observed{UID: "a", Managed: "m"}, true, ""},
		"unknown":                     {Observed{Unknown: true}, false, ""},
		"gone":                        {Observed{}, false, DriftDeleted},
		"seen going":                  {Observed{Deleted: true}, false, DriftDeleted},
		"our fields changed":          {Observed{UID: "a", Managed: "n"}, true, DriftModified},
		"our fields taken over":       {Observed{UID: "a"}, true, DriftModified},
		"replaced":                    {Observed{UID: "b"}, true, DriftReplaced},
		"our re-creation, unrecorded": {Observed{UID: "b", Managed: "m"}, true, ""},
		"on its way out":              {Observed{UID: "a", Managed: "n", Deleting: true}, true, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, holder := range []unique.Handle[ownerRef]{{}, unique.Make(plants().ref())} {
				test.observed.holder = holder
				if got, is := plants().Drifted(entry, test.observed, test.exists); got != test.want || is != (test.want != "") {
					t.Errorf("Drifted = %q, %v, want %q, holder %v", got, is, test.want, holder)
				}
			}
		})
	}
}

func TestWhatAnotherOwnerHoldsIsAReplacement(t *testing.T) {
	obj := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: app, uid: a, resourceVersion: '5'}}")
	other := plants()
	other.Name = "trees"
	tests := map[string]struct {
		owner *Owner // who marked it
		want  Drift
		holds bool
	}{
		"ours":      {new(plants()), "", true},
		"another's": {&other, DriftReplaced, false},
		"nobody's":  {nil, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			obj := obj.DeepCopy()
			if test.owner != nil {
				test.owner.Mark(obj, true)
			}
			it, err := project(obj)
			must(t, err)
			entry := Entry(obj)
			entry.UID, entry.Managed = it.UID, it.Managed
			if got := plants().Holds(it.Observed); got != test.holds {
				t.Errorf("Holds = %v, want %v", got, test.holds)
			}
			if got, is := plants().Drifted(entry, it.Observed, true); got != test.want || is != (test.want != "") {
				t.Errorf("Drifted = %q, %v, want %q", got, is, test.want)
			}
			going := it.Observed
			going.Deleting = true
			if got, is := plants().Drifted(entry, going, true); is {
				t.Errorf("Drifted = %q of what is being deleted", got)
			}
			if plants().Holds(Observed{}) || plants().Holds(Observed{Deleted: true}) {
				t.Error("the owner holds what does not exist")
			}
		})
	}
}

// askedMapper counts what it is asked.
type askedMapper struct {
	meta.RESTMapper
	asked []schema.GroupKind
}

func (m *askedMapper) RESTMapping(gk schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	m.asked = append(m.asked, gk)
	return nil, &meta.NoKindMatchError{GroupKind: gk}
}

func (m *askedMapper) RESTMappings(gk schema.GroupKind, _ ...string) ([]*meta.RESTMapping, error) {
	return nil, &meta.NoKindMatchError{GroupKind: gk}
}

func TestAMissingKindIsNotAskedForAgainAtOnce(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	mapper := &askedMapper{}
	known := newKinds(mapper, nil, now)
	for range 10 {
		if _, err := known.mapping(libertyApp); err == nil {
			t.Fatal("a kind that is missing was found")
		}
	}
	now.SetTime(now.Now().Add(missingFor))
	if _, err := known.mapping(libertyApp); err == nil {
		t.Fatal("a kind that is missing was found")
	}
	if want := []schema.GroupKind{libertyApp.GroupKind(), libertyApp.GroupKind()}; !slices.Equal(mapper.asked, want) {
		t.Errorf("asked %v, want once, and once more after %v", mapper.asked, missingFor)
	}
}
