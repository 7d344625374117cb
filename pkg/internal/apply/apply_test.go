package apply_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - {name: app, image: "example.com/app:1.0", env: [{name: A, value: a}]}
`

// kindsToHeal are objects with what somebody else may do to them.
var kindsToHeal = map[string]struct {
	manifest string
	// ours changes a field of ours, theirs adds one of their own.
	ours, theirs string
}{
	"ConfigMap": {
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b}}",
		`{"data":{"a":"x"}}`, `{"data":{"b":"x"}}`,
	},
	"ConfigMap, a key removed": {
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b, c: d}}",
		`{"data":{"a":null}}`, `{"metadata":{"annotations":{"note":"x"}}}`,
	},
	"Secret": {
		"{apiVersion: v1, kind: Secret, metadata: {name: app}, stringData: {a: b}}",
		`{"data":{"a":"eA=="}}`, `{"data":{"b":"eA=="}}`,
	},
	"Service": {
		"{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {selector: {app: app}, ports: [{name: http, port: 80}]}}",
		`{"spec":{"selector":{"app":"x"}}}`, `{"spec":{"externalTrafficPolicy":"","sessionAffinity":"ClientIP"}}`,
	},
	"Deployment": {
		deployment,
		`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/app:1.0","env":[{"name":"A","value":"x"}]}]}}}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`,
	},
	"Deployment, our label removed": {
		deployment,
		`{"metadata":{"labels":{"` + apply.OwnerLabel + `":null}}}`, `{"spec":{"revisionHistoryLimit":3}}`,
	},
	"Role, whose rules are atomic": {
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: app}, rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}",
		`{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]},{"apiGroups":[""],"resources":["pods"],"verbs":["list"]}]}`,
		`{"metadata":{"labels":{"team":"x"}}}`,
	},
	"CRD-backed kind with an atomic list": {
		"{apiVersion: example.com/v1, kind: Gadget, metadata: {name: app}, spec: {size: 1, tags: [a]}}",
		`{"spec":{"tags":["a","b"]}}`, `{"spec":{"color":"red"}}`,
	},
	"ClusterRole": {
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NAMESPACE-app}, rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}",
		`{"rules":[]}`, `{"metadata":{"annotations":{"note":"x"}}}`,
	},
	"Namespace": {
		"{apiVersion: v1, kind: Namespace, metadata: {name: NAMESPACE-app, labels: {team: a}}}",
		`{"metadata":{"labels":{"team":"x"}}}`, `{"metadata":{"annotations":{"note":"x"}}}`,
	},
}

func TestForeignChangesAreSeenAndHealed(t *testing.T) {
	for name, test := range kindsToHeal {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options{})
			obj, entry := b.install(test.manifest)
			b.removeAfter(obj)
			b.awaitDrift(entry, "")
			b.settle(obj)
			b.enqueued.take()

			t.Run("what others own is not drift", func(t *testing.T) {
				b := b.in(t)
				b.patch(obj, test.theirs)
				b.settle(obj)
				b.awaitDrift(entry, "")
				b.expectQuiet(obj)
				again := b.apply(obj, entry.UID)
				if diff := cmp.Diff(entry, again); diff != "" {
					t.Errorf("applying the same again changes the entry:\n%s", diff)
				}
				if !b.holds(obj, test.theirs) {
					t.Error("applying again took away what others own")
				}
			})
			t.Run("a change of ours is", func(t *testing.T) {
				b := b.in(t)
				b.settle(obj)
				b.enqueued.take()
				b.patch(obj, test.ours)
				want := apply.DriftModified
				if strings.Contains(test.ours, apply.OwnerLabel) {
					want = apply.DriftDeleted // it is out of the selector's sight
				}
				b.awaitDrift(entry, want)
				b.awaitEnqueued()
				b.expectHealed(obj, entry, entry.UID)
				if b.holds(obj, test.ours) {
					t.Error("the foreign change is still there")
				}
			})
			if obj.GetKind() == "Namespace" {
				return // its deletion takes seconds and is no different
			}
			t.Run("deletion is", func(t *testing.T) {
				b := b.in(t)
				b.settle(obj)
				b.enqueued.take()
				b.delete(obj)
				b.awaitDrift(entry, apply.DriftDeleted)
				b.awaitEnqueued()
				if observed, _ := b.cache.Get(entry); !observed.Deleted {
					t.Errorf("observed %+v, want it to say that the deletion was seen", observed)
				}
				b.expectHealed(obj, entry, "")
			})
		})
	}
}

// in is the bench for a subtest.
func (b *bench) in(t *testing.T) *bench {
	sub := *b
	sub.T = t
	return &sub
}

// removeAfter deletes cluster-scoped objects, which no namespace takes along.
func (b *bench) removeAfter(obj *unstructured.Unstructured) {
	if obj.GetNamespace() == "" {
		b.Cleanup(func() { b.deleteQuietly(obj) })
	}
}

// holds says whether a merge patch would change nothing.
func (b *bench) holds(obj *unstructured.Unstructured, patch string) bool {
	b.Helper()
	var before, after *unstructured.Unstructured
	for after == nil {
		before = b.get(obj)
		// On just this version: a controller may write to the object meanwhile.
		change := map[string]any{}
		if err := errors.Join(json.Unmarshal([]byte(patch), &change),
			unstructured.SetNestedField(change, before.GetResourceVersion(), "metadata", "resourceVersion")); err != nil {
			b.Fatal(err)
		}
		patched, err := b.resource(obj).Patch(b.Context(), obj.GetName(), types.MergePatchType, must(json.Marshal(change))(b.T),
			metav1.PatchOptions{FieldManager: "somebody", DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsConflict(err) {
			continue
		}
		after = must(patched, err)(b.T)
	}
	for _, o := range []*unstructured.Unstructured{before, after} {
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
		o.SetGeneration(0)
		delete(o.Object, "status") // it may go on meanwhile
	}
	return cmp.Equal(before.Object, after.Object)
}

// expectQuiet says that nobody was enqueued, but for progress of a workload.
func (b *bench) expectQuiet(obj *unstructured.Unstructured) {
	b.Helper()
	if names := b.enqueued.take(); len(names) > 0 && obj.GetKind() != "Deployment" {
		b.Errorf("enqueued %v for a change that does not matter", names)
	}
}

func (b *bench) awaitEnqueued() {
	b.Helper()
	await(b.T, "the owner to be enqueued", func() error {
		if !slices.Contains(b.enqueued.take(), b.owner.Name) {
			return errors.New("it was not")
		}
		return nil
	})
}

// expectHealed applies the object, expecting one request and the recorded state.
func (b *bench) expectHealed(obj *unstructured.Unstructured, entry entryType, uid types.UID) {
	b.Helper()
	var healed entryType
	requests := b.requests.during(func() { healed = b.apply(obj, uid) })
	if len(requests) != 1 || !strings.HasPrefix(requests[0], "PATCH ") {
		b.Errorf("healing took %v, want one PATCH", requests)
	}
	if healed.Managed != entry.Managed || healed.Object != entry.Object {
		b.Errorf("healed to %+v, want the digests of %+v", healed, entry)
	}
	if observed, exists := b.cache.Get(healed); !exists || observed.UID != healed.UID {
		b.Errorf("right after applying, the cache has %+v, %v", observed, exists)
	}
	b.awaitDrift(entry, "")
	b.settle(obj)
	b.awaitDrift(entry, "")
}

func TestApplyingTheSameAgainChangesNothing(t *testing.T) {
	b := newBench(t, options{})
	obj, entry := b.install("{apiVersion: v1, kind: Secret, metadata: {name: app}, stringData: {a: b}}")
	before := b.get(obj)
	b.settle(obj)
	b.enqueued.take()
	again := b.apply(obj, entry.UID)
	b.settle(obj)
	if got := b.get(obj).GetResourceVersion(); got != before.GetResourceVersion() {
		t.Errorf("resourceVersion went from %s to %s", before.GetResourceVersion(), got)
	}
	if diff := cmp.Diff(entry, again); diff != "" {
		t.Errorf("entry (-first +again):\n%s", diff)
	}
	if names := b.enqueued.take(); len(names) > 0 {
		t.Errorf("enqueued %v", names)
	}
	if entry.UID != before.GetUID() || entry.Managed == "" || entry.Object != apply.ObjectDigest(obj) {
		t.Errorf("incomplete entry %+v", entry)
	}
}

// The autoscaler's replicas and a mesh's sidecar are not ours as long as the
// chart leaves them out.
func TestFieldsOfOthersAreLeftAlone(t *testing.T) {
	b := newBench(t, options{})
	obj, entry := b.install(deployment)
	b.patch(obj, `{"spec":{"replicas":3}}`, "scale")
	sidecar := b.parse(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: app, namespace: NAMESPACE},
		spec: {template: {spec: {containers: [{name: sidecar, image: "example.com/sidecar:1"}]}}}}`)
	must(b.resource(obj).Apply(t.Context(), "app", sidecar, metav1.ApplyOptions{FieldManager: "mesh"}))(t)
	b.settle(obj)
	b.awaitDrift(entry, "")

	changed := obj.DeepCopy()
	changed.Object["spec"].(map[string]any)["revisionHistoryLimit"] = int64(7)
	b.apply(changed, entry.UID)
	got := b.get(obj)
	replicas, _, _ := unstructured.NestedInt64(got.Object, "spec", "replicas")
	containers, _, _ := unstructured.NestedSlice(got.Object, "spec", "template", "spec", "containers")
	if replicas != 3 || len(containers) != 2 {
		t.Errorf("after an upgrade: %d replicas and %d containers, want the others' 3 and 2", replicas, len(containers))
	}
}

func TestAFieldThatLeavesTheChartLeavesTheObject(t *testing.T) {
	b := newBench(t, options{})
	_, entry := b.install("{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b, c: d}}")
	smaller := b.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b}}")
	after := b.apply(smaller, entry.UID)
	data, _, _ := unstructured.NestedStringMap(b.get(smaller).Object, "data")
	if diff := cmp.Diff(map[string]string{"a": "b"}, data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if after.Managed == entry.Managed || after.Object == entry.Object {
		t.Errorf("the digests did not follow: %+v then %+v", entry, after)
	}
}

func TestCheck(t *testing.T) {
	b := newBench(t, options{})
	other := b.app("trees")
	create := func(t *testing.T, manifest string, owner *apply.Owner) {
		obj := b.in(t).parse(manifest)
		obj.SetNamespace(b.namespace)
		if owner != nil {
			owner.Mark(obj, true)
		}
		must(b.in(t).resource(obj).Create(t.Context(), obj, metav1.CreateOptions{FieldManager: "kubectl-create"}))(t)
	}
	tests := map[string]struct {
		existing string
		owner    *apply.Owner
		want     apply.Found
	}{
		"absent":           {},
		"ours":             {"{apiVersion: v1, kind: ConfigMap, metadata: {name: app}}", &b.owner, apply.Found{Exists: true, Ours: true}},
		"of another owner": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: app}}", &other, apply.Found{Exists: true, Other: "the App " + b.namespace + "/trees"}},
		"of a Helm release": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: app, annotations: {meta.helm.sh/release-name: web, meta.helm.sh/release-namespace: prod}}}", nil,
			apply.Found{Exists: true, Other: "the Helm release web in namespace prod"},
		},
		"of nobody we know": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b}}", nil, apply.Found{Exists: true, Other: "somebody else (field manager kubectl-create)"}},
		"going away":        {"{apiVersion: v1, kind: ConfigMap, metadata: {name: app, finalizers: [example.com/hold]}}", &b.owner, apply.Found{Exists: true, Ours: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			wanted := b.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: app}}")
			if test.existing != "" {
				create(t, test.existing, test.owner)
			}
			held := strings.Contains(test.existing, "finalizers")
			if held {
				b.deleteQuietly(wanted)
			}
			var found apply.Found
			requests := b.requests.during(func() { found = must(b.client.Check(t.Context(), b.owner, wanted))(t) })
			if found.Exists == (found.UID == "") {
				t.Errorf("found %+v: uid and existence do not fit", found)
			}
			found.UID = ""
			if diff := cmp.Diff(test.want, found); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
			if len(requests) != 1 {
				t.Errorf("requests %v, want one", requests)
			}
			if held {
				b.patch(wanted, `{"metadata":{"finalizers":null}}`)
			} else {
				b.deleteQuietly(wanted)
			}
		})
	}
}

func TestAReplacedObjectIsNoticedAndLeftAlone(t *testing.T) {
	b := newBench(t, options{})
	obj, entry := b.install("{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b}}")
	b.delete(obj)
	foreign := b.parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: app, namespace: NAMESPACE}, data: {a: theirs}}")
	created := must(b.resource(obj).Create(t.Context(), foreign, metav1.CreateOptions{}))(t)

	_, err := b.client.Apply(t.Context(), obj, entry.UID)
	var gone *apply.GoneError
	if !errors.As(err, &gone) {
		t.Errorf("applying over it: %v, want a GoneError", err)
	}
	found := must(b.client.Check(t.Context(), b.owner, obj))(t)
	if !found.Exists || found.Ours {
		t.Errorf("found %+v, want somebody else's", found)
	}
	wasGone, err := b.client.Delete(t.Context(), entry, b.owner)
	if err != nil || !wasGone {
		t.Errorf("deleting our entry: %v, %v, want it to count as gone", wasGone, err)
	}
	if got := b.get(obj); got.GetUID() != created.GetUID() || got.GetResourceVersion() != created.GetResourceVersion() {
		t.Error("the foreign object was touched")
	}
	b.awaitDrift(entry, apply.DriftDeleted)
}

func TestACopyOfAnObjectIsAReplacement(t *testing.T) {
	b := newBench(t, options{})
	obj, entry := b.install("{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b}}")
	saved := b.get(obj)
	b.delete(obj)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(saved.Object, "metadata", field)
	}
	must(b.resource(obj).Create(t.Context(), saved, metav1.CreateOptions{FieldManager: "restore"}))(t)
	b.awaitDrift(entry, apply.DriftReplaced)
	if manager := must(b.client.LastManager(t.Context(), entry))(t); manager != "restore" {
		t.Errorf("last manager %q, want restore", manager)
	}
	found := must(b.client.Check(t.Context(), b.owner, obj))(t)
	if !found.Ours {
		t.Errorf("found %+v, want ours: its annotations say so", found)
	}
	b.expectHealed(obj, entry, found.UID)
}

func TestDelete(t *testing.T) {
	b := newBench(t, options{})
	configMap := "{apiVersion: v1, kind: ConfigMap, metadata: {name: app%d}}"
	expect := func(t *testing.T, entry entryType, wantGone bool, wantRequests int) {
		t.Helper()
		var gone bool
		var err error
		requests := b.requests.during(func() { gone, err = b.client.Delete(t.Context(), entry, b.owner) })
		if err != nil || gone != wantGone || len(requests) != wantRequests {
			t.Errorf("gone %v, %v after %v; want %v after %d requests", gone, err, requests, wantGone, wantRequests)
		}
	}
	t.Run("a recorded object takes one request", func(t *testing.T) {
		_, entry := b.in(t).install(fmt.Sprintf(configMap, 1))
		expect(t, entry, true, 1)
		if _, exists := b.cache.Get(entry); exists {
			t.Error("the cache still has it")
		}
		expect(t, entry, true, 1)
	})
	t.Run("without a uid it is looked at first", func(t *testing.T) {
		_, entry := b.in(t).install(fmt.Sprintf(configMap, 2))
		entry.UID = ""
		expect(t, entry, true, 2)
		expect(t, entry, true, 1)
	})
	t.Run("our own re-creation is deleted too", func(t *testing.T) {
		_, entry := b.in(t).install(fmt.Sprintf(configMap, 3))
		entry.UID = "00000000-0000-0000-0000-000000000000"
		expect(t, entry, true, 3)
	})
	t.Run("a kept object stays", func(t *testing.T) {
		obj, entry := b.in(t).install("{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}}")
		expect(t, entry, true, 0)
		if b.get(obj).GetDeletionTimestamp() != nil {
			t.Error("it is being deleted")
		}
	})
	t.Run("a held object is not gone, and its owner hears when it is", func(t *testing.T) {
		b := b.in(t)
		obj, entry := b.install("{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}")
		b.settle(obj)
		expect(t, entry, false, 1)
		if observed, exists := b.cache.Get(entry); !exists || !observed.Deleting {
			t.Errorf("the cache has %+v, %v, want it going", observed, exists)
		}
		if drift, is := b.owner.Drifted(entry, apply.Observed{UID: entry.UID, Deleting: true}, true); is {
			t.Errorf("drift %q of an object that is going", drift)
		}
		b.settle(obj)
		b.enqueued.take()
		b.patch(obj, `{"metadata":{"finalizers":null}}`)
		b.awaitEnqueued()
		if observed, exists := b.cache.Get(entry); exists || observed.Deleted {
			t.Errorf("the cache has %+v, %v, want nothing: the operator deleted it", observed, exists)
		}
	})
	t.Run("a Deployment takes its pods along", func(t *testing.T) {
		b := b.in(t)
		obj, entry := b.install(deployment)
		expect(t, entry, true, 1)
		pods := b.parse("{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: NAMESPACE}}")
		await(t, "the pods to go", func() error {
			list := must(b.resource(pods).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + obj.GetName()}))(t)
			if len(list.Items) > 0 {
				return fmt.Errorf("%d are left", len(list.Items))
			}
			return nil
		})
	})
}

// Between an apply and its watch event the cache already knows what was applied,
// so that a pass right after neither heals nor reports the old health.
func TestTheCacheKnowsWhatWasJustApplied(t *testing.T) {
	b := newBench(t, options{})
	obj := b.wanted(deployment)
	b.use(obj.GroupVersionKind())
	for generation := range 5 {
		obj.Object["spec"].(map[string]any)["revisionHistoryLimit"] = int64(generation + 2)
		entry := b.apply(obj, "")
		observed, exists := b.cache.Get(entry)
		if drift, is := b.owner.Drifted(entry, observed, exists); is {
			t.Fatalf("drift %q right after applying: %+v", drift, observed)
		}
		// The watch may have been faster, but never with the status of before.
		if observed.Generation <= int64(generation) || observed.Generation == int64(generation+1) && observed.Status == "" {
			t.Fatalf("observed %+v right after applying generation %d", observed, generation+1)
		}
		await(t, "the Deployment to be healthy", func() error {
			if health := b.cache.Health([]entryType{entry}); !health.Ready {
				return fmt.Errorf("%v", health.Waiting)
			}
			return nil
		})
		if observed, _ := b.cache.Get(entry); observed.Status != status.CurrentStatus || observed.ReadyReplicas != 1 {
			t.Fatalf("healthy, but observed %+v", observed)
		}
	}
}
