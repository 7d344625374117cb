package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// yamlBlock is a block of YAML in a document.
var yamlBlock = regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")

// TestDocumentedResourcesAreAccepted pastes each LibertyApp of the documents, whole, into the API server, as strictly as kubectl does.
func TestDocumentedResourcesAreAccepted(t *testing.T) {
	namespace := clustertest.Namespace(t)
	kubectl(t, "apply", "-f", filepath.Join(root, "deploy/crds"))
	kubectl(t, "wait", "--for=jsonpath={.status.acceptedNames.kind}=LibertyApp", "-f", filepath.Join(root, "deploy/crds"))
	kubectl(t, "wait", "--for=condition=Established", "-f", filepath.Join(root, "deploy/crds"))
	apps := dynamicClient(t).Resource(libertyApps).Namespace(namespace)

	var pasted []string
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range yamlBlock.FindAllSubmatch(text, -1) {
			for document := range strings.SplitSeq(string(match[1]), "\n---\n") {
				if !strings.Contains(document, "kind: LibertyApp\n") || !strings.Contains(document, "apiVersion:") {
					continue
				}
				object := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
					t.Errorf("%s: %v in\n%s", path, err, document)
					continue
				}
				object.SetNamespace("")
				options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
				if _, err := apps.Create(t.Context(), object, options); err != nil {
					t.Errorf("%s: the API server says %v to\n%s", path, err, document)
				}
				pasted = append(pasted, path)
			}
		}
	}
	if !slices.Contains(pasted, filepath.Join(root, "README.md")) {
		t.Errorf("README.md has no LibertyApp to paste; these have: %v", pasted)
	}
}

// documents returns the paths of the Markdown files at the root and in docs/.
func documents(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}
