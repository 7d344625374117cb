package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jkwong888/go-helm-operator/test/cluster"
)

// The operator may still write what follows from the last step; then it has to be quiet.
const (
	settling = 20 * time.Second
	quiet    = 3 * time.Second
)

// finish checks what has to hold at the end of every scenario.
func (r *run) finish(ctx context.Context, t *testing.T) {
	if r.operator.running() {
		if err := r.quiet(ctx); err != nil {
			t.Errorf("the operator churns: %v", err)
		}
		if err := r.removeAll(ctx); err != nil {
			t.Errorf("deleting the resources: %v", err)
		}
		if err := r.operator.stop(); err != nil {
			t.Error(err)
		}
	} else {
		t.Error("the operator does not run at the end of the scenario; start it, so that what it left behind is seen")
	}
	for name, text := range r.vars.secrets {
		r.witness.keep(fmt.Sprintf("secret %q of the scenario", name), text)
	}
	r.witness.keep("the operator's token", r.operator.token)
	leaks, err := r.witness.leaks(r.operator.log())
	if err != nil {
		t.Error(err)
	}
	for _, leak := range leaks {
		t.Errorf("secret material got out: %s", leak)
	}
	if err := r.witness.warned(r.scenario.Warnings, r.scenario.Possible.Warnings); err != nil {
		t.Error(err)
	}
	if err := logged(r.operator.log(), r.scenario.Errors, r.scenario.Possible.Errors); err != nil {
		t.Error(err)
	}
}

// quiet waits until the operator settles, and then expects no request of it and no change of any object for a while.
func (r *run) quiet(ctx context.Context) error {
	const glance = time.Second
	deadline := time.Now().Add(settling)
	for {
		requests, err := r.during(ctx, glance)
		if err != nil {
			return err
		}
		if len(requests) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not settle within %s; its last requests are\n%s", settling, lines(requests))
		}
	}
	before, err := r.versions(ctx)
	if err != nil {
		return err
	}
	requests, err := r.during(ctx, quiet)
	if err != nil {
		return err
	}
	after, err := r.versions(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if len(requests) > 0 {
		errs = append(errs, fmt.Errorf("with nothing to do it sent, within %s,\n%s", quiet, lines(requests)))
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			errs = append(errs, fmt.Errorf("%s changed from version %q to %q", name, before[name], after[name]))
		}
	}
	return errors.Join(errs...)
}

// during returns the operator's requests of a length of time.
func (r *run) during(ctx context.Context, length time.Duration) ([]cluster.Request, error) {
	mark, err := r.env.cluster.Mark(ctx)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// An operator that may watch CRDs asks for the kinds when one comes or goes, and other scenarios make and remove some.
	discovery := func(q cluster.Request) bool { return q.Resource == "" }
	return r.env.cluster.Requests(ctx, mark, r.byOperator(), cluster.Not(discovery))
}

// resources are the custom resources of the scenario's kinds.
func (r *run) resources(ctx context.Context) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, kind := range r.kinds {
		items, err := r.objects.list(ctx, kind.GroupVersionKind().GroupKind().String(), "", r.vars.Namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// versions are the resourceVersions of all custom resources and of the objects in their inventories.
func (r *run) versions(ctx context.Context) (map[string]string, error) {
	resources, err := r.resources(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, resource := range resources {
		out[resource.GetKind()+"/"+resource.GetName()] = resource.GetResourceVersion()
		inventory, _ := field(resource.Object, "status.inventory").([]any)
		for _, entry := range inventory {
			entry, _ := entry.(map[string]any)
			ref := reference(entry)
			namespace, _ := entry["namespace"].(string)
			obj, err := r.objects.get(ctx, ref, namespace)
			if err != nil {
				return nil, err
			}
			if obj == nil {
				return nil, fmt.Errorf("%s is in the inventory of %s and does not exist", ref, resource.GetName())
			}
			out[string(ref)] = obj.GetResourceVersion()
		}
	}
	return out, nil
}

// reference is the Ref of an inventory entry.
func reference(entry map[string]any) Ref {
	group, _ := entry["group"].(string)
	gk := schema.GroupKind{Group: group, Kind: fmt.Sprint(entry["kind"])}
	return Ref(gk.String() + "/" + fmt.Sprint(entry["name"]))
}

// removeAll deletes the custom resources, waits until they are gone, and expects that nothing of theirs is left but what
// the scenario names.
func (r *run) removeAll(ctx context.Context) error {
	resources, err := r.resources(ctx)
	if err != nil {
		return err
	}
	for _, resource := range resources {
		ref := Ref(resource.GroupVersionKind().GroupKind().String() + "/" + resource.GetName())
		if resource.GetDeletionTimestamp() == nil {
			if err := r.delete(ctx, ref); err != nil {
				return err
			}
		}
		if err := r.wait(ctx, &Expectation{Object: ref, Absent: true}); err != nil {
			return err
		}
	}
	slices.Sort(r.scenario.Kept)
	var left []string
	// The garbage collector removes what hooks left, some time after their owner.
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, collecting, true, func(ctx context.Context) (bool, error) {
		left, err = r.leftovers(ctx)
		return slices.Equal(left, r.scenario.Kept), err
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("left is %v, want %v", left, r.scenario.Kept)
	}
	return err
}

// collecting bounds the wait for the garbage collector, which takes less than a second on an idle machine.
const collecting = 20 * time.Second

// Marks of the operator: a label on the objects of releases, an annotation on those of hooks too.
const (
	ownerLabel      = "helm.sdk.operatorframework.io/owner-kind"
	ownerAnnotation = "operator-sdk/primary-resource"
)

// derived are the resources that the cluster itself makes of Services, with their labels, and removes after them.
var derived = []string{"endpoints", "endpointslices"}

// leftovers names what there still is of the operator, in the namespace and in the cluster.
func (r *run) leftovers(ctx context.Context) ([]string, error) {
	kinds, err := r.objects.kinds(true)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, kind := range kinds {
		if !slices.Contains(kind.Verbs, "list") || slices.Contains(derived, kind.Name) {
			continue
		}
		list, err := r.objects.resource(kind, r.vars.Namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // another scenario's kind, whose definition went meanwhile, and its objects with it
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Name, err)
		}
		for _, item := range list.Items {
			annotations := item.GetAnnotations()
			_, labelled := item.GetLabels()[ownerLabel]
			_, annotated := annotations[ownerAnnotation]
			here := kind.Namespaced || annotations["meta.helm.sh/release-namespace"] == r.vars.Namespace
			if here && (labelled || annotated) {
				left = append(left, item.GetKind()+"/"+item.GetName())
			}
		}
	}
	payloads, err := r.objects.list(ctx, "Secret", "owner=helm", r.vars.Namespace)
	if err != nil {
		return nil, err
	}
	for _, payload := range payloads {
		left = append(left, "Secret/"+payload.GetName())
	}
	account, err := r.objects.get(ctx, "ServiceAccount/default", r.vars.Namespace)
	if err != nil {
		return nil, err
	}
	if account != nil {
		for key := range account.GetAnnotations() {
			left = append(left, "annotation "+key+" of ServiceAccount/default")
		}
	}
	slices.Sort(left)
	return slices.Compact(left), nil
}

// always is what controller-runtime logs as an error at every orderly stop, and client-go of a request that the stop cut off,
// such as the renewal of the Lease. Nothing else cancels a context.
const always = `"error":"(leader election lost|.*context canceled)"`

// logged checks the operator's log: no panic, and no errors but the expected ones, which are all there, and possible ones.
func logged(path string, expected, possible []string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	patterns := make([]*regexp.Regexp, 0, len(expected)+len(possible)+1)
	for _, expression := range slices.Concat(expected, possible, []string{always}) {
		pattern, err := regexp.Compile(expression)
		if err != nil {
			return err
		}
		patterns = append(patterns, pattern)
	}
	seen := make([]bool, len(patterns))
	var errs []error
	for line := range strings.Lines(string(content)) {
		if !alarming(line) {
			continue
		}
		at := slices.IndexFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(line) })
		if at < 0 {
			errs = append(errs, fmt.Errorf("the operator logged %s", line))
			continue
		}
		seen[at] = true
	}
	for i, expression := range expected {
		if !seen[i] {
			errs = append(errs, fmt.Errorf("the operator logged no error that matches %q", expression))
		}
	}
	return errors.Join(errs...)
}

// calm matches what client-go says at level info, in its own format.
var calm = regexp.MustCompile(`^I\d{4} `)

// alarming says whether a line of the log tells of an error: at that level, or not of the logger at all, as a panic is.
func alarming(line string) bool {
	var entry struct {
		Level string `json:"level"`
	}
	if json.Unmarshal([]byte(line), &entry) != nil {
		return strings.TrimSpace(line) != "" && !calm.MatchString(line)
	}
	return slices.Contains([]string{"error", "dpanic", "panic", "fatal"}, entry.Level)
}

func lines(requests []cluster.Request) string {
	const most = 20
	var out strings.Builder
	for i, request := range requests {
		if i == most {
			fmt.Fprintf(&out, "  … and %d more\n", len(requests)-most)
			break
		}
		fmt.Fprintf(&out, "  %s\n", request)
	}
	return out.String()
}
