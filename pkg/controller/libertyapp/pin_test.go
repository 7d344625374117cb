package libertyapp

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
)

// Digests that stand for what registries give.
var (
	one   = "sha256:" + strings.Repeat("1", 64)
	two   = "sha256:" + strings.Repeat("2", 64)
	three = "sha256:" + strings.Repeat("3", 64)
)

func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// stored marks an object as one of the release's own.
func stored(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj.SetLabels(map[string]string{apply.OwnerLabel: "libertyapp.liberty.ibm.com"})
	return obj
}

func imagesIn(obj *unstructured.Unstructured) []string {
	var out []string
	for _, written := range containers(podTemplate(obj)) {
		out = append(out, written)
	}
	return out
}

// workload is a manifest of a kind whose pod has these images: the first in an
// init container, the others in containers.
func workload(t *testing.T, apiVersion, kind string, images ...string) *unstructured.Unstructured {
	t.Helper()
	spec := map[string]any{"initContainers": []any{map[string]any{"name": "init", "image": images[0]}}, "containers": []any{}}
	for i, name := range images[1:] {
		c := map[string]any{"name": string(rune('a' + i)), "image": name}
		spec["containers"] = append(spec["containers"].([]any), c)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "x"}}}
	switch kind {
	case "Pod":
		obj.Object["spec"] = spec
	case "PodTemplate":
		obj.Object["template"] = map[string]any{"spec": spec}
	case "CronJob":
		obj.Object["spec"] = map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}}
	default:
		obj.Object["spec"] = map[string]any{"template": map[string]any{"spec": spec}}
	}
	return obj
}

const app = "registry.example:5000/team/app:1.0"

// pinning is a pass in which app, and what is included, has the digest one.
func pinning(include ...string) *pinned {
	return &pinned{
		images: &images{}, memory: &follower{},
		pass: &reconciler.Pass{
			Key: reconciler.Key{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "x"}}, Status: &releasev1alpha1.Status{},
		},
		wish: wish{mode: releasev1alpha1.PinDigest, app: app, include: include},
		pins: map[string]string{app: one, "sidecar": one},
	}
}

func TestTransformPinsEveryKindOfWorkload(t *testing.T) {
	for kind, apiVersion := range map[string]string{
		"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1",
		"ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1", "Pod": "v1", "PodTemplate": "v1",
		"Rollout": "argoproj.io/v1alpha1",
	} {
		t.Run(kind, func(t *testing.T) {
			obj := workload(t, apiVersion, kind, app, app, "sidecar")
			p := pinning()
			for range 2 { // doing it twice is doing it once
				if err := p.Transform(obj); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{app + "@" + one, app + "@" + one, "sidecar"}, imagesIn(obj)); diff != "" {
					t.Errorf("images differ (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestTransformLeavesOtherObjectsAlone(t *testing.T) {
	for name, manifest := range map[string]string{
		"a ConfigMap":                  "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {image: '" + app + "'}}",
		"a template of something else": "{apiVersion: example.com/v1, kind: Tpl, spec: {template: {spec: {image: '" + app + "'}}}}",
		"a Pod of another group":       "{apiVersion: example.com/v1, kind: Pod, spec: {containers: [{image: '" + app + "'}]}}",
	} {
		t.Run(name, func(t *testing.T) {
			obj, before := object(t, manifest), object(t, manifest)
			if err := pinning().Transform(obj); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Object, obj.Object); diff != "" {
				t.Errorf("changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestTransformOfImages(t *testing.T) {
	earlier := []releasev1alpha1.ImageStatus{{Image: app, Digest: one, Pinned: three}, {Image: "sidecar", Digest: one, Pinned: three}}
	for name, c := range map[string]struct {
		include []string
		pins    map[string]string
		mode    releasev1alpha1.PinMode
		app     string
		fresh   bool
		given   string
		want    string
	}{
		"an older pin of ours is replaced":                        {given: app + "@" + three, want: app + "@" + one},
		"a digest of the user stays":                              {given: app + "@" + two, want: app + "@" + two},
		"a digest of the user stays where no tag is":              {given: "other@" + two, want: "other@" + two},
		"an image that is not followed stays":                     {given: "other:1", want: "other:1"},
		"the same repository with another tag stays":              {given: "registry.example:5000/team/app:1.1", want: "registry.example:5000/team/app:1.1"},
		"the port is not taken for a tag":                         {given: "registry.example:5000/team/app", want: "registry.example:5000/team/app"},
		"an unpinned image is pinned":                             {given: app, want: app + "@" + one},
		"an unknown digest pins nothing":                          {pins: map[string]string{}, given: app, want: app},
		"an included image is pinned":                             {include: []string{"sidecar"}, given: "sidecar", want: "sidecar@" + one},
		"a star includes all":                                     {include: []string{"*"}, given: "sidecar", want: "sidecar@" + one},
		"a pin of ours that is no longer included goes":           {given: "sidecar@" + three, want: "sidecar"},
		"switching off takes our pin away":                        {mode: releasev1alpha1.PinOff, given: app + "@" + three, want: app},
		"switching off leaves the user's digest":                  {mode: releasev1alpha1.PinOff, given: app + "@" + two, want: app + "@" + two},
		"the annotation takes the place of a pin":                 {mode: releasev1alpha1.PinAnnotation, given: app + "@" + three, want: app},
		"a user who writes the digest that is pinned keeps it":    {fresh: true, app: app + "@" + three, given: app + "@" + three, want: app + "@" + three},
		"what is no reference stays for the kubelet to complain":  {app: "Bad Image", pins: map[string]string{"Bad Image": one}, given: "Bad Image", want: "Bad Image"},
		"an image without tag is pinned without one":              {app: "plain", pins: map[string]string{"plain": one}, given: "plain", want: "plain@" + one},
		"a registry with a port and no tag is pinned without one": {app: "r:5000/p", pins: map[string]string{"r:5000/p": one}, given: "r:5000/p", want: "r:5000/p@" + one},
	} {
		t.Run(name, func(t *testing.T) {
			p := pinning(c.include...)
			p.before = earlier
			if c.mode != "" {
				p.wish.mode = c.mode
			}
			if c.app != "" {
				p.wish.app = c.app
			}
			if c.pins != nil {
				p.pins = c.pins
			}
			if c.mode == releasev1alpha1.PinOff {
				p.pins = map[string]string{}
			}
			p.stored = !c.fresh
			obj := workload(t, "apps/v1", "StatefulSet", c.given, c.given)
			if err := p.Transform(obj); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.want, c.want}, imagesIn(obj)); diff != "" {
				t.Errorf("images differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnnotationMode(t *testing.T) {
	obj := object(t, `
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    metadata:
      annotations: {mine: kept}
    spec:
      containers:
      - {name: a, image: `+app+`}
      - {name: b, image: `+app+`}
`)
	annotations := func() map[string]string {
		out, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "template", "metadata", "annotations")
		return out
	}
	p := pinning()
	p.wish.mode = releasev1alpha1.PinAnnotation
	for range 2 {
		if err := p.Transform(obj); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"mine": "kept", AnnotationImageDigests: app + "@" + one}
		if diff := cmp.Diff(want, annotations()); diff != "" {
			t.Errorf("annotations differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{app, app}, imagesIn(obj)); diff != "" {
			t.Errorf("images differ (-want +got):\n%s", diff)
		}
	}
	// Back to pinning: the annotation goes again.
	if err := pinning().Transform(obj); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"mine": "kept"}, annotations()); diff != "" {
		t.Errorf("annotations differ (-want +got):\n%s", diff)
	}
}

// oneJob stands in for the API server where one Job is asked for.
type oneJob struct {
	client.Reader
	live *unstructured.Unstructured
	gets int
}

func (c *oneJob) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.gets++
	if c.live == nil || c.live.GetName() != key.Name || key.Namespace != "ns" {
		return apierrors.NewNotFound(schema.GroupResource{Group: "batch", Resource: "jobs"}, key.Name)
	}
	into.(*unstructured.Unstructured).Object = c.live.DeepCopy().Object
	return nil
}

func TestJobsKeepWhatTheyWereMadeWith(t *testing.T) {
	inventory := []releasev1alpha1.InventoryEntry{{Group: "batch", Version: "v1", Kind: "Job", Namespace: "ns", Name: "x"}}
	job := func(name string) *unstructured.Unstructured { return workload(t, "batch/v1", "Job", name, name) }
	for name, c := range map[string]struct {
		inventory []releasev1alpha1.InventoryEntry
		live      *unstructured.Unstructured
		given     *unstructured.Unstructured
		want      string
		gets      int
	}{
		"a new Job is pinned":                                  {given: job(app), want: app + "@" + one},
		"fresh from the chart it gets the Job's digest":        {inventory: inventory, live: job(app + "@" + three), given: job(app), want: app + "@" + three, gets: 1},
		"fresh from the chart it stays unpinned as the Job":    {inventory: inventory, live: job(app), given: job(app), want: app, gets: 1},
		"a stored one stays":                                   {inventory: inventory, given: job(app + "@" + three), want: app + "@" + three},
		"one that went meanwhile is made anew, pinned":         {inventory: inventory, given: job(app), want: app + "@" + one, gets: 1},
		"another image of the chart is the chart's difference": {inventory: inventory, live: job("old:1@" + three), given: job("new:1"), want: "new:1", gets: 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := &oneJob{live: c.live}
			p := pinning()
			p.images.live = api
			p.pass.Status.Inventory = c.inventory
			p.before = []releasev1alpha1.ImageStatus{{Image: app, Digest: one, Pinned: three}}
			if err := p.readJobs(t.Context(), []*unstructured.Unstructured{c.given}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := p.Transform(c.given); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{c.want, c.want}, imagesIn(c.given)); diff != "" {
					t.Errorf("images differ (-want +got):\n%s", diff)
				}
			}
			if api.gets != c.gets {
				t.Errorf("%d requests, want %d", api.gets, c.gets)
			}
		})
	}
}

func TestInjection(t *testing.T) {
	secrets := func(obj *unstructured.Unstructured) []any {
		holder := obj.Object
		if template := podTemplate(obj); template != nil {
			holder = podSpec(template)
		}
		list, _ := holder["imagePullSecrets"].([]any)
		return list
	}
	listing := func(names ...string) []any {
		var out []any
		for _, name := range names {
			out = append(out, map[string]any{"name": name})
		}
		return out
	}
	account := func(names ...string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "imagePullSecrets": listing(names...)}}
	}
	elsewhere := workload(t, "apps/v1", "Deployment", app, app)
	elsewhere.SetNamespace("other")
	here := workload(t, "batch/v1", "CronJob", app, app)
	here.SetNamespace("ns")
	for name, c := range map[string]struct {
		given *unstructured.Unstructured
		want  []any
	}{
		"a pod template gets it":                     {workload(t, "apps/v1", "Deployment", app, app), listing("pull")},
		"a CronJob gets it":                          {here, listing("pull")},
		"a Pod gets it":                              {workload(t, "v1", "Pod", app, app), listing("pull")},
		"a ServiceAccount gets it behind the others": {account("mine"), listing("mine", "pull")},
		"one that has it stays":                      {account("pull", "mine"), listing("pull", "mine")},
		"another namespace's pod cannot use it":      {elsewhere, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if err := (injection{name: "pull", namespace: "ns"}).Transform(c.given); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, secrets(c.given)); diff != "" {
					t.Errorf("imagePullSecrets differ (-want +got):\n%s", diff)
				}
			}
		})
	}
	t.Run("no pull secret changes nothing", func(t *testing.T) {
		obj := workload(t, "apps/v1", "Deployment", app, app)
		if err := (injection{}).Transform(obj); err != nil {
			t.Fatal(err)
		}
		if got := secrets(obj); got != nil {
			t.Errorf("imagePullSecrets = %v, want none", got)
		}
		if d := (injection{}).Digest(); d != "" {
			t.Errorf("digest = %q, want none", d)
		}
	})
}
