package chart

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// templateFuncs are the functions that differ from Helm's: lookup records, and
// the rest lets charts written for Helm, where every number is a float64, meet
// integers: `gt .Values.replicas 1.0`, `printf "%.0f" .Values.size`,
// `kindIs "float64" .Values.port` keep working, and values that pass through
// toYaml and fromYaml stay integers.
func templateFuncs(lookup any) template.FuncMap {
	funcs := template.FuncMap{
		"lookup":        lookup,
		"printf":        printf,
		"kindIs":        kindIs,
		"typeIs":        typeIs,
		"typeIsLike":    func(want string, v any) bool { return typeIs(want, v) || typeIs("*"+want, v) },
		"fromYaml":      decodeMap(func(b []byte, into *map[string]any) error { return utilyaml.Unmarshal(b, into) }),
		"fromJson":      decodeMap(func(b []byte, into *map[string]any) error { return json.Unmarshal(b, into) }),
		"fromYamlArray": decodeArray(func(b []byte, into *[]any) error { return utilyaml.Unmarshal(b, into) }),
		"fromJsonArray": decodeArray(func(b []byte, into *[]any) error { return json.Unmarshal(b, into) }),
		"eq":            equal,
	}
	for _, name := range []string{"ne", "lt", "le", "gt", "ge"} {
		funcs[name] = func(a, b any) (bool, error) { return compare(name, a, b) }
	}
	return funcs
}

// decodeMap makes a function that, like Helm's, never fails: the key Error of
// its result holds what went wrong.
func decodeMap(decode func([]byte, *map[string]any) error) func(string) map[string]any {
	return func(text string) map[string]any {
		out := map[string]any{}
		if err := decode([]byte(text), &out); err != nil {
			return map[string]any{"Error": err.Error()}
		}
		return out
	}
}

// decodeArray is decodeMap for arrays; the error is the one item.
func decodeArray(decode func([]byte, *[]any) error) func(string) []any {
	return func(text string) []any {
		out := []any{}
		if err := decode([]byte(text), &out); err != nil {
			return []any{err.Error()}
		}
		return out
	}
}

// integer prints under the verbs of floating-point numbers too.
type integer int64

// Format implements fmt.Formatter.
func (i integer) Format(s fmt.State, verb rune) {
	var v any = int64(i)
	if strings.ContainsRune("eEfFgG", verb) {
		v = float64(i)
	}
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), v)
}

func printf(format string, args ...any) string {
	for i, a := range args {
		if n, ok := a.(int64); ok {
			args[i] = integer(n)
		}
	}
	return fmt.Sprintf(format, args...)
}

// kindIs and typeIs take an int64 for the float64 it is in Helm as well.
func kindIs(want string, v any) bool {
	return reflect.ValueOf(v).Kind().String() == want || isFloatInHelm(want, v)
}

func typeIs(want string, v any) bool {
	return fmt.Sprintf("%T", v) == want || isFloatInHelm(want, v)
}

func isFloatInHelm(want string, v any) bool {
	_, isInt := v.(int64)
	return isInt && want == "float64"
}

// comparisons runs text/template's own comparisons, which Go does not export.
var comparisons = func() *template.Template {
	t := template.New("comparisons")
	for _, name := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
		template.Must(t.New(name).Parse("{{" + name + " .A .B}}"))
	}
	return t
}()

func compare(name string, a, b any) (bool, error) {
	if x, ok := a.(string); ok && (name == "eq" || name == "ne") {
		if y, ok := b.(string); ok {
			return (x == y) == (name == "eq"), nil
		}
	}
	a, b = sameNumbers(a, b)
	var out strings.Builder
	err := comparisons.ExecuteTemplate(&out, name, struct{ A, B any }{a, b})
	if err != nil {
		// The innermost error is the comparison's own; the others tell of our template.
		for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
			err = inner
		}
		return false, err
	}
	return out.String() == "true", nil
}

// equal is eq: whether a equals one of the others.
func equal(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, errors.New("missing argument for comparison")
	}
	for _, b := range others {
		if same, err := compare("eq", a, b); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

// sameNumbers turns an integer that meets a float into a float. Without it
// text/template refuses to compare them.
func sameNumbers(a, b any) (any, any) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case x.IsValid() && y.IsValid() && x.CanInt() && y.CanFloat():
		return float64(x.Int()), b
	case x.IsValid() && y.IsValid() && x.CanFloat() && y.CanInt():
		return a, float64(y.Int())
	}
	return a, b
}
