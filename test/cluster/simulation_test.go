package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

var appLabels = map[string]string{"app": "app"}

// template is a Pod template with one container of the given image.
func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: appLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
	}
}

func pods(ctx context.Context, client kubernetes.Interface, namespace string) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func TestDeploymentBecomesAvailableAndRollsOut(t *testing.T) {
	namespace, client := clustertest.Namespace(t), clustertest.Client(t)
	deployments := client.AppsV1().Deployments(namespace)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: appLabels}, Template: template("app:1"),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rolledOut := func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "app", metav1.GetOptions{})
		if err == nil && (d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != 2 ||
			d.Status.AvailableReplicas != 2 || d.Status.Replicas != 2) {
			err = fmt.Errorf("status %+v", d.Status)
		}
		return err
	}
	eventually(t, "first roll-out", rolledOut)
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:2"}]}}}}`
	if _, err := deployments.Patch(t.Context(), "app", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "second roll-out", rolledOut)
	eventually(t, "Pods of the first roll-out are gone", func(ctx context.Context) error {
		all, err := pods(ctx, client, namespace)
		if err != nil {
			return err
		}
		var images []string
		for _, pod := range all {
			images = append(images, pod.Spec.Containers[0].Image)
		}
		if !slices.Equal(images, []string{"app:2", "app:2"}) {
			return fmt.Errorf("images %v", images)
		}
		return nil
	})
}

func TestJobFinishes(t *testing.T) {
	namespace, client := clustertest.Namespace(t), clustertest.Client(t)
	for image, want := range map[string]batchv1.JobConditionType{"job:1": batchv1.JobComplete, "job:failing": batchv1.JobFailed} {
		for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
			job := &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "job-"},
				Spec:       batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: template(image)},
			}
			job.Spec.Template.Spec.RestartPolicy = policy
			job, err := client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, fmt.Sprintf("Job of image %s, restart policy %s: %s", image, policy, want), func(ctx context.Context) error {
				job, err := client.BatchV1().Jobs(namespace).Get(ctx, job.Name, metav1.GetOptions{})
				if err == nil && !slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
					return condition.Type == want && condition.Status == corev1.ConditionTrue
				}) {
					err = fmt.Errorf("conditions %+v", job.Status.Conditions)
				}
				return err
			})
		}
	}
}

// podState is what tells the outcomes apart.
type podState struct {
	Phase          corev1.PodPhase
	Ready          bool
	Waiting        string // reason
	TerminatedWith int32  // exit code; -1 when not terminated
}

func stateOf(pod *corev1.Pod) podState {
	state := podState{Phase: pod.Status.Phase, TerminatedWith: -1, Ready: slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil {
			state.Waiting = status.State.Waiting.Reason
		}
		if status.State.Terminated != nil {
			state.TerminatedWith = status.State.Terminated.ExitCode
		}
	}
	return state
}

func TestPodOutcomes(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	var (
		ready     = podState{corev1.PodRunning, true, "", -1}
		notReady  = podState{corev1.PodRunning, false, "", -1}
		noImage   = podState{corev1.PodPending, false, "ImagePullBackOff", -1}
		crashing  = podState{corev1.PodRunning, false, "CrashLoopBackOff", -1}
		failed    = podState{corev1.PodFailed, false, "", 1}
		succeeded = podState{corev1.PodSucceeded, false, "", 0}
	)
	for behaviour, tc := range map[string]struct {
		image, initImage, outcome string
		policy                    corev1.RestartPolicy
		want                      podState
	}{
		"any image runs":                     {image: "app:1", want: ready},
		"no tag":                             {image: "app", want: ready},
		"word in the repository":             {image: "broken/app:1", want: ready},
		"word in the registry's name":        {image: "not-ready.example:5000/app:1", want: ready},
		"tag cannot be pulled":               {image: "localhost:5000/app:v2-broken", want: noImage},
		"tag cannot be pulled, pinned":       {image: "app:broken" + digest, want: noImage},
		"init image cannot be pulled":        {image: "app:1", initImage: "init:broken", want: noImage},
		"init image runs":                    {image: "app:1", initImage: "init:1", want: ready},
		"tag never ready":                    {image: "app:not-ready", want: notReady},
		"tag fails":                          {image: "app:failing", want: crashing},
		"tag fails, may end":                 {image: "app:failing", policy: corev1.RestartPolicyNever, want: failed},
		"may end":                            {image: "app:1", policy: corev1.RestartPolicyNever, want: succeeded},
		"may end on success":                 {image: "app:1", policy: corev1.RestartPolicyOnFailure, want: succeeded},
		"annotation: cannot be pulled":       {image: "app:1", outcome: cluster.OutcomePullFails, want: noImage},
		"annotation: never ready":            {image: "app:1", outcome: cluster.OutcomeNotReady, want: notReady},
		"annotation: fails":                  {image: "app:1", outcome: cluster.OutcomeFails, want: crashing},
		"annotation wins over the tag":       {image: "app:broken", outcome: cluster.OutcomeReady, want: ready},
		"annotation wins over the tag's not": {image: "app:not-ready", outcome: cluster.OutcomeReady, want: ready},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			namespace, client := clustertest.Namespace(t), clustertest.Client(t)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: template(tc.image).Spec}
			pod.Spec.RestartPolicy = tc.policy
			if tc.initImage != "" {
				pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: tc.initImage}}
			}
			if tc.outcome != "" {
				pod.Annotations = map[string]string{cluster.OutcomeAnnotation: tc.outcome}
			}
			if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "outcome", func(ctx context.Context) error {
				pod, err := client.CoreV1().Pods(namespace).Get(ctx, "app", metav1.GetOptions{})
				if err != nil {
					return err
				}
				if diff := cmp.Diff(tc.want, stateOf(pod)); diff != "" {
					return fmt.Errorf("state (-want +got):\n%s", diff)
				}
				return nil
			})
		})
	}
}

func TestReadinessFollowsTheAnnotation(t *testing.T) {
	namespace, client := clustertest.Namespace(t), clustertest.Client(t)
	api := client.CoreV1().Pods(namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: template("app:1").Spec}
	if _, err := api.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		outcome string
		ready   bool
	}{{"", true}, {cluster.OutcomeNotReady, false}, {cluster.OutcomeReady, true}} {
		if step.outcome != "" {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, cluster.OutcomeAnnotation, step.outcome)
			if _, err := api.Patch(t.Context(), "app", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, fmt.Sprintf("readiness %t after annotation %q", step.ready, step.outcome), func(ctx context.Context) error {
			pod, err := api.Get(ctx, "app", metav1.GetOptions{})
			if err == nil && (pod.Status.Phase != corev1.PodRunning || stateOf(pod).Ready != step.ready) {
				err = fmt.Errorf("state %+v", stateOf(pod))
			}
			return err
		})
	}
}

func TestStartIsDelayedByTheAnnotation(t *testing.T) {
	namespace, client := clustertest.Namespace(t), clustertest.Client(t)
	const delay = time.Second
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app", Annotations: map[string]string{cluster.DelayAnnotation: delay.String()}}, Spec: template("app:1").Spec}
	begin := time.Now()
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a delayed start", func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, "app", metav1.GetOptions{})
		if err == nil && !stateOf(pod).Ready {
			err = fmt.Errorf("state %+v", stateOf(pod))
		}
		return err
	})
	if took := time.Since(begin); took < delay {
		t.Errorf("ready after %s; want at least %s", took, delay)
	}
}

func TestVolumeClaimsAreBoundAndReleased(t *testing.T) {
	namespace, client := clustertest.Namespace(t), clustertest.Client(t)
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	pod := template("app:1")
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	sets := client.AppsV1().StatefulSets(namespace)
	if _, err := sets.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), ServiceName: "app", Selector: &metav1.LabelSelector{MatchLabels: appLabels},
			Template: pod, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both Pods are ready", func(ctx context.Context) error {
		set, err := sets.Get(ctx, "app", metav1.GetOptions{})
		if err == nil && set.Status.AvailableReplicas != 2 {
			err = fmt.Errorf("status %+v", set.Status)
		}
		return err
	})
	claims := client.CoreV1().PersistentVolumeClaims(namespace)
	bound, err := claims.Get(t.Context(), "data-app-0", metav1.GetOptions{})
	if err != nil || bound.Spec.VolumeName == "" {
		t.Fatalf("claim %+v, %v; want a volume's name", bound.Spec, err)
	}
	if err := sets.Delete(t.Context(), "app", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := claims.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "volumes of deleted claims are gone", func(ctx context.Context) error {
		volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, volume := range volumes.Items {
			if volume.Spec.ClaimRef.Namespace == namespace {
				return fmt.Errorf("volume %s is %s", volume.Name, volume.Status.Phase)
			}
		}
		return nil
	})
}

// TestSettledPodsCauseNoWrites guards against a stage that matches what it has made, again and again.
func TestSettledPodsCauseNoWrites(t *testing.T) {
	c, namespace, client := clustertest.Cluster(t), clustertest.Namespace(t), clustertest.Client(t)
	for i, image := range []string{"app:1", "app:broken", "app:not-ready", "app:failing"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("app-%d", i)}, Spec: template(image).Spec}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Of a Pod made after the others, so played after them.
	last := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "last", Annotations: map[string]string{cluster.DelayAnnotation: "1s"}}, Spec: template("app:1").Spec}
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), last, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the last Pod is ready", func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, "last", metav1.GetOptions{})
		if err == nil && !stateOf(pod).Ready {
			err = fmt.Errorf("state %+v", stateOf(pod))
		}
		return err
	})
	writes, err := c.Requests(t.Context(), cluster.Mark{}, cluster.ByUser("kwok"), cluster.ByNamespace(namespace), cluster.Writes())
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, request := range writes {
		count[request.Name]++
	}
	want := map[string]int{"app-0": 1, "app-1": 1, "app-2": 1, "app-3": 1, "last": 1}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("kwok's writes by Pod (-want +got):\n%s", diff)
	}
}
