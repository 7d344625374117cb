package chart_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

const fieldManager = "chart-test"

// site is a namespace of the control plane that admits restricted pods only, and what a test does there.
type site struct {
	namespace string
	clients   kubernetes.Interface
	dynamic   dynamic.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	warnings  *warnings
}

// warnings collects what the API server remarks: pods that are not restricted, deprecated fields, duplicate names.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{warnings: &warnings{}}
	config := clustertest.Config(t)
	config.WarningHandler = s.warnings
	var err error
	if s.clients, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	s.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.clients.Discovery()))
	s.namespace = clustertest.Namespace(t)
	const restricted = `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/warn":"restricted"}}}`
	_, err = s.clients.CoreV1().Namespaces().Patch(t.Context(), s.namespace, types.MergePatchType, []byte(restricted), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// render renders a release for the namespace of the site, with the operator's kind of numbers.
func (s *site) render(t *testing.T, values map[string]any) []object {
	t.Helper()
	return mustRender(t, release{name: releaseName, namespace: s.namespace, values: values, integers: true}).objects(t)
}

func (s *site) resource(t *testing.T, o *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	kind := o.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		t.Fatal(err)
	}
	return s.dynamic.Resource(mapping.Resource).Namespace(s.namespace)
}

// apply applies an object server-side; a field the API server does not know is an error.
func (s *site) apply(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	force := true
	out, err := s.resource(t, o).Patch(t.Context(), o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		FieldManager: fieldManager, Force: &force, FieldValidation: metav1.FieldValidationStrict,
	})
	if err != nil {
		t.Fatalf("applying %s %s: %v\n%s", o.GetKind(), o.GetName(), err, toYAML(t, o.Object))
	}
	return out
}

func (s *site) applyAll(t *testing.T, objects []object) {
	t.Helper()
	for _, o := range objects {
		s.apply(t, o.Unstructured)
	}
}

// await waits until a condition holds, and fails the test with the condition's last word when it does not in time.
func await(t *testing.T, what string, condition func(context.Context) (done bool, state string, err error)) {
	t.Helper()
	state := ""
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (done bool, err error) {
		done, state, err = condition(ctx)
		return done, err
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v: %s", what, err, state)
	}
}

// awaitReady waits until all pods of a Deployment or StatefulSet are ready and none of an older template is left.
func (s *site) awaitReady(t *testing.T, workload *unstructured.Unstructured, replicas int64) {
	t.Helper()
	await(t, fmt.Sprintf("%d pods of %s", replicas, workload.GetKind()), func(ctx context.Context) (bool, string, error) {
		live, err := s.resource(t, workload).Get(ctx, workload.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		status, _, err := unstructured.NestedMap(live.Object, "status")
		if err != nil {
			return false, "", err
		}
		done := status["observedGeneration"] == live.GetGeneration() && status["replicas"] == replicas &&
			status["readyReplicas"] == replicas && status["updatedReplicas"] == replicas
		return done, fmt.Sprint(status), nil
	})
}

func (s *site) awaitGone(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	await(t, o.GetKind()+" "+o.GetName()+" to be gone", func(ctx context.Context) (bool, string, error) {
		_, err := s.resource(t, o).Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		return false, "it is still there", err
	})
}

// Every case is taken by the API server as it is, without a remark, into a namespace for restricted pods, and applying it
// again changes nothing.
func TestEveryRenderIsApplied(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			objects := s.render(t, caseValues(t, name))
			s.applyAll(t, objects)
			for _, o := range objects {
				before, err := s.resource(t, o.Unstructured).Get(t.Context(), o.GetName(), metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				after := s.apply(t, o.Unstructured)
				if before.GetGeneration() != after.GetGeneration() {
					t.Errorf("applying %s %s again changed its spec", o.GetKind(), o.GetName())
				}
				// Without a status nobody but us writes the object.
				if _, live := after.Object["status"]; !live && before.GetResourceVersion() != after.GetResourceVersion() {
					t.Errorf("applying %s %s again changed it", o.GetKind(), o.GetName())
				}
				if before.GetUID() != after.GetUID() {
					t.Errorf("%s %s was replaced", o.GetKind(), o.GetName())
				}
			}
			for _, warning := range s.warnings.list {
				t.Errorf("the API server warns: %s", warning)
			}
		})
	}
}

// The pods of a release become ready where only restricted ones are admitted.
func TestPodsBecomeReady(t *testing.T) {
	for name, test := range map[string]struct {
		values, kind string
		replicas     int64
	}{
		"as a Deployment":  {"replicaCount: 2", "Deployment", 2},
		"as a StatefulSet": {"{replicaCount: 2, logs: {persistLogs: true, persistTransactionLogs: true}}", "StatefulSet", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			objects := s.render(t, parseValues(t, test.values))
			s.applyAll(t, objects)
			s.awaitReady(t, find(t, objects, test.kind), test.replicas)

			pods, err := s.clients.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=server"})
			if err != nil {
				t.Fatal(err)
			}
			if len(pods.Items) != int(test.replicas) {
				t.Fatalf("%d pods, want %d", len(pods.Items), test.replicas)
			}
			for _, pod := range pods.Items {
				for _, volume := range pod.Spec.Volumes {
					if strings.HasPrefix(volume.Name, "kube-api-access") {
						t.Errorf("pod %s has a token for the API server", pod.Name)
					}
				}
			}
			s.awaitEndpoints(t, "plants-ibm-websphere-liberty", int(test.replicas))
		})
	}
}

// awaitEndpoints waits until the Service sends requests to a number of ready pods.
func (s *site) awaitEndpoints(t *testing.T, service string, want int) {
	t.Helper()
	await(t, fmt.Sprintf("%d endpoints of Service %s", want, service), func(ctx context.Context) (bool, string, error) {
		slices, err := s.clients.DiscoveryV1().EndpointSlices(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
		if err != nil {
			return false, "", err
		}
		ready := 0
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
					ready++
				}
			}
		}
		return ready == want, fmt.Sprintf("%d ready", ready), nil
	})
}

// Logs can be made persistent and back: the new workload comes up beside the old one under the same name, the Service
// reaches both, and the pods of the new one survive the removal of the old one.
func TestSwitchBetweenDeploymentAndStatefulSet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	plain := parseValues(t, "logs: {persistLogs: false}")
	persistent := parseValues(t, "logs: {persistLogs: true}")

	objects := s.render(t, plain)
	s.applyAll(t, objects)
	current := find(t, objects, "Deployment")
	s.awaitReady(t, current, 1)
	for _, step := range []struct {
		kind   string
		values map[string]any
	}{{"StatefulSet", persistent}, {"Deployment", plain}} {
		objects := s.render(t, step.values)
		s.applyAll(t, objects)
		next := find(t, objects, step.kind)
		s.awaitReady(t, next, 1)
		s.awaitEndpoints(t, "plants-ibm-websphere-liberty", 2)
		uid := s.podUIDs(t, step.kind)

		foreground := metav1.DeletePropagationForeground
		if err := s.resource(t, current).Delete(t.Context(), current.GetName(), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
		s.awaitGone(t, current)
		s.awaitEndpoints(t, "plants-ibm-websphere-liberty", 1)
		s.awaitReady(t, next, 1)
		if after := s.podUIDs(t, step.kind); after != uid {
			t.Errorf("the pods of the %s were replaced: %s, before %s", step.kind, after, uid)
		}
		current = next
	}
}

// podUIDs names the pods of the Deployment (which belong to a ReplicaSet) or of the StatefulSet.
func (s *site) podUIDs(t *testing.T, kind string) string {
	t.Helper()
	owner := map[string]string{"Deployment": "ReplicaSet", "StatefulSet": "StatefulSet"}[kind]
	pods, err := s.clients.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var uids []string
	for _, pod := range pods.Items {
		if ref := metav1.GetControllerOf(&pod); ref != nil && ref.Kind == owner {
			uids = append(uids, string(pod.UID))
		}
	}
	return strings.Join(uids, " ")
}
