package release

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

// Defaults of Options.
const (
	// DefaultMaxHistory is how many revisions are kept.
	DefaultMaxHistory = 5
	// DefaultHookTimeout bounds each hook, as in Helm.
	DefaultHookTimeout = 5 * time.Minute
)

// Options of one release; zero values mean the defaults.
type Options struct {
	// MaxHistory is how many revisions are kept, the current one included.
	MaxHistory int
	// HookTimeout bounds each hook.
	HookTimeout time.Duration
	// DisableHooks skips all hooks.
	DisableHooks bool
}

// Inputs are what the desired objects depend on besides chart and values. The
// controller of a kind provides them; the zero set is NoInputs.
type Inputs interface {
	// Digest of the inputs as they stand now. It is asked on every pass, so it
	// must not cost requests.
	Digest() string
	// Resolve is told of freshly rendered objects, before they are transformed,
	// so that inputs which depend on them (images) can be looked up. A HoldError
	// delays the action.
	Resolve(ctx context.Context, objects []*unstructured.Unstructured) error
	// Transform changes one object to what the inputs ask for. It is
	// idempotent: it also runs over objects that earlier inputs transformed.
	Transform(obj *unstructured.Unstructured) error
	// Recorded is called when the record says that it was made with the inputs,
	// whether the revision is about to be applied, in place or failed halfway:
	// what inputs keep of themselves in the status has to agree with the record
	// at all times. It may be called more than once.
	Recorded()
}

// References tells the versions of objects outside the release that templates
// read by lookup, from watches.
type References interface {
	// Version changes whenever the referenced object does; it is "" while it is
	// not known yet.
	Version(ref releasev1alpha1.LookupReference) string
}

// Release is one release during one pass.
type Release struct {
	// Owner is the resource that asks for the release.
	Owner apply.Owner
	// Chart to render; not needed by Uninstall.
	Chart *chart.Chart
	// Values for the chart, without the operator's reserved key.
	Values map[string]any
	// Capabilities of the API server that templates may ask for.
	Capabilities *chart.Capabilities
	// Lookup serves the templates' lookup function.
	Lookup chart.Lookup
	// References tells of the objects that were looked up.
	References References
	// Inputs that transform the rendered objects.
	Inputs Inputs
	// Options of the release.
	Options Options
	// Status holds the record; the manager changes it in place and the caller
	// persists it.
	Status *releasev1alpha1.Status
	// Persist writes Status at once. It is only called with a store that keeps
	// payloads in the status, before the first object of a revision.
	Persist func(ctx context.Context) error
	// Interrupted tells a waiting action that the resource changed or is being
	// deleted, so that waiting on is pointless. May be nil.
	Interrupted func() bool
}

// Manager drives releases. It is safe for concurrent use on different
// releases; two passes over the same release must not overlap.
type Manager struct {
	// Objects writes the objects of releases.
	Objects *apply.Client
	// Dependents tells of them from watches.
	Dependents *apply.Cache
	// Store keeps the payloads.
	Store storage.Driver
	// InStatus says that Store keeps them in the status.
	InStatus bool
	// Clock tells the time; tests replace it.
	Clock clock.PassiveClock

	// Stored tells of all stored releases, once per process; may be nil.
	Stored Stored

	payloads  payloads
	fights    fights
	leftovers leftovers
}

// NewManager returns a manager that keeps payloads in Secrets, through secrets.
func NewManager(objects *apply.Client, dependents *apply.Cache, secrets typedcorev1.SecretsGetter) *Manager {
	return &Manager{
		Objects: objects, Dependents: dependents, Clock: clock.RealClock{},
		Store: storage.NewSecret(secrets, clock.RealClock{}),
	}
}

// NewStatusManager returns a manager that keeps payloads in the status of the
// resources, compressed. Unless allowSecrets it refuses releases that render
// Secrets: whoever may read the resource could read them there.
func NewStatusManager(objects *apply.Client, dependents *apply.Cache, allowSecrets bool) *Manager {
	return &Manager{
		Objects: objects, Dependents: dependents, Clock: clock.RealClock{},
		Store: storage.NewStatus(statusSlot, allowSecrets), InStatus: true,
	}
}

// Action is what a pass did, in the words of Helm.
type Action string

// The actions a pass can take.
const (
	ActionInstall   Action = "Install"
	ActionUpgrade   Action = "Upgrade"
	ActionHeal      Action = "Heal"
	ActionUninstall Action = "Uninstall"
)

// Event tells of one action; the caller emits it after the status is written.
type Event struct {
	// Warning says that something is wrong.
	Warning bool
	// Reason in CamelCase, Action in the words of Action.
	Reason string
	// Action that the event is about.
	Action Action
	// Message for the user, without secrets.
	Message string
	// Related is the one object of the release that the event is about, or nil.
	// Events that differ in nothing but the message are counted as one.
	Related *corev1.ObjectReference
}

// Outcome of a pass.
type Outcome struct {
	// Events to emit.
	Events []Event
	// RequeueAfter asks for another pass; 0 waits for a change.
	RequeueAfter time.Duration
	// Done says that Uninstall has nothing left to remove.
	Done bool
	// Waiting names the objects that Uninstall asked to go and that still stand.
	Waiting []string
}

func (o *Outcome) event(action Action, reason, message string) {
	o.Events = append(o.Events, Event{Reason: reason, Action: action, Message: message})
}

func (o *Outcome) warn(action Action, reason, message string) {
	o.Events = append(o.Events, Event{Warning: true, Reason: reason, Action: action, Message: message})
}

// maxSteps bounds the actions of one pass. Heal after upgrade after install is
// the longest sensible chain; more means that a state does not settle.
const maxSteps = 4

// Reconcile brings the release to what chart, values and inputs ask for. It
// changes rel.Status; the error, if any, is already noted in its conditions.
func (m *Manager) Reconcile(ctx context.Context, rel *Release) (Outcome, error) {
	var out Outcome
	ctx = withRelease(ctx, rel)
	for range maxSteps {
		at, err := m.situation(ctx, rel)
		if err != nil {
			return out, noteFailure(rel.Status, at, err, &out)
		}
		if at.State == InSync {
			noteHealthy(rel.Status)
			return out, nil
		}
		if at.State == Waiting {
			out.RequeueAfter = at.RetryAfter
			return out, nil
		}
		if err := m.act(ctx, rel, at, &out); err != nil {
			if namespaceTerminating(err, rel.Owner.ReleaseNamespace) {
				return out, nil // the resource goes too, in a moment
			}
			return out, noteFailure(rel.Status, at, err, &out)
		}
		if out.RequeueAfter > 0 {
			return out, nil // what is left has to wait
		}
	}
	out.RequeueAfter = time.Second
	return out, nil
}

// Observe watches the objects of a release without acting on them.
func (m *Manager) Observe(ctx context.Context, owner apply.Owner, status *releasev1alpha1.Status) error {
	return m.Dependents.Use(ctx, owner, kinds(status.Inventory))
}

// act takes the action that the situation calls for.
func (m *Manager) act(ctx context.Context, rel *Release, at Situation, out *Outcome) error {
	switch at.State {
	case Absent:
		return m.install(ctx, rel, out)
	case OutOfSync:
		return m.upgrade(ctx, rel, at, out)
	case Interrupted:
		return m.resume(ctx, rel, out)
	case Transformed:
		return m.retransform(ctx, rel, at, out)
	case Drifted:
		return m.heal(ctx, rel, at, out)
	default:
		return nil
	}
}
