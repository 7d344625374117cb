package chart_test

import (
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// every switches on all objects the chart has.
const every = `
ssl: {useClusterSSLConfiguration: true, createClusterSSLConfiguration: true}
ingress: {enabled: true}
autoscaling: {enabled: true}
monitoring: {enabled: true}
microprofile: {health: {enabled: true}}
rbac: {rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
`

// Whatever a release is called, all names are within their limits and Services can be created.
func TestNamesAreValid(t *testing.T) {
	for name, test := range map[string]struct{ release, values string }{
		"a short release":                    {"a", ""},
		"a release as long as Helm allows":   {strings.Repeat("r", 53), ""},
		"a release as long as an object":     {strings.Repeat("r", 253), ""},
		"a release that begins with a digit": {"4shops", ""},
		"a release with dots":                {"shop.v2", ""},
		"a long override":                    {"shop", "resourceNameOverride: " + strings.Repeat("o", 80)},
		"an override with capitals":          {"shop", "resourceNameOverride: My_App"},
		"an override that is a number":       {"shop", `fullnameOverride: "2026"`},
		"a long name of the Service":         {"shop", "service: {name: " + strings.Repeat("S", 80) + "}"},
		"a cut that would end in a dash":     {strings.Repeat("r", 53) + "-" + strings.Repeat("s", 20), ""},
	} {
		for _, stateful := range []string{"false", "true"} {
			t.Run(name+", persistent "+stateful, func(t *testing.T) {
				values := parseValues(t, every+"logs: {persistLogs: "+stateful+"}\n"+test.values)
				out := mustRender(t, release{name: test.release, namespace: releaseNamespace, values: values})
				for _, o := range out.objects(t) {
					limit := 63
					if o.GetKind() == "StatefulSet" {
						limit = 52
					}
					if got := o.GetName(); len(got) > limit || !dnsLabel.MatchString(got) {
						t.Errorf("%s is called %q (%d characters)", o.GetKind(), got, len(got))
					}
					if o.GetKind() == "Service" && strings.ContainsAny(o.GetName()[:1], "0123456789") {
						t.Errorf("Service %q begins with a digit", o.GetName())
					}
					for key, value := range o.GetLabels() {
						if len(value) > 63 {
							t.Errorf("label %s of %s has %d characters", key, o.GetKind(), len(value))
						}
					}
				}
			})
		}
	}
}

func TestNamesFollowTheRelease(t *testing.T) {
	for name, test := range map[string]struct{ release, values, workload, service string }{
		"release and chart":              {"plants", "", "plants-ibm-websphere-liberty", "plants-ibm-websphere-liberty"},
		"release and override":           {"plants", "resourceNameOverride: web", "plants-web", "plants-web"},
		"the full name":                  {"plants", "{resourceNameOverride: web, fullnameOverride: shop}", "shop", "shop"},
		"a Service of another name":      {"plants", "service: {name: Front-Door}", "plants-ibm-websphere-liberty", "front-door"},
		"a Service that may not be so":   {"4plants", "", "4plants-ibm-websphere-liberty", "svc-4plants-ibm-websphere-liberty"},
		"63 characters are not cut":      {strings.Repeat("p", 59), "resourceNameOverride: web", strings.Repeat("p", 59) + "-web", strings.Repeat("p", 59) + "-web"},
		"the rest gives way to its hash": {strings.Repeat("p", 60), "resourceNameOverride: web", strings.Repeat("p", 54) + "-8343bc61", strings.Repeat("p", 54) + "-8343bc61"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := mustRender(t, release{name: test.release, namespace: releaseNamespace, values: parseValues(t, test.values)}).objects(t)
			if got := find(t, objects, "Deployment").GetName(); got != test.workload {
				t.Errorf("the Deployment is called %q, want %q", got, test.workload)
			}
			if got := find(t, objects, "Service").GetName(); got != test.service {
				t.Errorf("the Service is called %q, want %q", got, test.service)
			}
		})
	}
}

// Releases that differ only beyond the cut, or only in characters a name cannot have, do not share objects.
func TestNamesOfDifferentReleasesDiffer(t *testing.T) {
	long := strings.Repeat("r", 70)
	seen := map[string]string{}
	for _, name := range []string{long + "a", long + "b", "shop-v2", "shop.v2", "shop--v2"} {
		values := parseValues(t, "logs: {persistLogs: true}")
		for _, o := range mustRender(t, release{name: name, namespace: releaseNamespace, values: values}).objects(t) {
			key := o.GetKind() + "/" + o.GetName()
			if other, ok := seen[key]; ok {
				t.Errorf("releases %s and %s both have %s", other, name, key)
			}
			seen[key] = name
		}
	}
}

// The names and selectors that a change between Deployment and StatefulSet, or an upgrade, must not touch.
func TestSelectorsStayTheSame(t *testing.T) {
	base := mustRender(t, release{name: releaseName, namespace: releaseNamespace}).objects(t)
	deployment := find(t, base, "Deployment")
	want := selector(t, deployment)
	for name, values := range map[string]string{
		"persistence":   `logs: {persistLogs: true}`,
		"pod labels":    `pod: {labels: {app: other, release: other}}`,
		"another image": `image: {tag: v2}`,
	} {
		t.Run(name, func(t *testing.T) {
			objects := mustRender(t, release{name: releaseName, namespace: releaseNamespace, values: parseValues(t, values)}).objects(t)
			for _, o := range objects {
				if kind := o.GetKind(); kind != "Deployment" && kind != "StatefulSet" {
					continue
				}
				if o.GetName() != deployment.GetName() {
					t.Errorf("%s is called %s, the Deployment before %s", o.GetKind(), o.GetName(), deployment.GetName())
				}
				if got := selector(t, o.Unstructured); len(got) != 1 || got["app"] != want["app"] {
					t.Errorf("selector %v, before %v", got, want)
				}
				labels, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
				if err != nil || labels["app"] != want["app"] {
					t.Errorf("pods have labels %v (%v), which %v does not select", labels, err, want)
				}
			}
		})
	}
}

// A new version of the chart alone must not restart pods, so none of it may be in the pod template.
func TestPodTemplateHoldsNoChartVersion(t *testing.T) {
	c := loadChart(t)
	for _, o := range mustRender(t, release{name: releaseName, namespace: releaseNamespace, values: parseValues(t, every)}).objects(t) {
		template, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "metadata")
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			continue
		}
		for _, version := range []string{c.Metadata.Version, c.Metadata.AppVersion} {
			if text := toYAML(t, template); strings.Contains(text, version) {
				t.Errorf("the pod template of %s holds version %s:\n%s", o.GetKind(), version, text)
			}
		}
	}
}

// The Service must not send requests to the chart's test pods and Jobs.
func TestOnlyServersAreSelected(t *testing.T) {
	objects := mustRender(t, release{name: releaseName, namespace: releaseNamespace, values: parseValues(t, every)}).objects(t)
	want := selector(t, find(t, objects, "Deployment"))["app"]
	for _, o := range objects {
		labels := o.GetLabels()
		switch o.GetKind() {
		case "Pod":
		case "Job":
			var err error
			if labels, _, err = unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels"); err != nil {
				t.Fatal(err)
			}
		default:
			continue
		}
		if labels["app"] == want || labels["app"] == "" {
			t.Errorf("%s %s has label app=%q", o.GetKind(), o.GetName(), labels["app"])
		}
	}
}

// A Job cannot change, so what changes its pods must change its name.
func TestJobIsRenamedWhenItChanges(t *testing.T) {
	names := map[string]bool{}
	for _, values := range []string{"", "image: {tag: v2}", "toolsImage: tools:1", "deployment: {labels: {team: shop}}"} {
		all := parseValues(t, values)
		all["ssl"] = map[string]any{"createClusterSSLConfiguration": true}
		names[find(t, mustRender(t, release{name: releaseName, namespace: releaseNamespace, values: all}).objects(t), "Job").GetName()] = true
	}
	if len(names) != 3 {
		t.Errorf("three different Jobs have the names %v", names)
	}
}
