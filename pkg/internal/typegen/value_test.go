package typegen_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen"
)

// parse reads values or fails the test.
func parse(t *testing.T, text string) *typegen.Value {
	t.Helper()
	values, err := typegen.ParseValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestDefaultsAreReadAsHelmReadsThem(t *testing.T) {
	values := parse(t, `
level: off
mode: 0644
big: 9007199254740993
huge: 123456789012345678901234567890
ratio: 0.5
text: "1.10"
none:
list: [1, 2]
on: 1
base: &base {port: 80, name: web}
copy:
  <<: *base
  port: 81
`)
	want := map[string]struct {
		kind typegen.Kind
		def  any
	}{
		"level":     {typegen.Bool, false},
		"mode":      {typegen.Int, int64(420)},
		"big":       {typegen.Int, int64(9007199254740993)},
		"huge":      {typegen.Float, 123456789012345678901234567890.0},
		"ratio":     {typegen.Float, 0.5},
		"text":      {typegen.String, "1.10"},
		"none":      {typegen.Null, nil},
		"list":      {typegen.List, []any{int64(1), int64(2)}},
		"true":      {typegen.Int, int64(1)},
		"base.name": {typegen.String, "web"},
		"copy.port": {typegen.Int, int64(81)},
		"copy.name": {typegen.String, "web"},
	}
	for path, want := range want {
		value := values.Find(typegen.ParsePath(path))
		if value == nil {
			t.Errorf("%s is not there", path)
			continue
		}
		if value.Kind != want.kind {
			t.Errorf("%s is a %s, want %s", path, value.Kind, want.kind)
		}
		if diff := cmp.Diff(want.def, value.Default); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestCommentsAboveKeysAreTheirDocs(t *testing.T) {
	values := parse(t, `# This heads the file.

# Plain comment
# over two lines.
plain: 1
# Left over from above.
# -- (int) The described one,
# continued.
# @default -- computed
described: 2
#not spaced
## nested marks
tight: 3
inline: 4 # beside it

# Far away.

lonely: 5
parent:
  # First child.
  first: 1
  child:
    deep: 1
  # After a deeper level.
  second: 2
`)
	want := map[string]string{
		"plain":         "Plain comment\nover two lines.",
		"described":     "The described one,\ncontinued.",
		"tight":         "not spaced\nnested marks",
		"inline":        "beside it",
		"lonely":        "",
		"parent.first":  "First child.",
		"parent.second": "After a deeper level.",
	}
	for path, doc := range want {
		if got := values.Find(typegen.ParsePath(path)).Doc; got != doc {
			t.Errorf("%s: doc is %q, want %q", path, got, doc)
		}
	}
}

func TestKeysKeepTheirOrder(t *testing.T) {
	var keys []string
	for _, child := range parse(t, "z: 1\na: 2\nm: 3\n").Children {
		keys = append(keys, child.Path.String())
	}
	if diff := cmp.Diff([]string{"z", "a", "m"}, keys); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBadValuesAreExplained(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"broken YAML": {"a: 1\nb: [\n", "line"},
		"a list":      {"- 1\n", "must hold a map"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := typegen.ParseValues([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestEmptyValuesAreNoError(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}\n", "null\n"} {
		if values := parse(t, text); len(values.Children) != 0 {
			t.Errorf("%q has %d values", text, len(values.Children))
		}
	}
}

func TestPathsAreReadAsTheyAreWritten(t *testing.T) {
	for _, path := range []typegen.Path{nil, {"a"}, {"a", "b"}, {"kubernetes.io/os", "x"}} {
		if diff := cmp.Diff(path, typegen.ParsePath(path.String())); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
}

// FuzzParseValues: whatever stands in a values.yaml, reading it ends with
// values or an error.
func FuzzParseValues(f *testing.F) {
	for _, seed := range []string{"a: 1", "a: &x {b: *x}", "a: !!binary aGk=", "? [a]\n: b", "<<: {a: 1}", "a: .inf", "1: 2", "a:\n# c\n  b: 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := typegen.ParseValues([]byte(text))
		if err != nil {
			return
		}
		if _, err := typegen.Resolve(values, typegen.YAMLKind{}); err != nil {
			t.Errorf("values that can be read cannot be typed: %v", err)
		}
	})
}
