package golang_test

import (
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen"
	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/golang"
)

// generate makes the Go types of values by their YAML kinds.
func generate(t *testing.T, values string) (string, error) {
	t.Helper()
	root, err := typegen.ParseValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := typegen.Resolve(root, typegen.YAMLKind{})
	if err != nil {
		t.Fatal(err)
	}
	source, err := golang.Types(spec, golang.Options{Package: "v1", Kind: "App", Chart: "app", ChartVersion: "1.0.0"})
	return string(source), err
}

func TestNamesAreGoNames(t *testing.T) {
	for key, want := range map[string]string{
		"replicaCount":  "ReplicaCount",
		"clientId":      "ClientID",
		"discoveryURL":  "DiscoveryURL",
		"my-key":        "MyKey",
		"my.key/part":   "MyKeyPart",
		"UPPER_SNAKE":   "UPPERSNAKE",
		"9p":            "X9p",
		"größe":         "GrE",
		"-":             "X",
		"type":          "Type",
		"x":             "X",
		"httpGet":       "HTTPGet",
		"sslVPNEnabled": "SSLVPNEnabled",
	} {
		source, err := generate(t, "\""+key+"\": 1\n")
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if !regexp.MustCompile(`(?m)^\t` + want + ` \*int64 `).MatchString(source) {
			t.Errorf("%s is not %s in\n%s", key, want, source)
		}
	}
}

// TestEveryNameIsThere once, whatever the keys: they may mean the same name in
// Go, or one that the package has for the kind itself.
func TestEveryNameIsThereOnce(t *testing.T) {
	source, err := generate(t, `
a-b: 1
aB: 2
a_b: 3
list: {x: 1}
status: {x: 1}
spec: {x: 1}
deep: {er: {x: 1}}
deepEr: {x: 1}
`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "spec.go", source, parser.AllErrors); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, match := range regexp.MustCompile(`(?m)^type (\w+) `).FindAllStringSubmatch(source, -1) {
		seen[match[1]]++
	}
	for name, count := range seen {
		if count > 1 {
			t.Errorf("type %s is declared %d times", name, count)
		}
	}
	if len(seen) != 7 {
		t.Errorf("%d types are declared, want 7: %v", len(seen), seen)
	}
	for _, field := range []string{"AB ", "AB2 ", "AB3 "} {
		if !strings.Contains(source, "\t"+field) {
			t.Errorf("field %s is missing in\n%s", field, source)
		}
	}
}

func TestKeysThatCannotBeJSONNamesAreNamed(t *testing.T) {
	for _, key := range []string{"", "a,b", "it's", `a\\b`, `a\"b`, "a`b", `a\nb`, "🚀"} {
		if source, err := generate(t, `outer: {"`+key+`": 1}`); err == nil || !strings.Contains(err.Error(), "outer.") {
			t.Errorf("for the key %q the error is %v and the source\n%s", key, err, source)
		}
	}
}

// TestCommentsCannotBecomeMarkers or end the comment they stand in.
func TestCommentsCannotBecomeMarkers(t *testing.T) {
	source, err := generate(t, "# +kubebuilder:validation:Minimum=5\n# */ func init() {}\nport: 1\n")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^\s*// \+kubebuilder`).MatchString(source) {
		t.Errorf("a comment became a marker:\n%s", source)
	}
}

// TestDefaultsAreTold, but not those that look like leaving the value out.
func TestDefaultsAreTold(t *testing.T) {
	source, err := generate(t, "a: <x> & y\nb: [1]\nc: []\nd: {}\ne:\nf: 0\ng: false\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`// Default: "<x> & y".`, "// Default: [1].", "// Default: 0.", "// Default: false."} {
		if !strings.Contains(source, want) {
			t.Errorf("%q is missing in\n%s", want, source)
		}
	}
	if got := strings.Count(source, "// Default:"); got != 4 {
		t.Errorf("%d defaults are told, want 4:\n%s", got, source)
	}
}
