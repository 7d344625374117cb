package typegen

import (
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
	replace := func(text string, with func(path Path, def any) string) string {
		return placeholder.ReplaceAllStringFunc(text, func(match string) string {
			path := ParsePath(placeholder.FindStringSubmatch(match)[1])
			def, err := defaultAt(field, path)
			if err != nil {
				problems = append(problems, fmt.Errorf("rule on %s: %w", r.Path, err))
			}
			return with(path, def)
		})
	}
	r.Rule = replace(r.Rule, func(path Path, def any) string { return valueOrDefault(field, path, def) })
	r.Message = replace(r.Message, func(_ Path, def any) string { return fmt.Sprint(def) })
	if field.Find(ParsePath(r.Field)) == nil {
		problems = append(problems, fmt.Errorf("rule on %s: there is no field %s", r.Path, r.Field))
	}
	return r, errors.Join(problems...)
}

// defaultAt is the scalar that the chart has below a field.
func defaultAt(field *Field, path Path) (any, error) {
	var value *Value
	if field.Value != nil {
		value = field.Value.Find(path)
	}
	if value == nil {
		return nil, fmt.Errorf("the chart declares no value %s", path)
	}
	switch value.Kind {
	case Bool, Int, Float, String:
		return value.Default, nil
	default:
		return nil, fmt.Errorf("the default of %s is no scalar", path)
	}
}

// valueOrDefault reads a value in CEL, guarded at each step. Structs have
// fields, everything else below them is a map with keys.
func valueOrDefault(field *Field, path Path, def any) string {
	guards := make([]string, len(path))
	at := "self"
	for i, key := range path {
		if field != nil && field.Type.Kind == TypeStruct {
			at += "." + celName(key)
			guards[i] = "has(" + at + ")"
			field = field.Field(key)
		} else {
			quoted := CELString(key)
			guards[i] = quoted + " in " + at
			at += "[" + quoted + "]"
		}
	}
	literal := fmt.Sprint(def)
	if text, ok := def.(string); ok {
		literal = CELString(text)
	}
	return fmt.Sprintf("(%s ? %s : %s)", strings.Join(guards, " && "), at, literal)
}

// CELString quotes a string for CEL.
func CELString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
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
