package apply

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRedact(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"nothing to hide":          {"must be between 1 and 65535, inclusive", "must be between 1 and 65535, inclusive"},
		"a string":                 {`Invalid value: "s3cret": must be short`, `Invalid value: "…": must be short`},
		"an escaped quote":         {`Invalid value: "s3\"cret": must be short`, `Invalid value: "…": must be short`},
		"a structure":              {`Invalid value: core.Spec{A:"s3}cret", B:{C:1}}: bad`, `Invalid value: core.Spec{…}: bad`},
		"JSON":                     {`Invalid value: {"a":"s3cret"}: bad`, `Invalid value: {…}: bad`},
		"a map with a value":       {`expected map, got &value.valueUnstructured{Value:"s3cret"}`, `expected map, got &value.valueUnstructured{…}`},
		"an open string":           {`Invalid value: "s3cret and then cut`, `Invalid value: "…"`},
		"open braces":              {`Invalid value: {"a":"s3cret", and then cut`, `Invalid value: {…}`},
		"an open string in braces": {`Invalid value: {"a":"s3cret`, `Invalid value: {…}`},
		"names":                    {`unknown field "spec.foo" in version "v1", denied by webhook "a.b" for User "eve"`, `unknown field "spec.foo" in version "v1", denied by webhook "a.b" for User "eve"`},
		"a list item":              {`.spec.containers[name="app"].ports[port=80,protocol="TCP"]: duplicate`, `.spec.containers[name="app"].ports[port=80,protocol="TCP"]: duplicate`},
		"an assignment":            {`password="s3cret" is weak`, `password="…" is weak`},
		"what is supported":        {`Unsupported value: "s3cret": supported values: "A", "B"`, `Unsupported value: "…": supported values: "A", "B"`},
		"lines":                    {"a\n\tb", "a b"},
		"a broken encoding":        {"a\xffb", "ab"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := redact(test.in); got != test.want {
				t.Errorf("redact(%q) = %q, want %q", test.in, got, test.want)
			}
		})
	}
	if got := redact(strings.Repeat("é", 5000)); len(got) > maxReason+len("…") || strings.Contains(got, "\uFFFD") {
		t.Errorf("a long message is cut to %d bytes", len(got))
	}
}

func FuzzRedact(f *testing.F) {
	f.Add(`Invalid value: "a{b\"c": core.X{A:"b", C:[name="d"]}`)
	f.Fuzz(func(t *testing.T, message string) {
		quoted := `Invalid value: "` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace("s3cret"+message) + `": bad`
		if got := redact(quoted); strings.Contains(got, "s3cret") {
			t.Errorf("redact(%q) = %q", quoted, got)
		}
		redact(message) // must end
	})
}

// What webhooks and other plugins answer is up to them.
func TestAnswersOfPlugins(t *testing.T) {
	asked := request{"patch", Key{schema.GroupKind{Group: "apps", Kind: "Deployment"}, "shop", "app"}, &meta.RESTMapping{}}
	secret := request{"patch", Key{schema.GroupKind{Kind: "Secret"}, "shop", "app"}, &meta.RESTMapping{}}
	status := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
	}
	tests := map[string]struct {
		asked  request
		err    error
		denied bool
		says   string
	}{
		"a webhook's denial":             {asked, status(400, "BadRequest", `admission webhook "x.y" denied the request: label "s3cret" is missing`), true, `admission webhook "x.y" denied the request: label "…" is missing`},
		"a policy's denial":              {asked, status(422, "Invalid", `deployments.apps "app" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too many replicas`), true, "too many replicas"},
		"pod security":                   {asked, status(403, "Forbidden", `pods "app" is forbidden: violates PodSecurity "restricted:latest": privileged`), true, "privileged"},
		"any other refusal":              {asked, status(403, "Forbidden", `deployments.apps "app" is forbidden: not on Fridays`), true, "not on Fridays"},
		"a webhook that cannot be asked": {asked, status(500, "InternalError", `Internal error occurred: failed calling webhook "x.y": timeout`), false, "failed calling webhook"},
		"a denial of a Secret":           {secret, status(403, "Forbidden", `admission webhook "x.y" denied the request: s3cret is weak`), true, "left out"},
		"a conflict":                     {asked, status(409, "Conflict", "Operation cannot be fulfilled: the object has been modified"), false, "the object has been modified"},
		"no answer":                      {asked, errors.New("connection refused"), false, "cannot apply Deployment shop/app: connection refused"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.asked.explain(test.err)
			var denied *DeniedError
			if errors.As(err, &denied) != test.denied {
				t.Errorf("error %T, denied %v; want %v", err, !test.denied, test.denied)
			}
			if !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("message %q, want it to say %q and not the value", err, test.says)
			}
		})
	}
}
