package apply

import (
	"errors"
	"fmt"
	"regexp"
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
		return fmt.Errorf("cannot %s %s: %w", r.verb, r.key, err)
	}
	status := answer.Status()
	clean := r.clean(status)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("cannot %s %s while its namespace is being deleted: %w", r.verb, r.key, clean)
	case denied(status):
		return &DeniedError{Object: r.key, Reason: clean.ErrStatus.Message, err: clean}
	case apierrors.IsForbidden(err):
		return r.forbidden(status, clean)
	case apierrors.IsNotFound(err) && (status.Details == nil || status.Details.Name == ""):
		return &NoKindError{GVK: r.mapping.GroupVersionKind}
	case apierrors.IsNotFound(err) && status.Details.Kind == "namespaces" && r.key.Kind != "Namespace":
		return fmt.Errorf("cannot %s %s: the namespace does not exist: %w", r.verb, r.key, clean)
	case apierrors.IsConflict(err) && strings.Contains(strings.ToLower(status.Message), "uid"):
		return &GoneError{Object: r.key, err: clean}
	case apierrors.IsInvalid(err):
		return r.invalid(status, clean)
	case apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), strings.Contains(status.Message, "failed to create typed patch object"):
		return &InvalidError{Object: r.key, Reason: clean.ErrStatus.Message, err: clean}
	}
	return fmt.Errorf("cannot %s %s: %w", r.verb, r.key, clean)
}

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
	return &InvalidError{Object: r.key, Reason: clean.ErrStatus.Message, err: clean}
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
	case r.secret():
		return fmt.Sprintf("%s (the server's words are left out, they may quote the Secret)", status.Reason)
	}
	return redact(status.Message)
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
