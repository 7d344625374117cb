package api_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestTheCRDFitsTheAnnotationOfClientSideApply: kubectl apply keeps the whole definition in an annotation of at most 262144
// bytes. 240000 leaves room for what a user adds.
func TestTheCRDFitsTheAnnotationOfClientSideApply(t *testing.T) {
	text, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	compact, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes as compact JSON", len(compact))
	if len(compact) > 240_000 {
		t.Errorf("the definition has %d bytes as compact JSON, more than 240000", len(compact))
	}
}

// TestPlainApplyWorks: client-side apply, as users do it, twice.
func TestPlainApplyWorks(t *testing.T) {
	installed(t)
	if out := mustKubectl(t, "", "apply", "-f", "../../deploy/crds"); !strings.Contains(out, "unchanged") {
		t.Errorf("applying the CRD again: %s", out)
	}
}

// TestTheChartsDefaultsAreNotInTheCRD: a resource stays what its author wrote, so that a newer chart's defaults reach it.
// Only what Kubernetes' own types default within lists comes with them.
func TestTheChartsDefaultsAreNotInTheCRD(t *testing.T) {
	installed(t)
	out := mustKubectl(t, "apiVersion: liberty.ibm.com/v1alpha1\nkind: LibertyApp\nmetadata: {name: bare}\nspec: {service: {enabled: false}}\n",
		"create", "--dry-run=server", "-o", "json", "-f", "-")
	var app struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal([]byte(out), &app); err != nil {
		t.Fatal(err)
	}
	if spec, err := json.Marshal(app.Spec); err != nil || string(spec) != `{"service":{"enabled":false}}` {
		t.Errorf("spec became %s (%v)", spec, err)
	}
}

// TestTheSampleApplies with kubectl's strict validation.
func TestTheSampleApplies(t *testing.T) {
	installed(t)
	mustKubectl(t, "", "apply", "--dry-run=server", "-f", sampleFile)
}

// TestTheChartsOwnValuesApply: a values file pastes in, here the chart's own with every default.
func TestTheChartsOwnValuesApply(t *testing.T) {
	installed(t)
	for _, file := range []string{"../../helm-charts/ibm-websphere-liberty/values.yaml",
		"../../pkg/apis/liberty/v1alpha1/testdata/values/full.yaml", "../../pkg/apis/liberty/v1alpha1/testdata/values/zeros.yaml"} {
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		indented := "  " + strings.ReplaceAll(string(values), "\n", "\n  ")
		mustKubectl(t, "apiVersion: liberty.ibm.com/v1alpha1\nkind: LibertyApp\nmetadata: {name: pasted}\nspec:\n"+indented+"\n",
			"apply", "--dry-run=server", "-f", "-")
	}
}

// TestExplainReadsWell: the documentation comes from the comments of the chart's values.yaml.
func TestExplainReadsWell(t *testing.T) {
	installed(t)
	for field, want := range map[string][]string{
		"libertyapp.spec.image.pullPolicy": {
			"FIELD: pullPolicy <string>", "ENUM:", "Always", "When the kubelet pulls the image: Always, IfNotPresent or Never.", `Default: "IfNotPresent".`},
		"libertyapp.spec.service.targetPort":       {"FIELD: targetPort", "the name http or https", "Default: 9443."},
		"libertyapp.spec.image.livenessProbe":      {"livenessProbe <Object>", "replaces the default one wholly", "httpGet\t<Object>"},
		"libertyapp.spec.operator.images.interval": {"interval <string>", "at least 30s"},
		"libertyapp.status.conditions":             {"<[]Object>", "Ready says whether"},
	} {
		out := mustKubectl(t, "", "explain", field)
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("kubectl explain %s lacks %q:\n%s", field, text, out)
			}
		}
	}
}

// TestTheListShowsWhatMatters without a status yet.
func TestTheListShowsWhatMatters(t *testing.T) {
	installed(t)
	mustKubectl(t, "", "apply", "-f", sampleFile)
	t.Cleanup(func() { mustKubectl(t, "", "delete", "-f", sampleFile) })
	header, _, _ := strings.Cut(mustKubectl(t, "", "get", "la", "-o", "wide"), "\n")
	want := []string{"NAME", "READY", "REASON", "PODS", "WANTED", "REVISION", "CHART", "IMAGE", "AGE"}
	if got := strings.Fields(header); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("columns are %v, want %v", got, want)
	}
}

// TestEveryGeneratedCRDIsTaken: those of the fixtures too, with their samples.
func TestEveryGeneratedCRDIsTaken(t *testing.T) {
	for _, fixture := range []string{"web", "family"} {
		deploy := "../../pkg/cli/testdata/" + fixture + "/deploy/"
		mustKubectl(t, "", "apply", "-f", deploy+"crds")
		awaitEstablished(t, deploy+"crds")
		mustKubectl(t, "", "apply", "--dry-run=server", "-f", deploy+"samples", "-f", deploy+"role.yaml", "-f", deploy+"cluster/cluster_role.yaml")
	}
}
