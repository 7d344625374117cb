package scenarios

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// writeLog makes a log of the operator.
func writeLog(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operator.log")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLeaksAreFound(t *testing.T) {
	const password = "a \"quoted\" password"
	secret := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "mine"}, "type": "Opaque",
		"data": map[string]any{
			"password": base64.StdEncoding.EncodeToString([]byte(password)),
			"short":    base64.StdEncoding.EncodeToString([]byte("true")),
		},
	}}
	for name, test := range map[string]struct {
		status, note, log string
		leaks             int
	}{
		"nowhere":                         {"all true", "all true", "all true", 0},
		"in a status, as JSON":            {"it is " + password, "", "", 1},
		"in an event":                     {"", password, "", 1},
		"in the log":                      {"", "", password, 1},
		"in the log, as a Secret says it": {"", "", base64.StdEncoding.EncodeToString([]byte(password)), 1},
		"in two places":                   {password, password, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{secrets: map[string]string{}, public: map[string]string{}, warnings: map[string]bool{}}
			w.secret(secret)
			w.resource(&unstructured.Unstructured{Object: map[string]any{
				"kind": "Parcel", "metadata": map[string]any{"name": "box"},
				"spec":   map[string]any{"password": password}, // the user's own words
				"status": map[string]any{"message": test.status},
			}})
			w.event(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "e"}, "note": test.note}})
			leaks, err := w.leaks(writeLog(t, test.log))
			if err != nil {
				t.Fatal(err)
			}
			if len(leaks) != test.leaks {
				t.Errorf("%d leaks %q, want %d", len(leaks), leaks, test.leaks)
			}
			if slices.ContainsFunc(leaks, func(leak string) bool { return strings.Contains(leak, password) }) {
				t.Errorf("the report tells the secret: %q", leaks)
			}
		})
	}
}

func TestLogged(t *testing.T) {
	const (
		fine   = `{"level":"info","msg":"fine"}`
		broken = `{"level":"error","msg":"cannot apply Service"}`
		panics = "panic: runtime error: index out of range"
	)
	for name, test := range map[string]struct {
		lines              []string
		expected, possible []string
		complaint          string
	}{
		"nothing":                       {nil, nil, nil, ""},
		"no errors":                     {[]string{fine, `{"level":"error","error":"leader election lost"}`, "I1120 11:00:00.1 1 reflector.go:1] fine"}, nil, nil, ""},
		"a stop in mid-request":         {[]string{`{"level":"error","logger":"client-go","error":"Get \"https://a/b\": context canceled"}`}, nil, nil, ""},
		"an error":                      {[]string{fine, broken}, nil, nil, "cannot apply Service"},
		"an expected error":             {[]string{broken}, []string{"cannot apply .*Service"}, nil, ""},
		"a possible error":              {[]string{broken}, nil, []string{"cannot apply"}, ""},
		"an expected error is missing":  {[]string{fine}, []string{"cannot apply"}, nil, "no error that matches"},
		"a possible error is missing":   {[]string{fine}, nil, []string{"cannot apply"}, ""},
		"a panic":                       {[]string{fine, panics}, nil, nil, "index out of range"},
		"an error of client-go's own":   {[]string{"E1120 11:00:00.1 1 reflector.go:1] no"}, nil, nil, "reflector"},
		"an expected one, and a second": {[]string{broken, panics}, []string{"cannot apply"}, nil, "index out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			err := logged(writeLog(t, test.lines...), test.expected, test.possible)
			if test.complaint == "" && err != nil || test.complaint != "" && (err == nil || !strings.Contains(err.Error(), test.complaint)) {
				t.Errorf("error %v, want %q", err, test.complaint)
			}
		})
	}
}

func TestWarned(t *testing.T) {
	for name, test := range map[string]struct {
		seen, expected, possible []string
		fails                    bool
	}{
		"none":                 {nil, nil, nil, false},
		"as expected":          {[]string{"Conflict"}, []string{"Conflict"}, nil, false},
		"one too many":         {[]string{"Conflict", "PayloadLost"}, []string{"Conflict"}, nil, true},
		"one is missing":       {nil, []string{"Conflict"}, nil, true},
		"a possible one":       {[]string{"Conflict"}, nil, []string{"Conflict"}, false},
		"a possible one lacks": {nil, nil, []string{"Conflict"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{public: map[string]string{}, warnings: map[string]bool{}, kinds: []string{"Parcel"}}
			for _, reason := range test.seen {
				w.event(&unstructured.Unstructured{Object: map[string]any{
					"metadata": map[string]any{"name": reason}, "type": "Warning", "reason": reason,
					"regarding": map[string]any{"kind": "Parcel", "name": "box"},
				}})
			}
			if err := w.warned(test.expected, test.possible); (err != nil) != test.fails {
				t.Errorf("error %v, want one: %t", err, test.fails)
			}
		})
	}
}
