package golang

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen"
)

// markersOf writes constraints as the markers that controller-gen reads.
func markersOf(kind typegen.TypeKind, c typegen.Constraints) []string {
	const prefix = "kubebuilder:validation:"
	var markers []string
	number := func(name string, value *int64) {
		if value != nil {
			markers = append(markers, prefix+name+"="+strconv.FormatInt(*value, 10))
		}
	}
	if len(c.Enum) > 0 {
		values := make([]string, len(c.Enum))
		for i, value := range c.Enum {
			values[i] = escape(value)
		}
		markers = append(markers, prefix+"Enum={"+strings.Join(values, ",")+"}")
	}
	if kind == typegen.TypeIntOrString {
		return append(markers, intOrStringRules(c)...)
	}
	number("Minimum", c.Minimum)
	number("Maximum", c.Maximum)
	if c.Pattern != "" {
		markers = append(markers, prefix+"Pattern="+quote(c.Pattern))
	}
	number("MaxLength", c.MaxLength)
	number("MaxItems", c.MaxItems)
	number("MaxProperties", c.MaxProperties)
	if c.Nullable {
		markers = append(markers, "nullable")
	}
	return markers
}

// intOrStringRules writes in CEL what a schema cannot say of a value that is
// either a number or a string.
func intOrStringRules(c typegen.Constraints) []string {
	var rules []string
	rule := func(kind, condition, message string) {
		rules = append(rules, fmt.Sprintf("kubebuilder:validation:XValidation:rule=%s,message=%s",
			quote(fmt.Sprintf("type(self) != %s || %s", kind, condition)), quote(message)))
	}
	if c.Minimum != nil {
		rule("int", fmt.Sprintf("self >= %d", *c.Minimum), fmt.Sprintf("a number must be at least %d", *c.Minimum))
	}
	if c.Maximum != nil {
		rule("int", fmt.Sprintf("self <= %d", *c.Maximum), fmt.Sprintf("a number must be at most %d", *c.Maximum))
	}
	if c.MaxLength != nil {
		rule("string", fmt.Sprintf("self.size() <= %d", *c.MaxLength), fmt.Sprintf("a name must have at most %d characters", *c.MaxLength))
	}
	if c.Pattern != "" {
		rule("string", fmt.Sprintf("self.matches(%s)", typegen.CELString(c.Pattern)), "a name must match "+c.Pattern)
	}
	return rules
}

// listMarker says that a list belongs to one writer as a whole: Helm replaces
// lists and never merges them.
func listMarker(t typegen.Type) []string {
	if t.Kind == typegen.TypeList {
		return []string{"listType=atomic"}
	}
	return nil
}

// quote writes a string as markers read it. gofmt would turn two quotes of a
// kind in a row into a typographic one, so the second of them is escaped.
func quote(s string) string {
	if !strings.ContainsAny(s, "`\n") && !strings.Contains(s, "''") && s != "" {
		return "`" + s + "`"
	}
	return escape(s)
}

func escape(s string) string {
	return strings.NewReplacer("''", `'\x27`, "``", "`\\x60").Replace(strconv.Quote(s))
}

// defaultLine tells what the chart does when the value is left out. Empty
// containers and null are what leaving it out looks like anyway.
func defaultLine(f *typegen.Field) string {
	if f.Value == nil || f.Type.Kind == typegen.TypeStruct {
		return ""
	}
	switch def := f.Value.Default.(type) {
	case nil:
		return ""
	case []any:
		if len(def) == 0 {
			return ""
		}
	case map[string]any:
		if len(def) == 0 {
			return ""
		}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(f.Value.Default); err != nil {
		return ""
	}
	return "Default: " + strings.TrimSpace(text.String()) + "."
}

// comment writes paragraphs as lines of a Go comment, without the empty ones.
func (w *writer) comment(paragraphs ...string) {
	for _, paragraph := range paragraphs {
		for line := range strings.Lines(paragraph) {
			line = strings.TrimSpace(line)
			// A plus sign at the start would make the line a marker.
			if strings.HasPrefix(line, "+") {
				line = "\u200b" + line
			}
			w.body.WriteString(strings.TrimRight("// "+line, " ") + "\n")
		}
	}
}
