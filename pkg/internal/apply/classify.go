package apply

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// request is what was asked of the API server, to explain its answer.
type request struct {
	verb    string // as RBAC names it
	key     Key
	mapping *meta.RESTMapping
}

// missingVerb finds in an RBAC denial which right is missing: applying asks for
// patch, and for create when the object does not exist.
var missingVerb = regexp.MustCompile(`cannot ([a-z]+) resource "`)

// explain turns an answer of the API server into an error for the user. What it
// wraps is cleaned too, because it may be printed.
func (r request) explain(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return fmt.Errorf("cannot %s: %w", r, err)
	}
	status := answer.Status()
	clean := r.clean(status)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return &TerminatingError{Object: r.key, err: clean}
	case denied(status):
		return &DeniedError{Object: r.key, Reason: clean.ErrStatus.Message, err: clean}
	case apierrors.IsForbidden(err):
		return r.forbidden(status, clean)
	case apierrors.IsNotFound(err):
		return r.notFound(status, clean)
	case otherUID(status):
		return &GoneError{Object: r.key, err: clean}
	case apierrors.IsInvalid(err):
		return r.invalid(status, clean)
	case apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), unreadable.MatchString(status.Message):
		return &InvalidError{Object: r.key, Reason: clean.ErrStatus.Message, err: clean}
	}
	return fmt.Errorf("cannot %s: %w", r, clean)
}

// notFound tells a missing object from a missing namespace and a missing kind,
// of which the server does not even know a name.
func (r request) notFound(status metav1.Status, clean *apierrors.StatusError) error {
	switch {
	case status.Details == nil || status.Details.Name == "":
		return &NoKindError{GVK: r.mapping.GroupVersionKind}
	case status.Details.Kind == "namespaces" && r.key.Kind != "Namespace":
		return &answerError{fmt.Sprintf("cannot %s: its namespace does not exist", r), clean}
	}
	return fmt.Errorf("cannot %s: %w", r, clean)
}

// otherUID recognises the answer to a request with the uid of an object that
// is gone or was replaced: a conflict, but for the apply to a replacement, which
// is told that a uid cannot be changed.
func otherUID(status metav1.Status) bool {
	if status.Reason == metav1.StatusReasonConflict {
		return strings.Contains(strings.ToLower(status.Message), "uid")
	}
	return status.Details != nil && slices.ContainsFunc(status.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// String says what was asked: "apply Secret shop/a".
func (r request) String() string {
	verb := r.verb
	if verb == "patch" {
		verb = "apply"
	}
	return verb + " " + r.key.String()
}

// answerError is an answer whose own words would not help.
type answerError struct {
	message string
	err     error
}

func (e *answerError) Error() string { return e.message }

func (e *answerError) Unwrap() error { return e.err }

// unreadable are the words by which an apply fails (with code 500) when the
// object has fields its kind does not have, or values of another type.
var unreadable = regexp.MustCompile(`failed to create typed patch object|failed to convert|unable to convert`)

// preamble names the object once more.
var preamble = regexp.MustCompile(`failed to create typed patch object \([^)]*\): |failed to convert new object \([^)]*\) to proper version: |unable to convert unstructured object to [^:]*: `)

// undeclared finds a field that the kind does not have.
var undeclared = regexp.MustCompile(`(\.\S+): field not declared in schema`)

// denied recognises what admission plugins, webhooks and policies answer: each
// chooses its own code, so the text has to tell.
func denied(status metav1.Status) bool {
	message := status.Message
	for _, phrase := range []string{"denied the request", "denied request", "exceeded quota", "violates PodSecurity", "failed quota"} {
		if strings.Contains(message, phrase) {
			return true
		}
	}
	return false
}

func (r request) forbidden(status metav1.Status, clean *apierrors.StatusError) error {
	forbidden := &ForbiddenError{
		Verb: r.verb, Resource: r.mapping.Resource,
		Namespace: r.key.Namespace, Name: r.key.Name, err: clean,
	}
	if found := missingVerb.FindStringSubmatch(status.Message); found != nil {
		forbidden.Verb = found[1]
		return forbidden
	}
	const escalation = "attempting to grant RBAC permissions not currently held"
	if _, rules, found := strings.Cut(status.Message, escalation); found {
		forbidden.Verb = "escalate"
		if strings.HasSuffix(r.key.Kind, "Binding") {
			forbidden.Verb = "bind"
		}
		// Rules are not values: without them nobody can mend the role.
		forbidden.Detail = shorten("or the rights that it is to grant" + rules)
		return forbidden
	}
	return &DeniedError{Object: r.key, Reason: clean.ErrStatus.Message, err: clean}
}

// immutable are the words by which validation says that a field cannot be
// changed; there is no code for it.
var immutable = regexp.MustCompile(`(?i)immutable|updates? to .* (is|are) forbidden|(may|can) ?not (be )?change|updates may not change`)

func (r request) invalid(status metav1.Status, clean *apierrors.StatusError) error {
	frozen := &ImmutableError{Object: r.key, err: clean}
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if immutable.MatchString(cause.Message) {
				frozen.Fields = append(frozen.Fields, cause.Field)
				frozen.Detail = r.detail(cause)
			}
		}
	}
	if len(frozen.Fields) > 0 {
		return frozen
	}
	return &InvalidError{Object: r.key, Reason: clean.ErrStatus.Message, duplicates: duplicateLists(status), err: clean}
}

// detail is what a cause says beyond its field, when it has more to say than
// that the field is immutable.
func (r request) detail(cause metav1.StatusCause) string {
	text, ok := strings.CutPrefix(cause.Message, "Forbidden: ")
	if !ok || r.secret() {
		return ""
	}
	line, _, _ := strings.Cut(text, "\n")
	return redact(line)
}

// clean returns the answer without the object's content.
func (r request) clean(status metav1.Status) *apierrors.StatusError {
	out := status
	out.Details = nil
	if d := status.Details; d != nil {
		out.Details = &metav1.StatusDetails{Name: d.Name, Group: d.Group, Kind: d.Kind, UID: d.UID, RetryAfterSeconds: d.RetryAfterSeconds}
	}
	out.Message = r.message(status)
	return &apierrors.StatusError{ErrStatus: out}
}

// message is the server's message without values. Of a Secret only the fields
// and kinds of faults are kept.
func (r request) message(status metav1.Status) string {
	var faults []string
	if status.Details != nil && apierrors.IsInvalid(&apierrors.StatusError{ErrStatus: status}) && !denied(status) {
		for _, cause := range status.Details.Causes {
			kind, rest, _ := strings.Cut(cause.Message, ":")
			if !r.secret() {
				kind = redact(kind + ":" + rest)
			}
			faults = append(faults, cause.Field+": "+kind)
		}
	}
	switch {
	case len(faults) > 0:
		return shorten(strings.Join(faults, "; "))
	case r.secret() && !strings.Contains(status.Message, "exceeded quota"): // which quotes nothing
		reason := string(status.Reason)
		if found := undeclared.FindStringSubmatch(status.Message); found != nil {
			reason = "no field " + found[1]
		}
		return strings.TrimSpace(reason + " (the server's words are left out, they may quote the Secret)")
	}
	return redact(preamble.ReplaceAllString(status.Message, ""))
}

func (r request) secret() bool { return r.key.Kind == "Secret" && r.key.Group == "" }

// kubectlName is how kubectl is told of an object.
func kubectlName(key Key) string {
	name := strings.ToLower(key.GroupKind.String()) + "/" + key.Name
	if key.Namespace != "" {
		name += " -n " + key.Namespace
	}
	return name
}
