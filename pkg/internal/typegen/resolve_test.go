package typegen_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen"
)

// landing is a source as a later kind of evidence would be: it knows some
// values and leaves the others to weaker sources.
type landing map[string]typegen.Type

func (landing) Name() string { return "landing site" }

func (l landing) Type(v *typegen.Value) (typegen.Type, bool) {
	t, ok := l[v.Path.String()]
	return t, ok
}

func overrides(t *testing.T, text string) *typegen.Overrides {
	t.Helper()
	o, err := typegen.ParseOverrides([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestTheFirstSourceThatKnowsDecides(t *testing.T) {
	values := parse(t, "port: 80\nresources: {}\nname: web\nnested: {enabled: true}\n")
	o := overrides(t, `
types:
- {paths: [port], type: int32, minimum: 1, reason: a port}
- {paths: [nested.extra], type: string, doc: Read by a template., undeclared: true, reason: seen in a template}
`)
	site := landing{
		"port":      {Kind: typegen.TypeIntOrString},
		"resources": {Kind: typegen.TypeGo, Go: typegen.GoType{Alias: "corev1", Name: "ResourceRequirements"}},
	}
	spec, err := typegen.Resolve(values, o, site, typegen.YAMLKind{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	spec.Walk(func(f *typegen.Field) {
		got[f.Path.String()] = string(f.Type.Kind) + " by " + f.Source
	})
	want := map[string]string{
		"":               "struct by YAML kind",
		"port":           "int32 by override",
		"resources":      "go by landing site",
		"name":           "string by YAML kind",
		"nested":         "struct by YAML kind",
		"nested.enabled": "bool by YAML kind",
		"nested.extra":   "string by override",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestYAMLKindKeepsOpenWhatADefaultDoesNotTell(t *testing.T) {
	for text, want := range map[string]string{
		"v: true":       "bool",
		"v: 1":          "int64",
		"v: 0.5":        "float64",
		"v: x":          "string",
		"v: null":       "json",
		"v: {}":         "json",
		"v: {a: 1}":     "struct",
		"v: []":         "list of json",
		"v: [a, b]":     "list of string",
		"v: [1, a]":     "list of json",
		"v: [{a: 1}]":   "list of json",
		"v: 2001-01-01": "string",
	} {
		spec, err := typegen.Resolve(parse(t, text), typegen.YAMLKind{})
		if err != nil {
			t.Fatal(err)
		}
		v := spec.Field("v").Type
		got := string(v.Kind)
		if v.Elem != nil {
			got += " of " + string(v.Elem.Kind)
		}
		if got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestAnUnknownTypeIsNamed(t *testing.T) {
	_, err := typegen.Resolve(parse(t, "a: {b: 1}"), landing{"": {Kind: typegen.TypeStruct}, "a": {Kind: typegen.TypeStruct}})
	if err == nil || !strings.Contains(err.Error(), "a.b") {
		t.Errorf("error is %v, want one that names a.b", err)
	}
}

func TestOverridesThatCannotBeAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"unknown key":       {"types: [{path: a}]", `unknown field`},
		"no paths":          {"types: [{type: string, reason: r}]", "names no paths"},
		"no reason":         {"types: [{paths: [a], type: string}]", "a: a reason is missing"},
		"unknown type":      {"types: [{paths: [a], type: Probe, reason: r}]", `"Probe" is no type`},
		"bad pattern":       {"types: [{paths: [a], type: string, pattern: '(', reason: r}]", "pattern"},
		"fields of string":  {"types: [{paths: [a], type: string, fields: [{key: b, type: string}], reason: r}]", "has no fields"},
		"element of string": {"types: [{paths: [a], type: string, elem: {maxLength: 1}, reason: r}]", "has no elements"},
		"undeclared no doc": {"types: [{paths: [a], type: string, undeclared: true, reason: r}]", "needs a doc"},
		"rule no message":   {"rules: [{path: a, rule: 'true', field: b, reason: r}]", "message is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := typegen.ParseOverrides([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestOverridesOfAnotherChartAreFound(t *testing.T) {
	values := parse(t, "a: 1\nb: 2\n")
	o := overrides(t, `
types:
- {paths: [a, gone], type: int32, reason: r}
- {paths: [b], type: int32, undeclared: true, doc: d, reason: r}
`)
	err := o.Check(values)
	if err == nil || !strings.Contains(err.Error(), "gone is not declared") || !strings.Contains(err.Error(), "b is declared") {
		t.Errorf("error is %v, want one that names gone and b", err)
	}
}

func TestRulesSpeakOfTheChartsDefaults(t *testing.T) {
	sizes := landing{"scale.sizes": {Kind: typegen.TypeGo, Go: typegen.GoType{Alias: "corev1", Name: "ResourceList"}}}
	spec, err := typegen.Resolve(parse(t, "scale: {min: 1, max: 10, deep: {enabled: true}, namespace: x, of: null, sizes: {cpu: 500m}}\nflat: 1\n"), sizes, typegen.YAMLKind{})
	if err != nil {
		t.Fatal(err)
	}
	rule := func(path, text string) typegen.Rule {
		return typegen.Rule{Path: path, Rule: text, Message: "at most ${max}", Field: "min", Reason: "r"}
	}
	if err := typegen.AttachRules(spec, []typegen.Rule{
		rule("scale", "${min} <= ${max}"), rule("scale", "!${deep.enabled} || ${namespace} == 'x'"), rule("scale", "${sizes.cpu} != ''"),
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"(has(self.min) ? self.min : 1) <= (has(self.max) ? self.max : 10)",
		`!(has(self.deep) && has(self.deep.enabled) ? self.deep.enabled : true) || (has(self.__namespace__) ? self.__namespace__ : 'x') == 'x'`,
		"(has(self.sizes) && 'cpu' in self.sizes ? self.sizes['cpu'] : '500m') != ''",
	}
	var got []string
	for _, r := range spec.Field("scale").Type.Rules {
		got = append(got, r.Rule)
		if r.Message != "at most 10" {
			t.Errorf("message is %q", r.Message)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, bad := range map[string]typegen.Rule{
		"no map of typed values": rule("flat", "true"),
		"declares no value gone": rule("scale", "${gone} > 1"),
		"of is no scalar":        rule("scale", "${of} > 1"),
		"no field":               {Path: "scale", Rule: "true", Message: "m", Field: "gone", Reason: "r"},
	} {
		if err := typegen.AttachRules(spec, []typegen.Rule{bad}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want one with %q", err, text)
		}
	}
}
