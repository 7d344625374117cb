package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Scenario is what a scenario.yaml says. Unknown fields are errors.
type Scenario struct {
	// Description of the story in one sentence.
	Description string `json:"description"`
	// Operator says how the operator runs; the zero value is as deploy/ has it.
	Operator OperatorOptions `json:"operator,omitempty"`
	// Registry of the scenario's own instead of the one that all share, for scenarios that stop it.
	Registry RegistryOptions `json:"registry,omitempty"`
	// Alone runs the scenario while no other runs, for scenarios that measure time.
	Alone bool `json:"alone,omitempty"`
	// Errors are regular expressions of messages that the operator logs at level error, all of them.
	Errors []string `json:"errors,omitempty"`
	// Warnings are the reasons of Warning events that the operator emits, all of them.
	Warnings []string `json:"warnings,omitempty"`
	// Possible are errors and warnings that depend on who is faster, so may be there or not.
	Possible struct {
		Errors   []string `json:"errors,omitempty"`
		Warnings []string `json:"warnings,omitempty"`
	} `json:"possible,omitempty"`
	// Kept names the objects, as Kind/name, that are left on purpose once the resources are deleted.
	Kept []string `json:"kept,omitempty"`
	// Steps in their order; each has one verb.
	Steps []json.RawMessage `json:"steps"`

	dir string
}

// OperatorOptions say how the operator of a scenario runs.
type OperatorOptions struct {
	// Watches is a file of the scenario, instead of the repository's watches.yaml.
	Watches string `json:"watches,omitempty"`
	// Args are further flags.
	Args []string `json:"args,omitempty"`
	// NoLeaderElection lets an operator start at once after another was killed, which else holds the Lease for 15 s.
	NoLeaderElection bool `json:"noLeaderElection,omitempty"`
	// Rules are rights in the namespace besides those of deploy/role.yaml.
	Rules []rbacv1.PolicyRule `json:"rules,omitempty"`
	// Elsewhere puts the operator into a namespace of its own, with the ClusterRole of deploy/cluster.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// ClusterRules are rights in the whole cluster.
	ClusterRules []rbacv1.PolicyRule `json:"clusterRules,omitempty"`
}

// RegistryOptions describe a registry of the scenario's own.
type RegistryOptions struct {
	// Own starts one for this scenario alone.
	Own bool `json:"own,omitempty"`
	// TLS makes it speak HTTPS; {{.RegistryCA}} is its certificate.
	TLS bool `json:"tls,omitempty"`
}

// Step has exactly one verb.
type Step struct {
	// Apply applies a file server-side with strict validation, as kubectl apply --server-side does.
	Apply string `json:"apply,omitempty"`
	// Patch patches one object.
	Patch *Patch `json:"patch,omitempty"`
	// Delete asks for the deletion of an object; a wait step tells when it is gone.
	Delete Ref `json:"delete,omitempty"`
	// Operator starts, stops or kills the operator.
	Operator *OperatorStep `json:"operator,omitempty"`
	// Registry pushes an image, or stops and starts the registry.
	Registry *RegistryStep `json:"registry,omitempty"`
	// Secret creates a pull secret for the registry.
	Secret *SecretStep `json:"secret,omitempty"`
	// Wait waits, by watch, until an expectation holds.
	Wait *Expectation `json:"wait,omitempty"`
	// Expect checks an expectation now.
	Expect *Expectation `json:"expect,omitempty"`
	// Event waits for an event of the operator.
	Event *EventExpectation `json:"event,omitempty"`
	// Snapshot remembers, under a name, objects and the point in the stream of API requests.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	// Requests checks which requests the operator sent since a snapshot.
	Requests *RequestsExpectation `json:"requests,omitempty"`
}

// Ref names an object as Kind/name, in the scenario's namespace if its kind has one; Kind.group/name where two groups
// have the kind.
type Ref string

// Patch changes one object.
type Patch struct {
	Object Ref `json:"object"`
	// Type is merge, json or strategic; merge by default.
	Type string `json:"type,omitempty"`
	// Subresource to patch instead of the object itself.
	Subresource string `json:"subresource,omitempty"`
	// Patch itself.
	Patch any `json:"patch"`
}

// OperatorStep does one thing to the operator.
type OperatorStep struct {
	Start *StartOptions
	Stop  bool
	Kill  bool
	Died  bool
}

// StartOptions of an operator's process.
type StartOptions struct {
	// DieAtWrite kills the process with SIGKILL when it sends its n-th request that would change something (events, leases
	// and access reviews not counted), and drops that request. The step operator: died waits for that.
	DieAtWrite int `json:"dieAtWrite,omitempty"`
}

// UnmarshalJSON reads start, stop, kill, died, or an object with the options of start.
func (s *OperatorStep) UnmarshalJSON(data []byte) error {
	var verb string
	if err := json.Unmarshal(data, &verb); err != nil {
		var long struct {
			Start *StartOptions `json:"start"`
		}
		if err := strict(data, &long); err != nil {
			return err
		}
		if long.Start == nil {
			return errors.New("operator: want start, stop, kill, died, or start with options")
		}
		s.Start = long.Start
		return nil
	}
	switch verb {
	case "start":
		s.Start = &StartOptions{}
	case "stop":
		s.Stop = true
	case "kill":
		s.Kill = true
	case "died":
		s.Died = true
	default:
		return fmt.Errorf("operator: unknown verb %q", verb)
	}
	return nil
}

// RegistryStep does one thing to the registry.
type RegistryStep struct {
	Push   *Push `json:"push,omitempty"`
	Stop   bool  `json:"stop,omitempty"`
	Start  bool  `json:"start,omitempty"`
	Pause  bool  `json:"pause,omitempty"`
	Resume bool  `json:"resume,omitempty"`
}

// Push pushes an image that its seed determines.
type Push struct {
	// Image is repository:tag in the registry.
	Image string `json:"image"`
	Seed  int64  `json:"seed"`
	// Index makes it an index of two architectures.
	Index bool `json:"index,omitempty"`
	// As names the digest for {{digest "name"}} in later steps.
	As string `json:"as,omitempty"`
}

// SecretStep creates a Secret of type kubernetes.io/dockerconfigjson, or replaces its credentials.
type SecretStep struct {
	Name string `json:"name"`
	// Wrong puts in a password that the registry refuses.
	Wrong bool `json:"wrong,omitempty"`
}

// Expectation of one object, or of how many there are.
type Expectation struct {
	// Object that it is about; or Kind, with Selector, for Count.
	Object   Ref    `json:"object,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Selector string `json:"selector,omitempty"`
	// Count is how many objects of Kind there are.
	Count *int `json:"count,omitempty"`
	// Absent says that there is no such object.
	Absent bool `json:"absent,omitempty"`
	// Conditions of the status by type, of the object's present generation.
	Conditions map[string]Condition `json:"conditions,omitempty"`
	// Matches is a subset of the object, see match.go.
	Matches any `json:"matches,omitempty"`
	// Unchanged and Changed are fields, as paths with dots, whose values are as they were in snapshot Since, or differ.
	Unchanged []string `json:"unchanged,omitempty"`
	Changed   []string `json:"changed,omitempty"`
	Since     string   `json:"since,omitempty"`
	// SameAs is another object that has equal Fields now.
	SameAs Ref      `json:"sameAs,omitempty"`
	Fields []string `json:"fields,omitempty"`
	// Within bounds a wait; see patience.
	Within metav1.Duration `json:"within,omitempty"`
}

// Condition is what is expected of one condition: its status alone, or an object. Absent means that it is not there.
type Condition struct {
	Status  string `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Absent  bool   `json:"absent,omitempty"`
}

// UnmarshalJSON reads "True", "False" or "Unknown", or an object.
func (c *Condition) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &c.Status) == nil {
		return nil
	}
	type plain Condition
	return strict(data, (*plain)(c))
}

// EventExpectation of an event of the operator about an object.
type EventExpectation struct {
	Object Ref    `json:"object"`
	Reason string `json:"reason"`
	// Type is Normal or Warning; either when it is empty.
	Type string `json:"type,omitempty"`
	// Note is a text or /regular expression/; see match.go.
	Note   string          `json:"note,omitempty"`
	Within metav1.Duration `json:"within,omitempty"`
}

// Snapshot remembers objects and the point in the stream of requests.
type Snapshot struct {
	Name    string `json:"name"`
	Objects []Ref  `json:"objects,omitempty"`
}

// RequestsExpectation bounds the operator's requests since a snapshot, watches, leases and events excepted.
type RequestsExpectation struct {
	Since string `json:"since"`
	// Verbs and Resources choose requests; all of them when empty.
	Verbs     []string `json:"verbs,omitempty"`
	Resources []string `json:"resources,omitempty"`
	// ExceptResources leaves some out.
	ExceptResources []string `json:"exceptResources,omitempty"`
	// AtMost is how many there may be.
	AtMost int `json:"atMost"`
	// AtLeast is how many there must be.
	AtLeast int `json:"atLeast,omitempty"`
}

// patchTypes by their names in scenarios.
var patchTypes = map[string]types.PatchType{
	"": types.MergePatchType, "merge": types.MergePatchType, "json": types.JSONPatchType, "strategic": types.StrategicMergePatchType,
}

// Load reads the scenario of a folder and checks all that can be checked before it runs.
func Load(dir string) (*Scenario, error) {
	path := filepath.Join(dir, "scenario.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &Scenario{dir: dir}
	if err := yaml.UnmarshalStrict(content, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if s.Description == "" || len(s.Steps) == 0 {
		return nil, fmt.Errorf("%s: it needs a description and steps", path)
	}
	for i, raw := range s.Steps {
		if err := s.checkStep(raw); err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", path, i+1, err)
		}
	}
	return s, nil
}

// checkStep decodes a step with its templates unexpanded, which are all in strings.
func (s *Scenario) checkStep(raw json.RawMessage) error {
	step, err := decodeStep(raw)
	if err != nil {
		return err
	}
	if step.Apply != "" {
		if _, err := os.Stat(filepath.Join(s.dir, step.Apply)); err != nil {
			return err
		}
	}
	if step.Patch != nil {
		if _, ok := patchTypes[step.Patch.Type]; !ok {
			return fmt.Errorf("unknown type of patch %q", step.Patch.Type)
		}
	}
	for _, e := range []*Expectation{step.Wait, step.Expect} {
		if e != nil {
			if err := e.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// check refuses an expectation that says nothing: it could not fail.
func (e *Expectation) check() error {
	switch {
	case e.Count != nil && (e.Kind == "" || e.Object != ""):
		return errors.New("count needs a kind, and no object")
	case e.Count == nil && (e.Object == "" || e.Kind != ""):
		return errors.New("an expectation needs an object, or kind and count")
	case (len(e.Unchanged)+len(e.Changed) > 0) != (e.Since != ""):
		return errors.New("unchanged and changed need since, and since them")
	case (len(e.Fields) > 0) != (e.SameAs != ""):
		return errors.New("fields need sameAs, and sameAs them")
	case e.Count == nil && !e.Absent && len(e.Conditions) == 0 && e.Matches == nil && e.Since == "" && e.SameAs == "":
		return errors.New("it expects nothing")
	}
	return nil
}

// decodeStep decodes one step strictly.
func decodeStep(raw json.RawMessage) (*Step, error) {
	step := &Step{}
	if err := strict(raw, step); err != nil {
		return nil, err
	}
	var verbs []string
	value := reflect.ValueOf(step).Elem()
	for i := range value.NumField() {
		if !value.Field(i).IsZero() {
			verbs = append(verbs, strings.ToLower(value.Type().Field(i).Name))
		}
	}
	if len(verbs) != 1 {
		return nil, fmt.Errorf("a step has exactly one verb, not %v", verbs)
	}
	return step, nil
}

// strict decodes JSON and refuses unknown fields.
func strict(data []byte, into any) error { return yaml.UnmarshalStrict(data, into) }

// asJSON brings a value to the types that JSON decoding makes, so that values compare whatever they came from.
func asJSON(value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(data, &out)
}
