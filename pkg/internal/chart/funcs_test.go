package chart

import (
	"strings"
	"testing"
	"text/template"
)

// TestNumbersInTemplates holds what charts do with numbers, given an int64
// where Helm gives a float64.
func TestNumbersInTemplates(t *testing.T) {
	values := map[string]any{"n": int64(3), "same": int64(3), "half": 0.5, "large": int64(9007199254740993), "text": "3", "list": []any{int64(1)}}
	for expression, want := range map[string]string{
		`eq .n 3`:                    "true",
		`eq .n 3.0`:                  "true",
		`eq 3.0 .n`:                  "true",
		`eq .n 1 2 3`:                "true",
		`eq .n 1 2`:                  "false",
		`eq .n .same`:                "true",
		`eq .large 9007199254740993`: "true",
		`eq .large 9007199254740992`: "false",
		`eq .text "3"`:               "true",
		`eq .text "4" "3"`:           "true",
		`eq .missing nil`:            "true",
		`eq .text .missing`:          "false",
		`ne .n 4.0`:                  "true",
		`ne .text "3"`:               "false",
		`lt .half .n`:                "true",
		`le .n 3.0`:                  "true",
		`gt .n 2.5`:                  "true",
		`ge .n 4`:                    "false",
		`gt "b" "a"`:                 "true",
		`eq .n "3"`:                  "error calling eq: incompatible types for comparison",
		`lt .list 1`:                 "error calling lt: invalid type for comparison",
		`eq .n`:                      "error calling eq: missing argument for comparison",
		`printf "%d|%5d|%-4d|%v|%+d|%x|%s" .n .n .n .n .n .n .text`: "3|    3|3   |3|+3|3|3",
		`printf "%.0f|%.2f|%5.1f|%g|%.0f" .n .n .n .n .half`:        "3|3.00|  3.0|3|0",
		`printf "%.0f" .large`:                      "9007199254740992",
		`printf "%v" .large`:                        "9007199254740993",
		`printf "%*d" .n .n`:                        "  3",
		`kindIs "float64" .n`:                       "true",
		`kindIs "int64" .n`:                         "true",
		`kindIs "string" .text`:                     "true",
		`kindIs "string" .n`:                        "false",
		`kindIs "slice" .list`:                      "true",
		`kindIs "invalid" .missing`:                 "true",
		`typeIs "float64" .n`:                       "true",
		`typeIs "string" .n`:                        "false",
		`typeIsLike "float64" .n`:                   "true",
		`(fromYaml "a: 1234567").a`:                 "1234567",
		`(fromYaml "a: [").Error | hasError`:        "true",
		`(fromJson "{\"a\": 1234567}").a`:           "1234567",
		`(fromJson "{").Error | hasError`:           "true",
		`index (fromYamlArray "[1234567]") 0`:       "1234567",
		`index (fromJsonArray "[1234567, 0.5]") 1`:  "0.5",
		`index (fromYamlArray "a: b") 0 | hasError`: "true",
	} {
		t.Run(expression, func(t *testing.T) {
			funcs := templateFuncs(func() {})
			delete(funcs, "lookup")
			funcs["hasError"] = func(v any) bool { s, ok := v.(string); return ok && s != "" }
			var out strings.Builder
			err := template.Must(template.New("t").Funcs(funcs).Parse("{{ "+expression+" }}")).Execute(&out, values)
			if err != nil {
				if !strings.HasPrefix(want, "error") || !strings.Contains(err.Error(), want) {
					t.Fatalf("error %v, want %s", err, want)
				}
				return
			}
			if out.String() != want {
				t.Errorf("got %s, want %s", out.String(), want)
			}
		})
	}
}
