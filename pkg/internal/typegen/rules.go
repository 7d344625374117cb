package typegen

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Rule is a condition in CEL that the API server checks at admission. In its
// text, ${a.b} stands for the value at a.b below the rule's path or, where the
// user left that out, for the chart's default; so a rule speaks of what the
// chart will really get.
type Rule struct {
	// Path of the map the rule stands on.
	Path string `json:"path"`
	// Rule in CEL, with self as the map at Path.
	Rule string `json:"rule"`
	// Message for the user; ${a.b} shows the chart's default there.
	Message string `json:"message"`
	// Field below Path that the error names, as in the values.
	Field string `json:"field"`
	// Reason why the rule is worth having.
	Reason string `json:"reason"`
}

func (r Rule) check() error {
	for name, text := range map[string]string{"rule": r.Rule, "message": r.Message, "field": r.Field, "reason": r.Reason} {
		if text == "" {
			return fmt.Errorf("rule on %s: %s is missing", r.Path, name)
		}
	}
	return nil
}

var placeholder = regexp.MustCompile(`\$\{([^}]+)\}`)

// AttachRules puts each rule on the struct it speaks of, its placeholders
// replaced. It fails for a rule on something that is not a struct, and for a
// placeholder without a default that a rule could compare.
func AttachRules(root *Field, rules []Rule) error {
	var problems []error
	for _, rule := range rules {
		field := root.Find(ParsePath(rule.Path))
		if field == nil || field.Type.Kind != TypeStruct {
			problems = append(problems, fmt.Errorf("rule on %s: no map of typed values stands there", rule.Path))
			continue
		}
		expanded, err := rule.expand(field)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		field.Type.Rules = append(field.Type.Rules, expanded)
	}
	return errors.Join(problems...)
}

func (r Rule) expand(field *Field) (Rule, error) {
	var problems []error
	replace := func(text string, with func(path Path, def string) string) string {
		return placeholder.ReplaceAllStringFunc(text, func(match string) string {
			path := ParsePath(placeholder.FindStringSubmatch(match)[1])
			def, err := defaultAt(field, path)
			if err != nil {
				problems = append(problems, fmt.Errorf("rule on %s: %w", r.Path, err))
			}
			return with(path, def)
		})
	}
	r.Rule = replace(r.Rule, valueOrDefault)
	r.Message = replace(r.Message, func(_ Path, def string) string { return def })
	if field.Find(ParsePath(r.Field)) == nil {
		problems = append(problems, fmt.Errorf("rule on %s: there is no field %s", r.Path, r.Field))
	}
	return r, errors.Join(problems...)
}

// defaultAt writes a scalar default as CEL, which for scalars is JSON.
func defaultAt(field *Field, path Path) (string, error) {
	target := field.Find(path)
	if target == nil || target.Value == nil {
		return "", fmt.Errorf("the chart declares no value %s", path)
	}
	switch target.Value.Kind {
	case Bool, Int, Float, String:
	default:
		return "", fmt.Errorf("the default of %s is no scalar", path)
	}
	text, err := json.Marshal(target.Value.Default)
	return string(text), err
}

// valueOrDefault reads a value in CEL, guarded at each step.
func valueOrDefault(path Path, def string) string {
	guards := make([]string, len(path))
	at := "self"
	for i, key := range path {
		at += "." + celName(key)
		guards[i] = "has(" + at + ")"
	}
	return fmt.Sprintf("(%s ? %s : %s)", strings.Join(guards, " && "), at, def)
}

var celIdentifier = regexp.MustCompile(`[^A-Za-z0-9_]`)

// celReserved are the words a CEL field name must be escaped for.
var celReserved = map[string]bool{
	"true": true, "false": true, "null": true, "in": true, "as": true, "break": true, "const": true, "continue": true,
	"else": true, "for": true, "function": true, "if": true, "import": true, "let": true, "loop": true, "package": true,
	"namespace": true, "return": true, "var": true, "void": true, "while": true,
}

// celName escapes a key the way Kubernetes exposes it to CEL.
// https://kubernetes.io/docs/reference/using-api/cel/#escaping
func celName(key string) string {
	if celReserved[key] {
		return "__" + key + "__"
	}
	escaped := strings.ReplaceAll(key, "__", "__underscores__")
	return celIdentifier.ReplaceAllStringFunc(escaped, func(char string) string {
		switch char {
		case ".":
			return "__dot__"
		case "-":
			return "__dash__"
		case "/":
			return "__slash__"
		default:
			return strconv.Quote(char) // no identifier: the API server will name the rule
		}
	})
}
