package apply

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

func ourEntry(fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		Time: &metav1.Time{Time: time.Unix(1, 0)}, FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestManagedDigestDependsOnOurFieldsAlone(t *testing.T) {
	base := ourEntry(`{"f:data":{".":{},"f:a":{},"f:b":{}},"f:metadata":{"f:labels":{"f:x":{}}}}`)
	other := base
	other.Manager = "kubectl"
	later := base
	later.Time = &metav1.Time{Time: time.Unix(2, 0)}
	update := base
	update.Operation = metav1.ManagedFieldsOperationUpdate
	scale := base
	scale.Subresource = "scale"

	same := map[string][]metav1.ManagedFieldsEntry{
		"alone":                 {base},
		"among others":          {other, update, scale, base},
		"at another time":       {later},
		"keys in another order": {ourEntry(`{"f:metadata":{"f:labels":{"f:x":{}}},"f:data":{"f:b":{},"f:a":{},".":{}}}`)},
	}
	want := ManagedDigest([]metav1.ManagedFieldsEntry{base})
	if !strings.HasPrefix(want, "1:") || len(want) != len("1:")+32 {
		t.Fatalf("digest = %q, want a recipe version and 16 bytes in hex", want)
	}
	for name, entries := range same {
		if got := ManagedDigest(entries); got != want {
			t.Errorf("%s: digest = %q, want %q", name, got, want)
		}
		if got := unstructuredManagedDigest(withManagedFields(t, entries)); got != want {
			t.Errorf("%s, unstructured: digest = %q, want %q", name, got, want)
		}
	}
	none := map[string][]metav1.ManagedFieldsEntry{
		"no entries": nil, "only others": {other, update, scale}, "no fields": {{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply}},
	}
	for name, entries := range none {
		if got := ManagedDigest(entries) + unstructuredManagedDigest(withManagedFields(t, entries)); got != "" {
			t.Errorf("%s: digest = %q, want none", name, got)
		}
	}
	if got := ManagedDigest([]metav1.ManagedFieldsEntry{ourEntry(`{"f:data":{".":{},"f:a":{}},"f:metadata":{"f:labels":{"f:x":{}}}}`)}); got == want {
		t.Error("a field less has the same digest")
	}
}

func withManagedFields(t testing.TB, entries []metav1.ManagedFieldsEntry) *unstructured.Unstructured {
	t.Helper()
	data, err := json.Marshal(metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries}})
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestObjectDigest(t *testing.T) {
	a := parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: "1", y: "2"}}`)
	b := parse(t, `{kind: ConfigMap, data: {y: "2", x: "1"}, metadata: {name: a}, apiVersion: v1}`)
	if ObjectDigest(a) != ObjectDigest(b) {
		t.Error("the order of keys changes the digest")
	}
	b.Object["data"].(map[string]any)["x"] = "3"
	if ObjectDigest(a) == ObjectDigest(b) {
		t.Error("another value has the same digest")
	}
}

// The fixture is a Deployment of the size a chart renders, with the entries of
// a status and an autoscaler besides ours.
func benchmarkDeployment(b testing.TB, i int) *unstructured.Unstructured {
	container := func(name string) string {
		return fmt.Sprintf(`{name: %s, image: "registry.example.com/%s:1.0", ports: [{containerPort: 9443, protocol: TCP}],
		  env: [{name: A, value: b}, {name: C, value: d}, {name: E, value: f}], resources: {limits: {cpu: "1", memory: 1Gi}},
		  readinessProbe: {httpGet: {path: /health, port: 9443, scheme: HTTPS}, periodSeconds: 5}, volumeMounts: [{name: v, mountPath: /v}]}`, name, name)
	}
	obj := parse(b, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: app-%d, namespace: shop, uid: 0f0f0f0f-0000-0000-0000-%012d, resourceVersion: "%d", generation: 3,
	  labels: {app: app-%d, chart: ibm-websphere-liberty}},
	  spec: {replicas: 2, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [%s, %s], volumes: [{name: v, emptyDir: {}}]}}},
	  status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]}}`,
		i, i, i+1, i, container("app"), container("sidecar")))
	plants().Mark(obj, true)
	obj.SetUID(types.UID(fmt.Sprintf("0f0f0f0f-0000-0000-0000-%012d", i)))
	obj.SetResourceVersion(fmt.Sprint(i + 1))
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{
		ourEntry(`{"f:metadata":{"f:annotations":{"f:meta.helm.sh/release-name":{},"f:meta.helm.sh/release-namespace":{},"f:operator-sdk/primary-resource":{},"f:operator-sdk/primary-resource-type":{}},"f:labels":{"f:app":{},"f:app.kubernetes.io/managed-by":{},"f:chart":{},"f:helm.sdk.operatorframework.io/owner-kind":{}},"f:ownerReferences":{"k:{\"uid\":\"u1\"}":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"C\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"E\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":9443,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:readinessProbe":{"f:httpGet":{"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{}},"f:resources":{"f:limits":{"f:cpu":{},"f:memory":{}}},"f:volumeMounts":{"k:{\"mountPath\":\"/v\"}":{".":{},"f:mountPath":{},"f:name":{}}}},"k:{\"name\":\"sidecar\"}":{".":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"C\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"E\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":9443,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:readinessProbe":{"f:httpGet":{"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{}},"f:resources":{"f:limits":{"f:cpu":{},"f:memory":{}}},"f:volumeMounts":{"k:{\"mountPath\":\"/v\"}":{".":{},"f:mountPath":{},"f:name":{}}}}},"f:volumes":{"k:{\"name\":\"v\"}":{".":{},"f:emptyDir":{},"f:name":{}}}}}}}`),
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", APIVersion: "apps/v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:availableReplicas":{},"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:status":{},"f:type":{}}},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:updatedReplicas":{}}}`)},
	})
	return obj
}

func benchmarkMetadata(b testing.TB, i int) *metav1.PartialObjectMetadata {
	u := benchmarkDeployment(b, i)
	data, err := u.MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	out := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(data, out); err != nil {
		b.Fatal(err)
	}
	return out
}

func BenchmarkManagedDigest(b *testing.B) {
	entries := benchmarkMetadata(b, 0).ManagedFields
	b.ReportAllocs()
	for b.Loop() {
		ManagedDigest(entries)
	}
}

func BenchmarkObjectDigest(b *testing.B) {
	obj := benchmarkDeployment(b, 0)
	unstructured.RemoveNestedField(obj.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(obj.Object, "status")
	b.ReportAllocs()
	for b.Loop() {
		ObjectDigest(obj)
	}
}

func BenchmarkProject(b *testing.B) {
	inputs := map[string]any{"Deployment": benchmarkDeployment(b, 0), "Metadata": benchmarkMetadata(b, 0)}
	for name, input := range inputs {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := project(input); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDrifted(b *testing.B) {
	deployment := benchmarkDeployment(b, 0)
	it, err := project(deployment)
	if err != nil {
		b.Fatal(err)
	}
	entry := Entry(deployment)
	entry.UID, entry.Managed = it.UID, it.Managed
	b.ReportAllocs()
	for b.Loop() {
		if _, is := plants().Drifted(entry, it.Observed, true); is {
			b.Fatal("the object is as recorded")
		}
	}
}

// BenchmarkCachedObject reports the heap that one cached object keeps.
func BenchmarkCachedObject(b *testing.B) {
	const objects = 2000
	for b.Loop() {
		s := newStore(true, func(ownerRef) {}, func() {}, clock.RealClock{})
		before := heap()
		for i := range objects {
			if err := s.Add(benchmarkDeployment(b, i)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/objects, "heap-B/object")
		runtime.KeepAlive(s)
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
