package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/jkwong888/go-helm-operator/pkg/watches"
	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
	"github.com/jkwong888/go-helm-operator/test/registry"
)

// environment is what all scenarios share.
type environment struct {
	cluster  *cluster.Cluster
	registry *registry.Registry
	// root is the repository; manager the built operator.
	root, manager string
}

// The account of the registry. The password is looked for where it must not be.
const registryUser = "scenario"

var registryPassword = sync.OnceValue(func() string { return (&variables{secrets: map[string]string{}}).secret("registry") })

// run is one scenario while it plays.
type run struct {
	env       *environment
	scenario  *Scenario
	vars      *variables
	objects   *objects
	registry  *registry.Registry
	operator  *operator
	witness   *witness
	kinds     []watches.Watch
	snapshots map[string]snapshot
}

// slow is from where a step is worth a line of the test's log.
const slow = 3 * time.Second

// play plays a scenario and checks what has to hold at the end of every one.
func (env *environment) play(t *testing.T, s *Scenario) {
	r, err := env.prepare(t, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	defer func() {
		if t.Failed() {
			t.Log(r.dump(context.WithoutCancel(ctx)))
		}
	}()
	for i, raw := range s.Steps {
		began := time.Now()
		if err := r.step(ctx, raw); err != nil {
			t.Fatalf("step %d: %v\n  %s", i+1, err, raw)
		}
		if took := time.Since(began); took > slow {
			t.Logf("step %d took %s: %s", i+1, took.Round(time.Millisecond), raw)
		}
	}
	r.finish(ctx, t)
}

// prepare makes a namespace and the operator's identity in it.
func (env *environment) prepare(t *testing.T, s *Scenario) (*run, error) {
	ctx := t.Context()
	r := &run{env: env, scenario: s, registry: env.registry, snapshots: map[string]snapshot{}}
	config := clustertest.Config(t)
	config.QPS = -1
	var err error
	if r.objects, err = newObjects(config); err != nil {
		return nil, err
	}
	if s.Registry.Own {
		r.registry, err = registry.Start(ctx, registry.Options{Username: registryUser, Password: registryPassword(), TLS: s.Registry.TLS})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = r.registry.Close() }) // its folder is temporary
	}
	namespace := clustertest.Namespace(t)
	watched := namespace
	if s.Operator.Elsewhere {
		watched += "-apps"
		if err := r.createNamespace(t, watched); err != nil {
			return nil, err
		}
	}
	r.vars = &variables{
		Registry: r.registry.Host(), RegistryCA: string(r.registry.CA()), Namespace: watched,
		digests: map[string]string{}, secrets: map[string]string{"registry": registryPassword()},
	}
	r.operator = &operator{
		options: s.Operator, binary: env.manager, namespace: namespace, watched: watched, dir: t.TempDir(), config: config,
		watches: filepath.Join(env.root, "watches.yaml"),
	}
	if s.Operator.Watches != "" {
		r.operator.watches = filepath.Join(s.dir, s.Operator.Watches)
	}
	if r.kinds, err = watches.Load(r.operator.watches); err != nil {
		return nil, err
	}
	t.Cleanup(func() { r.cleanUp(t) })
	if err := r.operator.authorize(ctx, r.objects, filepath.Join(env.root, "deploy")); err != nil {
		return nil, err
	}
	r.witness, err = r.watch(t)
	return r, err
}

// createNamespace creates a namespace that the scenario may delete itself.
func (r *run) createNamespace(t *testing.T, name string) error {
	ctx := t.Context()
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if err := r.objects.applyOne(ctx, obj, ""); err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := r.delete(context.WithoutCancel(ctx), Ref("Namespace/"+name)); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return r.env.cluster.AwaitServiceAccount(ctx, name)
}

// cleanUp removes what is not in a namespace, and ends the operator of a scenario that failed.
func (r *run) cleanUp(t *testing.T) {
	if r.operator.child != nil {
		_ = r.operator.child.Stop(0) // gone already, unless the scenario failed
	}
	if len(r.scenario.Operator.ClusterRules) == 0 && !r.scenario.Operator.Elsewhere {
		return
	}
	for _, kind := range []Ref{"ClusterRole", "ClusterRoleBinding"} {
		if err := r.delete(context.WithoutCancel(t.Context()), kind+Ref("/"+r.operator.namespace)); err != nil {
			t.Error(err)
		}
	}
}

// step takes one step.
func (r *run) step(ctx context.Context, raw json.RawMessage) error {
	step, err := r.vars.step(raw)
	if err != nil {
		return err
	}
	switch {
	case step.Apply != "":
		return r.apply(ctx, step.Apply)
	case step.Patch != nil:
		return r.patch(ctx, step.Patch)
	case step.Delete != "":
		return r.delete(ctx, step.Delete)
	case step.Operator != nil:
		return r.operator.do(ctx, step.Operator)
	case step.Registry != nil:
		return r.toRegistry(ctx, step.Registry)
	case step.Secret != nil:
		return r.pullSecret(ctx, step.Secret)
	case step.Wait != nil:
		return r.wait(ctx, step.Wait)
	case step.Expect != nil:
		return r.expect(ctx, step.Expect)
	case step.Event != nil:
		return r.event(ctx, step.Event)
	case step.Snapshot != nil:
		return r.takeSnapshot(ctx, step.Snapshot)
	default:
		return r.requests(ctx, step.Requests)
	}
}

func (r *run) apply(ctx context.Context, file string) error {
	content, err := os.ReadFile(filepath.Join(r.scenario.dir, file))
	if err != nil {
		return err
	}
	text, err := r.vars.expand(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return r.objects.apply(ctx, []byte(text), r.vars.Namespace)
}

func (r *run) patch(ctx context.Context, p *Patch) error {
	client, name, err := r.objects.at(p.Object, r.vars.Namespace)
	if err != nil {
		return err
	}
	data, err := json.Marshal(p.Patch)
	if err != nil {
		return err
	}
	var subresources []string
	if p.Subresource != "" {
		subresources = append(subresources, p.Subresource)
	}
	_, err = client.Patch(ctx, name, patchTypes[p.Type], data,
		metav1.PatchOptions{FieldManager: userManager, FieldValidation: metav1.FieldValidationStrict}, subresources...)
	return err
}

func (r *run) delete(ctx context.Context, ref Ref) error {
	client, name, err := r.objects.at(ref, r.vars.Namespace)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	return client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
}

func (r *run) toRegistry(ctx context.Context, s *RegistryStep) error {
	shared := r.registry == r.env.registry
	switch {
	case s.Push != nil:
		return r.push(ctx, s.Push)
	case shared:
		return fmt.Errorf("other scenarios use this registry too: ask for one of your own (registry.own)")
	case s.Stop:
		return r.registry.Stop()
	case s.Start:
		return r.registry.Start(ctx)
	case s.Pause:
		return r.registry.Pause()
	default:
		return r.registry.Resume()
	}
}

func (r *run) push(ctx context.Context, p *Push) error {
	repository, tag, _ := strings.Cut(p.Image, ":")
	push := r.registry.PushImage
	if p.Index {
		push = r.registry.PushIndex
	}
	digest, err := push(ctx, repository, tag, p.Seed)
	if err == nil && p.As != "" {
		r.vars.setDigest(p.As, digest)
	}
	return err
}

// pullSecret creates a pull secret, or writes other credentials into it.
func (r *run) pullSecret(ctx context.Context, s *SecretStep) error {
	password := registryPassword()
	if s.Wrong {
		password = r.vars.secret("wrong password")
	}
	config, err := json.Marshal(map[string]any{"auths": map[string]any{
		r.registry.Host(): map[string]any{"username": registryUser, "password": password},
	}})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(r.operator.config)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	}
	data, err := json.Marshal(secret)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Secrets(r.vars.Namespace).Patch(ctx, s.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: userManager})
	return err
}
