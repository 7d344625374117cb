package scenarios

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// witness sees every Secret of the namespace that there ever is, and every version of the events and of the statuses, so
// that nothing that got out for a moment goes unnoticed.
type witness struct {
	mu      sync.Mutex
	secrets map[string]string // what must not get out, by where it is from
	public  map[string]string // what anybody may read, by what it is
	// warnings are the reasons of Warning events about custom resources.
	warnings map[string]bool
	kinds    []string
}

// shortest is the length from which a value of a Secret is looked for: shorter ones occur by chance.
const shortest = 8

// payloadType is the type of the Secrets that hold a release: all of it, so no text to look for.
const payloadType = "helm.sh/release.v1"

// watch starts the witness of a scenario.
func (r *run) watch(t *testing.T) (*witness, error) {
	w := &witness{secrets: map[string]string{}, public: map[string]string{}, warnings: map[string]bool{}}
	kinds := map[string]func(*unstructured.Unstructured){"Secret": w.secret, "Event.events.k8s.io": w.event}
	for _, kind := range r.kinds {
		kinds[kind.GroupVersionKind().GroupKind().String()] = w.resource
		w.kinds = append(w.kinds, kind.Kind)
	}
	for kind, note := range kinds {
		found, err := r.objects.kind(kind)
		if err != nil {
			return nil, err
		}
		informer := dynamicinformer.NewFilteredDynamicInformer(r.objects.dynamic, gvr(found), r.vars.Namespace, 0, cache.Indexers{}, nil).Informer()
		see := func(obj any) {
			if obj, is := obj.(*unstructured.Unstructured); is {
				note(obj)
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) },
		}); err != nil {
			return nil, err
		}
		go informer.RunWithContext(t.Context())
		if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
			return nil, fmt.Errorf("watching %s: %w", kind, t.Context().Err())
		}
	}
	return w, nil
}

func (w *witness) secret(obj *unstructured.Unstructured) {
	if field(obj.Object, "type") == payloadType {
		return
	}
	data, _ := field(obj.Object, "data").(map[string]any)
	for key, value := range data {
		encoded, _ := value.(string)
		plain, err := base64.StdEncoding.DecodeString(encoded)
		if err == nil {
			w.keep(fmt.Sprintf("key %s of Secret %s", key, obj.GetName()), string(plain))
		}
	}
}

// keep notes a text that must not get out.
func (w *witness) keep(from, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(text) >= shortest {
		w.secrets[from+" at version "+fmt.Sprint(len(w.secrets))] = text
	}
}

func (w *witness) event(obj *unstructured.Unstructured) {
	w.publish(fmt.Sprintf("event %s", obj.GetName()), obj.Object)
	kind, _ := field(obj.Object, "regarding.kind").(string)
	if field(obj.Object, "type") == corev1.EventTypeWarning && slices.Contains(w.kinds, kind) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.warnings[fmt.Sprint(obj.Object["reason"])] = true
	}
}

// resource notes all that the operator writes: the status, and the metadata without who manages which field.
func (w *witness) resource(obj *unstructured.Unstructured) {
	metadata, _ := field(obj.Object, "metadata").(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	w.publish(fmt.Sprintf("%s/%s at version %s", obj.GetKind(), obj.GetName(), obj.GetResourceVersion()),
		map[string]any{"metadata": metadata, "status": obj.Object["status"]})
}

func (w *witness) publish(what string, content any) {
	data, err := json.Marshal(content)
	if err != nil {
		data = []byte(err.Error())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.public[what] = string(data)
}

// warned says how the Warning events differ from the reasons that are expected and those that are possible.
func (w *witness) warned(expected, possible []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := maps.Clone(w.warnings)
	for _, reason := range possible {
		delete(got, reason)
	}
	if got, want := slices.Sorted(maps.Keys(got)), slices.Sorted(slices.Values(expected)); !slices.Equal(got, want) {
		return fmt.Errorf("the reasons of the operator's Warning events are %v, want %v", got, want)
	}
	return nil
}

// leaks says where something got out that must not; the texts themselves are not in what it says.
func (w *witness) leaks(log string) ([]string, error) {
	content, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.public["the operator's log"] = string(content)
	var found []string
	for from, text := range w.secrets {
		for _, form := range forms(text) {
			for what, content := range w.public {
				if strings.Contains(content, form) {
					found = append(found, fmt.Sprintf("%s is in %s", from, what))
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// forms are the ways in which a text may stand in another: as it is, in JSON, in base64.
func forms(text string) []string {
	quoted, _ := json.Marshal(text) // a string always can
	return slices.Compact([]string{text, strings.Trim(string(quoted), `"`), base64.StdEncoding.EncodeToString([]byte(text))})
}
