package chart_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files from what the chart renders now")

// Each case renders to its golden file, byte for byte, with Helm's floating point numbers and with the operator's integers.
func TestGolden(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			r := release{name: releaseName, namespace: releaseNamespace, values: caseValues(t, name)}
			out := mustRender(t, r)
			out.objects(t)

			file := filepath.Join("testdata", name, "golden.yaml")
			if *update {
				if err := os.WriteFile(file, []byte(out.text()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v; run the test with -update", err)
			}
			if diff := cmp.Diff(string(want), out.text()); diff != "" {
				t.Errorf("%s differs; if that is meant, run the test with -update (-golden +now):\n%s", file, diff)
			}

			r.integers = true
			if diff := cmp.Diff(out.text(), mustRender(t, r).text()); diff != "" {
				t.Errorf("integers render differently from floating point numbers (-float64 +int64):\n%s", diff)
			}
		})
	}
}
