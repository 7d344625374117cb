package image

import (
	"os/exec"
	"strings"
	"testing"
)

// TestStaysLight keeps heavy packages out, which a change elsewhere could bring
// in: this package is meant to be used without a manager and without Helm.
func TestStaysLight(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := strings.Fields(string(out))
	if len(imported) < 100 {
		t.Fatalf("only %d packages are listed", len(imported))
	}
	for _, path := range imported {
		for _, heavy := range []string{
			"sigs.k8s.io/controller-runtime", "helm.sh/helm", "oras.land/", "k8s.io/client-go/",
			"github.com/google/go-containerregistry/pkg/authn/",
		} {
			if strings.HasPrefix(path, heavy) {
				t.Errorf("imports %s", path)
			}
		}
	}
}
