package apply_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

func TestStatusTicksEnqueueNobody(t *testing.T) {
	tests := map[string]struct {
		manifest string
		tick     string
	}{
		"Gadget":     {"{apiVersion: example.com/v1, kind: Gadget, metadata: {name: app}, spec: {size: 1}}", `{"status":{"heartbeat":%d}}`},
		"Deployment": {deployment, `{"status":{"conditions":[{"type":"Tick","status":"True","reason":"r%[1]d","message":"m"},{"type":"Available","status":"True","lastUpdateTime":"2026-01-01T00:00:0%[1]dZ"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, options{})
			obj, entry := b.install(test.manifest)
			b.awaitHealthy(entry)
			b.settle(obj)
			b.enqueued.take()
			before := b.get(obj).GetResourceVersion()
			for i := range 5 {
				b.patch(obj, fmt.Sprintf(test.tick, i), "status")
			}
			if b.get(obj).GetResourceVersion() == before {
				t.Fatal("the ticks changed nothing, so the test shows nothing")
			}
			b.settle(obj)
			if names := b.enqueued.take(); len(names) > 0 {
				t.Errorf("enqueued %v", names)
			}
			b.awaitDrift(entry, "")
		})
	}
}

func (b *bench) awaitHealthy(entries ...entryType) {
	b.Helper()
	await(b.T, "health", func() error {
		health := b.cache.Health(entries)
		if !health.Ready {
			return fmt.Errorf("%+v", health)
		}
		return nil
	})
}

func TestDriftMadeWhileTheOperatorWasDown(t *testing.T) {
	b := newBench(t, options{notStarted: true})
	var entries []entryType
	var objs []*unstructured.Unstructured
	for _, name := range []string{"changed", "deleted", "same"} {
		obj := b.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, data: {a: b}}")
		objs, entries = append(objs, obj), append(entries, b.apply(obj, ""))
	}
	b.patch(objs[0], `{"data":{"a":"x"}}`)
	b.delete(objs[1])

	if observed, exists := b.cache.Get(entries[0]); exists || !observed.Unknown {
		t.Errorf("before the start: %+v, %v, want unknown", observed, exists)
	}
	kind := objs[0].GroupVersionKind()
	b.use(kind) // not started: it must not wait
	b.start()
	b.awaitEnqueued()
	for i, want := range []apply.Drift{apply.DriftModified, apply.DriftDeleted, ""} {
		b.awaitDrift(entries[i], want)
	}
}

func TestNamespaces(t *testing.T) {
	other := clustertest.Namespace(t)
	third := clustertest.Namespace(t)
	tests := map[string]struct {
		namespaces func(own string) []string
		seen       func(own string) []string
	}{
		"all":     {func(string) []string { return nil }, func(own string) []string { return []string{own, other, third} }},
		"one":     {func(own string) []string { return []string{own} }, func(own string) []string { return []string{own} }},
		"several": {func(own string) []string { return []string{own, other} }, func(own string) []string { return []string{own, other} }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, options{namespaces: test.namespaces})
			kinds := []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "PersistentVolumeClaim"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}}
			b.use(kinds...)
			for _, namespace := range []string{b.namespace, other, third} {
				obj := b.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: " + b.namespace + ", namespace: " + namespace + "}, data: {a: b}}")
				entry := b.apply(obj, "")
				observed, exists := b.cache.Get(entry)
				if seen := slices.Contains(test.seen(b.namespace), namespace); exists != seen || observed.Unknown == seen {
					t.Errorf("in %s: %+v, %v; want seen %v", namespace, observed, exists, seen)
				} else if seen {
					b.patch(obj, `{"data":{"a":"x"}}`)
					b.awaitDrift(entry, apply.DriftModified)
				}
				// A claim that does not exist is waited for, but not where it never would be seen.
				seen := slices.Contains(test.seen(b.namespace), namespace)
				claim := entryType{Version: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: "app"}
				if health := b.cache.Health([]entryType{claim}); health.Ready == seen || observed.Unwatched == seen {
					t.Errorf("in %s: health %+v, observed %+v; want seen %v", namespace, health, observed, seen)
				}
				if drift, is := b.owner.Drifted(entry, observed, exists); is {
					t.Errorf("drift %q in %s right after applying", drift, namespace)
				}
			}
			role := b.wanted("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NAMESPACE-role}, rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}")
			b.removeAfter(role)
			entry := b.apply(role, "")
			b.patch(role, `{"rules":[]}`)
			b.awaitDrift(entry, apply.DriftModified)
		})
	}
}

// The rights that are missing in one namespace are the trouble of its releases
// alone.
func TestANamespaceThatMayNotBeWatchedConcernsItsReleasesAlone(t *testing.T) {
	other := clustertest.Namespace(t)
	cfg := rest.CopyConfig(clustertest.Config(t))
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "operator-of-" + other, Groups: []string{"system:authenticated"}}
	b := newBench(t, options{config: cfg, namespaces: func(own string) []string { return []string{own, other} }})
	for _, manifest := range []string{
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: watch, namespace: NAMESPACE}, rules: [{apiGroups: [''], resources: [configmaps], verbs: [list, watch]}]}",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: watch, namespace: NAMESPACE}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: watch}, subjects: [{kind: User, name: " + cfg.Impersonate.UserName + "}]}",
	} {
		obj := b.parse(manifest)
		must(b.resource(obj).Create(t.Context(), obj, metav1.CreateOptions{}))(t)
	}
	kinds := []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}
	await(t, "the right to watch the own namespace", func() error { return b.cache.Use(t.Context(), b.owner, kinds) })
	neighbour := b.owner
	neighbour.Namespace, neighbour.ReleaseNamespace = other, other
	var forbidden *apply.ForbiddenError
	if err := b.cache.Use(t.Context(), neighbour, kinds); !errors.As(err, &forbidden) || forbidden.Namespace != other {
		t.Errorf("error %v, want that watching %s is forbidden", err, other)
	}
	if err := b.cache.Use(t.Context(), b.owner, kinds); err != nil || !b.watched(kinds[0]) {
		t.Errorf("error %v, watched %v; want the own namespace watched all the same", err, b.watched(kinds[0]))
	}
}

func TestKindsAreWatchedWhileAReleaseHasThem(t *testing.T) {
	b := newBench(t, options{})
	first, second := b.owner, b.app("trees")
	configMap, secret := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, secretKind
	use := func(owner apply.Owner, kinds ...schema.GroupVersionKind) []string {
		return b.requests.during(func() {
			if err := b.cache.Use(t.Context(), owner, kinds); err != nil {
				t.Error(err)
			}
		})
	}
	if requests := use(first, configMap, secret, configMap); len(requests) != 2 || !b.watched(configMap) || !b.watched(secret) {
		t.Errorf("starting took %v, want a watch for each of two kinds", requests)
	}
	for _, again := range []apply.Owner{first, second} {
		if requests := use(again, configMap, secret); len(requests) > 0 {
			t.Errorf("using what is watched took %v", requests)
		}
	}
	use(first, configMap)
	if !b.watched(secret) {
		t.Error("a kind that the other release has is not watched any more")
	}
	use(second, configMap)
	if b.watched(secret) {
		t.Error("a kind that no release has is still watched")
	}
	b.cache.Release(first)
	b.cache.Release(second)
	b.cache.Release(second)
	if b.watched(configMap) {
		t.Error("a kind of no release is still watched")
	}
	if requests := use(first, secret); len(requests) != 1 || !b.watched(secret) {
		t.Errorf("coming back to a kind took %v", requests)
	}
}

func TestOtherOperatorsObjectsAreNotCached(t *testing.T) {
	b := newBench(t, options{})
	b.use(secretKind)
	for name, labels := range map[string]string{"plain": "", "other": apply.OwnerLabel + ": " + apply.LabelValue(schema.GroupKind{Group: "other.example.com", Kind: "App"})} {
		obj := b.parse("{apiVersion: v1, kind: Secret, metadata: {name: " + name + ", namespace: NAMESPACE, labels: {" + labels + "}}}")
		must(b.resource(obj).Create(t.Context(), obj, metav1.CreateOptions{}))(t)
		b.settle(b.parse("{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: NAMESPACE}}"))
		if observed, exists := b.cache.Get(apply.Entry(obj)); exists {
			t.Errorf("%s is cached: %+v", name, observed)
		}
	}
}

func TestHealth(t *testing.T) {
	const pod = `{metadata: {labels: {app: %[1]s}}, spec: {restartPolicy: %[2]s, containers: [{name: app, image: "example.com/app:%[3]s"}]}}`
	workload := func(kind, extra, image string) string {
		return "{apiVersion: apps/v1, kind: " + kind + ", metadata: {name: app}, spec: {" + extra + "selector: {matchLabels: {app: app}}, template: " + fmt.Sprintf(pod, "app", "Always", image) + "}}"
	}
	job := func(image string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: app}, spec: {backoffLimit: 0, template: " + fmt.Sprintf(pod, "app", "Never", image) + "}}"
	}
	claim := func(class string) string {
		return "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: app}, spec: {storageClassName: " + class + ", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
	}
	tests := map[string]struct {
		manifests []string // applied one after the other
		want      apply.Health
	}{
		"a Deployment that runs":      {[]string{workload("Deployment", "replicas: 2, ", "1")}, apply.Health{Ready: true, Replicas: 2, ReadyReplicas: 2}},
		"a Deployment scaled to zero": {[]string{workload("Deployment", "replicas: 0, ", "1")}, apply.Health{Ready: true}},
		"a Deployment that does not":  {[]string{workload("Deployment", "replicas: 2, ", "not-ready")}, apply.Health{Waiting: []string{"Deployment/app: Available: 0/2"}, Replicas: 2}},
		"a Deployment whose roll-out hangs": {
			[]string{workload("Deployment", "replicas: 2, ", "1"), workload("Deployment", "replicas: 2, ", "broken")},
			apply.Health{Waiting: []string{"Deployment/app: Updated: 1/2"}, Replicas: 3, ReadyReplicas: 2},
		},
		"a Deployment whose roll-out timed out": {
			[]string{workload("Deployment", "progressDeadlineSeconds: 1, minReadySeconds: 0, ", "not-ready")},
			apply.Health{Failed: []string{"Deployment/app: Progress deadline exceeded"}, Replicas: 1},
		},
		"a StatefulSet that runs":     {[]string{workload("StatefulSet", "serviceName: app, replicas: 2, ", "1")}, apply.Health{Ready: true, Replicas: 2, ReadyReplicas: 2}},
		"a StatefulSet that does not": {[]string{workload("StatefulSet", "serviceName: app, replicas: 2, ", "not-ready")}, apply.Health{Waiting: []string{"StatefulSet/app: Replicas: 1/2"}, Replicas: 1}},
		"a StatefulSet that rolled out": {
			[]string{workload("StatefulSet", "serviceName: app, ", "1"), workload("StatefulSet", "serviceName: app, ", "2")},
			apply.Health{Ready: true, Replicas: 1, ReadyReplicas: 1},
		},
		"a DaemonSet that runs": {[]string{workload("DaemonSet", "", "1")}, apply.Health{Ready: true, Replicas: 1, ReadyReplicas: 1}},
		"a Job that succeeds":   {[]string{job("1")}, apply.Health{Ready: true}},
		"a Job that fails":      {[]string{job("failing")}, apply.Health{Failed: []string{"Job/app: Job Failed. failed: 1/1"}}},
		"a claim that is bound": {[]string{claim("simulated")}, apply.Health{Ready: true}},
		"a claim that is not":   {[]string{claim("none")}, apply.Health{Waiting: []string{"PersistentVolumeClaim/app: PVC is not Bound. phase: Pending"}}},
		"what has no health":    {[]string{"{apiVersion: v1, kind: Service, metadata: {name: app}, spec: {ports: [{port: 80}]}}"}, apply.Health{Ready: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options{})
			var entry entryType
			for i, manifest := range test.manifests {
				if _, entry = b.install(manifest); i < len(test.manifests)-1 {
					b.awaitHealthy(entry)
				}
			}
			b.awaitHealth(test.want, entry)
		})
	}
}

func (b *bench) awaitHealth(want apply.Health, entries ...entryType) {
	b.Helper()
	await(b.T, fmt.Sprintf("health %+v", want), func() error {
		if got := b.cache.Health(entries); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
}

func TestAJobThatTheClusterRemovesIsNoDrift(t *testing.T) {
	b := newBench(t, options{})
	obj, entry := b.install(`{apiVersion: batch/v1, kind: Job, metadata: {name: app}, spec: {ttlSecondsAfterFinished: 1, template: {spec: {restartPolicy: Never, containers: [{name: app, image: "example.com/app:1"}]}}}}`)
	if !apply.Expires(obj) {
		t.Error("the Job is not one that expires")
	}
	b.awaitHealthy(entry)
	await(t, "the Job to be removed", func() error {
		observed, exists := b.cache.Get(entry)
		if exists {
			return fmt.Errorf("observed %+v", observed)
		}
		if drift, is := b.owner.Drifted(entry, observed, exists); is || !observed.Completed {
			t.Errorf("drift %q, observed %+v; want it completed", drift, observed)
		}
		return nil
	})
	b.awaitHealthy(entry)
}

func TestHealthFollows(t *testing.T) {
	b := newBench(t, options{})
	obj, entry := b.install("{apiVersion: example.com/v1, kind: Gadget, metadata: {name: app}, spec: {size: 1}}")
	_, plain := b.install("{apiVersion: v1, kind: ConfigMap, metadata: {name: app}}")
	b.use(obj.GroupVersionKind(), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	b.awaitHealth(apply.Health{Ready: true}, entry, plain)
	for _, step := range []struct {
		status string
		want   apply.Health
	}{
		{`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Brewing","message":"still brewing"}]}}`, apply.Health{Waiting: []string{"Gadget/app: still brewing"}}},
		{`{"status":{"conditions":[{"type":"Stalled","status":"True","reason":"Empty","message":"no beans"}]}}`, apply.Health{Failed: []string{"Gadget/app: no beans"}}},
		{`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, apply.Health{Ready: true}},
		{`{"status":{"conditions":"none of what they should be"}}`, apply.Health{Ready: true}},
	} {
		b.enqueued.take()
		b.patch(obj, step.status, "status")
		b.awaitHealth(step.want, entry, plain)
	}
	b.delete(obj)
	b.awaitHealth(apply.Health{Waiting: []string{"Gadget/app: does not exist"}}, entry, plain)
	b.cache.Release(b.owner)
	b.awaitHealth(apply.Health{Waiting: []string{"Gadget/app: not observed yet"}}, entry, plain)
}

// A workload that falls ill or recovers has to reach the owner's status.
func TestHealthChangesEnqueueTheOwner(t *testing.T) {
	b := newBench(t, options{})
	obj, entry := b.install(deployment)
	b.awaitHealthy(entry)
	b.settle(obj)
	b.enqueued.take()
	b.patch(obj, `{"spec":{"template":{"metadata":{"annotations":{"cluster.test/outcome":"not-ready"}}}}}`)
	await(t, "the owner to be enqueued while the roll-out hangs", func() error {
		if health := b.cache.Health([]entryType{entry}); health.Ready || !slices.Contains(b.enqueued.take(), b.owner.Name) {
			return errors.New("not yet")
		}
		return nil
	})
}

func TestALongMessageIsCut(t *testing.T) {
	b := newBench(t, options{})
	obj, entry := b.install("{apiVersion: example.com/v1, kind: Gadget, metadata: {name: app}, spec: {size: 1}}")
	b.patch(obj, `{"status":{"conditions":[{"type":"Ready","status":"False","message":"`+strings.Repeat("x", 30000)+`"}]}}`, "status")
	await(t, "the message", func() error {
		health := b.cache.Health([]entryType{entry})
		if len(health.Waiting) != 1 || !strings.Contains(health.Waiting[0], "xxx") {
			return fmt.Errorf("%+v", health)
		}
		if len(health.Waiting[0]) > 1100 {
			t.Errorf("a message of %d bytes", len(health.Waiting[0]))
		}
		return nil
	})
}

// What happens while the API server is away is seen when it is back.
func TestTheWatchSurvivesARestartOfTheAPIServer(t *testing.T) {
	controlPlane := clustertest.Cluster(t)
	b := newBench(t, options{})
	obj, entry := b.install("{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b}}")
	b.awaitDrift(entry, "")
	if err := controlPlane.Restart(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	b.patch(obj, `{"data":{"a":"x"}}`)
	b.awaitDrift(entry, apply.DriftModified)
	b.expectHealed(obj, entry, entry.UID)
}
