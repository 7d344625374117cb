package chart

import (
	"context"
	"errors"
	"strings"
	"testing"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
)

// secretWord stands in values and in what templates make of them; no error may
// show it.
const secretWord = "hunter2-hunter2"

func TestRenderErrors(t *testing.T) {
	configMap := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for name, test := range map[string]struct {
		files  map[string]string
		values map[string]any
		want   []string
		is     error
	}{
		"template that does not parse": {
			files: map[string]string{"templates/a.yaml": "a: b\nc: {{ .Values.x }"},
			want:  []string{"chart broken 1.0.0", "broken/templates/a.yaml:2", `unexpected [redacted] in operand`},
		},
		"function that is not defined": {
			files: map[string]string{"templates/a.yaml": "{{ nonsense }}"},
			want:  []string{"broken/templates/a.yaml:1", `function "nonsense" not defined`},
		},
		"template that is not defined": {
			files: map[string]string{"templates/a.yaml": "\n\n{{ include \"missing\" . }}"},
			want:  []string{"broken/templates/a.yaml:3", `no template "missing"`},
		},
		"missing value": {
			files: map[string]string{"templates/a.yaml": "{{ .Values.image.tag }}"},
			want:  []string{"broken/templates/a.yaml:1:", "<.Values.image.tag>", "nil pointer evaluating interface {}.tag"},
		},
		"chain of helpers": {
			files: map[string]string{
				"templates/a.yaml":       "{{ include \"outer\" . }}",
				"templates/_helpers.tpl": "{{ define \"outer\" }}\n{{ include \"inner\" . }}{{ end }}{{ define \"inner\" }}{{ .Values.a.b }}{{ end }}",
			},
			want: []string{"broken/templates/a.yaml:1:3", `executing "outer"`, "broken/templates/_helpers.tpl:2:", `executing "inner"`, "nil pointer"},
		},
		"required": {
			files: map[string]string{"templates/a.yaml": `{{ required "set image.name, such as \"web\"" .Values.image }}`},
			want:  []string{"broken/templates/a.yaml:1:3", `set image.name, such as "web"`},
		},
		"fail that shows a password": {
			files:  map[string]string{"templates/a.yaml": `{{ fail (printf "%s is short, %s is odd" .Values.db.password .Values.mode) }}`},
			values: map[string]any{"db": map[string]any{"password": secretWord}, "mode": "wild"},
			want:   []string{"[redacted] is short, wild is odd"},
		},
		"value that tpl cannot parse": {
			files:  map[string]string{"templates/a.yaml": `{{ tpl .Values.text . }}`},
			values: map[string]any{"text": "pin: " + secretWord + " {{ .Values. }}"},
			want:   []string{"broken/templates/a.yaml:1:3", "cannot parse template [redacted]"},
		},
		"value that fails in tpl": {
			files:  map[string]string{"templates/a.yaml": `{{ tpl .Values.text . }}`},
			values: map[string]any{"text": "pin: " + secretWord + " {{ .Values.a.b }}"},
			want:   []string{"broken/templates/a.yaml:1:3", "nil pointer"},
		},
		"function that quotes its argument": {
			files:  map[string]string{"templates/a.yaml": `{{ urlParse .Values.url }}`},
			values: map[string]any{"url": "http://user:" + secretWord + "@host:port:"},
			want:   []string{"error calling urlParse"},
		},
		"function that quotes a pattern": {
			files:  map[string]string{"templates/a.yaml": `{{ mustRegexMatch .Values.pattern "x" }}`},
			values: map[string]any{"pattern": "(" + secretWord},
			want:   []string{"error calling mustRegexMatch"},
		},
		"range over a string": {
			files:  map[string]string{"templates/a.yaml": "{{ range .Values.list }}{{ end }}"},
			values: map[string]any{"list": secretWord + "\n" + secretWord},
			want:   []string{"range can't iterate over it"},
		},
		"secret of lookup": {
			files: map[string]string{"templates/a.yaml": `{{ fail ((lookup "v1" "Secret" "garden" "db").data.p | b64dec) }}`},
			want:  []string{"broken/templates/a.yaml:1:3", "[redacted]"},
		},
		"output that is no YAML": {
			files:  map[string]string{"templates/a.yaml": configMap + "---\n\napiVersion: v1\nkind: Secret\nstringData:\n  a: {{ .Values.x }}\n b: c\n"},
			values: map[string]any{"x": secretWord},
			want:   []string{"broken/templates/a.yaml", "line 9", "did not find expected"},
		},
		"output with an anchor": {
			files:  map[string]string{"templates/a.yaml": configMap + "data:\n  password: *{{ .Values.x }}\n"},
			values: map[string]any{"x": secretWord},
			want:   []string{"broken/templates/a.yaml renders invalid YAML", "cannot be parsed"},
		},
		"output with a key that is an object": {
			files:  map[string]string{"templates/a.yaml": configMap + "data:\n  {a: {{ .Values.x }}}: b\n"},
			values: map[string]any{"x": secretWord},
			want:   []string{"broken/templates/a.yaml renders invalid YAML"},
		},
		"output that is text": {
			files:  map[string]string{"templates/a.yaml": "{{ .Values.x }}"},
			values: map[string]any{"x": secretWord},
			want:   []string{"broken/templates/a.yaml renders something other than a Kubernetes object at line 1"},
		},
		"object without kind": {
			files: map[string]string{"templates/a.yaml": configMap + "---\napiVersion: v1\nmetadata: {name: b}\n"},
			want:  []string{"broken/templates/a.yaml renders an object without apiVersion or kind at line 5"},
		},
		"object without name": {
			files: map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\n"},
			want:  []string{"broken/templates/a.yaml: a ConfigMap has no metadata.name"},
		},
		"list with something else in it": {
			files: map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: List\nitems: [text]\n"},
			want:  []string{"broken/templates/a.yaml", "item 0 of the List is not an object"},
		},
		"object twice": {
			files: map[string]string{"templates/a.yaml": configMap, "templates/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: garden}\n"},
			want:  []string{"ConfigMap garden/a is rendered twice, in broken/templates/a.yaml and in broken/templates/b.yaml"},
		},
		"cluster too old": {
			files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: broken\nversion: 1.0.0\nkubeVersion: '>=1.99.0'\n"},
			want:  []string{"needs Kubernetes >=1.99.0, the cluster has v1.37.2"},
			is:    ErrIncompatible,
		},
		"scalar for a subchart": {
			files:  map[string]string{"charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n"},
			values: map[string]any{"sub": secretWord},
			want:   []string{"sub: must be an object"},
			is:     ErrInvalidValues,
		},
		"scalar for an alias": {
			files: map[string]string{
				"Chart.yaml":            "apiVersion: v2\nname: broken\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, alias: other}]\n",
				"charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
			},
			values: map[string]any{"other": secretWord},
			want:   []string{"other: must be an object"},
			is:     ErrInvalidValues,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(writeChart(t, test.files))
			if err != nil {
				t.Fatal(err)
			}
			req := request(t, test.values)
			req.Lookup = func(context.Context, releasev1alpha1.LookupReference) (map[string]any, error) {
				return map[string]any{"data": map[string]any{"p": "aHVudGVyMi1odW50ZXIy"}}, nil
			}
			_, err = c.Render(t.Context(), req)
			checkError(t, err, test.want)
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %v is not %v", err, test.is)
			}
		})
	}
}

func checkError(t *testing.T, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %q shows a secret", err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has more than one line", err)
	}
}

func TestSchemaViolations(t *testing.T) {
	c := mustLoad(t, "web")
	for name, test := range map[string]struct {
		values map[string]any
		want   []string
	}{
		"type":       {map[string]any{"replicas": secretWord}, []string{"replicas: got string, want integer"}},
		"minimum":    {map[string]any{"replicas": int64(0)}, []string{"replicas: must be at least 1"}},
		"maximum":    {map[string]any{"replicas": int64(101)}, []string{"replicas: must be at most 100"}},
		"enum":       {map[string]any{"mode": secretWord}, []string{"mode: value must be one of 'fast', 'safe'"}},
		"pattern":    {map[string]any{"password": secretWord}, []string{"password: must match the pattern ^[a-z]{8,}$"}},
		"below":      {map[string]any{"labels": map[string]any{"a": int64(5)}}, []string{"labels.a: got number, want string"}},
		"two at one": {map[string]any{"replicas": int64(0), "mode": "x"}, []string{"replicas: must", "mode: value", "; "}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Render(t.Context(), request(t, test.values))
			checkError(t, err, test.want)
			if !errors.Is(err, ErrInvalidValues) {
				t.Errorf("error %v is not ErrInvalidValues", err)
			}
		})
	}
	if _, err := c.Render(t.Context(), request(t, map[string]any{"replicas": 3, "mode": "fast"})); err != nil {
		t.Errorf("good values: %v", err)
	}
}

func TestSchemas(t *testing.T) {
	required := `{"required": ["size"], "properties": {"size": {"type": "integer"}, "extra": {"$ref": "https://example.com/remote.json"}}}`
	c, err := Load(writeChart(t, map[string]string{
		"Chart.yaml":                    "apiVersion: v2\nname: broken\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, alias: other, condition: other.enabled}]\n",
		"charts/sub/Chart.yaml":         "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/values.yaml":        "enabled: true\n",
		"charts/sub/values.schema.json": required,
	}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Render(t.Context(), request(t, nil))
	checkError(t, err, []string{"other: missing property 'size'"})
	for name, values := range map[string]map[string]any{
		"met":                       {"size": int64(1), "extra": "a reference out of the file allows everything"},
		"of a subchart that is off": {"enabled": false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.Render(t.Context(), request(t, map[string]any{"other": values})); err != nil {
				t.Error(err)
			}
		})
	}
}
