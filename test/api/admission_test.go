package api_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestWhatCannotWorkIsRefusedAtAdmission: the API server names the field and says why.
func TestWhatCannotWorkIsRefusedAtAdmission(t *testing.T) {
	installed(t)
	for name, test := range map[string]struct {
		name, spec string
		want       []string
	}{
		"typo in a field": {
			spec: "{image: {tga: x}}", want: []string{`unknown field "spec.image.tga"`}},
		"typo within a type of Kubernetes": {
			spec: "{image: {livenessProbe: {httpget: {port: 1}}}}", want: []string{`unknown field "spec.image.livenessProbe.httpget"`}},
		"number for a string": {
			spec: "{image: {tag: 1.10}}", want: []string{"spec.image.tag", "must be of type string", "number"}},
		"string for a boolean": {
			spec: `{service: {enabled: "yes"}}`, want: []string{"spec.service.enabled", "must be of type boolean"}},
		"off without quotes": {
			spec: `{logs: {consoleLogLevel: off}}`, want: []string{"spec.logs.consoleLogLevel", "must be of type string", "boolean"}},
		"port out of range": {
			spec: "{service: {port: 99999}}", want: []string{"spec.service.port", "less than or equal to 65535"}},
		"port zero": {
			spec: "{iiopService: {securePort: 0}}", want: []string{"spec.iiopService.securePort", "greater than or equal to 1"}},
		"target port out of range": {
			spec: "{service: {targetPort: 99999}}", want: []string{"spec.service.targetPort", "a number must be at most 65535"}},
		"target port no name": {
			spec: "{jmsService: {targetPort: Not A Name}}", want: []string{"spec.jmsService.targetPort", "a name must match"}},
		"target port name too long": {
			spec: "{service: {targetPort: sixteencharacter}}", want: []string{"spec.service.targetPort", "at most 15 characters"}},
		"minimum above maximum": {
			spec: "{autoscaling: {minReplicas: 5, maxReplicas: 3}}",
			want: []string{"spec.autoscaling.minReplicas", "must not be greater than maxReplicas"}},
		"minimum above the chart's default maximum": {
			spec: "{autoscaling: {minReplicas: 12}}",
			want: []string{"spec.autoscaling.minReplicas", "must not be greater than maxReplicas, which is 10 unless set"}},
		"name over the release-name limit": {
			name: strings.Repeat("a", 54), want: []string{"metadata.name", "53"}},
		"name that a Service cannot have": {
			name: "1plants", want: []string{"metadata.name", "should match"}},
		"name with a dot": {
			name: "plants.web", want: []string{"metadata.name", "should match"}},
		"unknown word of an enum": {
			spec: "{image: {pullPolicy: Sometimes}}",
			want: []string{"spec.image.pullPolicy", "Unsupported value", `"Always", "IfNotPresent", "Never"`}},
		"license not accepted": {
			spec: "{image: {license: view}}", want: []string{"spec.image.license", "Unsupported value", `"accept"`}},
		"quantity that is none": {
			spec: "{resources: {limits: {memory: 2 GB}}}", want: []string{"spec.resources.limits.memory", "should match"}},
		// Kubernetes takes fractions for quantities, a CRD only integers and strings.
		"fraction without quotes": {
			spec: "{resources: {limits: {cpu: 0.5}}}", want: []string{"spec.resources.limits.cpu", "must be of type integer,string"}},
		"architecture preference": {
			spec: "{arch: {arm64: 7 - Always}}", want: []string{"spec.arch.arm64", "should match"}},
		"console source": {
			spec: "{logs: {consoleSource: \"message,everything\"}}", want: []string{"spec.logs.consoleSource", "should match"}},
		"negative group": {
			spec: "{persistence: {fsGroupGid: -1}}", want: []string{"spec.persistence.fsGroupGid", "greater than or equal to 0"}},
		"rights without a ServiceAccount": {
			spec: `{rbac: {install: false, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}}`,
			want: []string{"spec.rbac.rules", "needs rbac.install"}},
		"request above the chart's default limit": {
			spec: "{resources: {constraints: {enabled: true}, requests: {cpu: 8}}}",
			want: []string{"spec.resources.requests", "cpu must not be greater than limits.cpu, which is 4000m unless set"}},
		"limit below the chart's default request": {
			spec: "{resources: {constraints: {enabled: true}, limits: {memory: 256Mi}}}",
			want: []string{"spec.resources.requests", "memory must not be greater than limits.memory"}},
		"relative path": {
			spec: "{ingress: {path: app}}", want: []string{"spec.ingress.path", "should match"}},
		"list for a map": {
			spec: "{pod: {labels: [a]}}", want: []string{"spec.pod.labels", "must be of type object"}},
		"container without a name": {
			spec: "{pod: {extraContainers: [{image: x}]}}", want: []string{"spec.pod.extraContainers[0].name", "Required value"}},
		"poll interval too short": {
			spec: "{operator: {images: {interval: 1s}}}", want: []string{"spec.operator.images.interval", "at least 30s"}},
		"poll interval no duration": {
			spec: "{operator: {images: {interval: soon}}}", want: []string{"spec.operator.images.interval"}},
		"unknown pin mode": {
			spec: "{operator: {images: {pin: Tag}}}", want: []string{"spec.operator.images.pin", "Unsupported value"}},
		"too much history": {
			spec: "{operator: {release: {maxHistory: 500}}}", want: []string{"spec.operator.release.maxHistory", "50"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resource, spec := test.name, test.spec
			if resource == "" {
				resource = "plants"
			}
			if spec == "" {
				spec = "{}"
			}
			manifest := fmt.Sprintf("apiVersion: liberty.ibm.com/v1alpha1\nkind: LibertyApp\nmetadata: {name: %s}\nspec: %s\n", resource, spec)
			out, failure := kubectl(t, manifest, "apply", "--dry-run=server", "-f", "-")
			if failure == "" {
				t.Fatalf("it was taken: %s", out)
			}
			for _, want := range test.want {
				if !strings.Contains(failure, want) {
					t.Errorf("the answer lacks %q:\n%s", want, failure)
				}
			}
		})
	}
}

// TestWhatWorksIsTaken: the limits themselves and the odd forms that are right.
func TestWhatWorksIsTaken(t *testing.T) {
	installed(t)
	for name, test := range map[string]struct{ name, spec string }{
		"longest name":                {name: strings.Repeat("a", 53)},
		"nothing set":                 {},
		"both bounds of replicas":     {spec: "{autoscaling: {minReplicas: 12, maxReplicas: 12}}"},
		"minimum at default maximum":  {spec: "{autoscaling: {minReplicas: 10}}"},
		"highest port":                {spec: "{service: {port: 65535, targetPort: 65535}}"},
		"named target port":           {spec: "{service: {targetPort: https}}"},
		"off in quotes":               {spec: `{logs: {consoleLogLevel: "off"}}`},
		"root group":                  {spec: "{persistence: {fsGroupGid: 0}}"},
		"null for the group":          {spec: "{persistence: {fsGroupGid: null}}"},
		"other resources":             {spec: "{resources: {limits: {example.com/gpu: 1, cpu: 500m}}}"},
		"requests up to the limits":   {spec: "{resources: {constraints: {enabled: true}, requests: {cpu: 4, memory: 2Gi}}}"},
		"requests that are not used":  {spec: "{resources: {requests: {cpu: 8}}}"},
		"another architecture":        {spec: `{arch: {riscv64: "3"}}`},
		"dead keys":                   {spec: "{sessioncache: {hazelcast: {enabled: true, image: {tag: 3.10.6}}}, app: {autoCreate: false}, jmsService: {type: NodePort}}"},
		"no rights, no account":       {spec: "{rbac: {install: false}}"},
		"empty rights, no account":    {spec: "{rbac: {install: false, rules: []}}"},
		"digest as tag":               {spec: "{image: {tag: \"sha256:" + strings.Repeat("0", 64) + "\"}}"},
		"interval in minutes":         {spec: "{operator: {images: {interval: 90m}}}"},
		"probe with a named port":     {spec: "{image: {livenessProbe: {httpGet: {path: /, port: https}}}}"},
		"environment from a Secret":   {spec: "{image: {extraEnvs: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}}"},
		"suspended, patching nothing": {spec: "{operator: {suspend: true, release: {patchServiceAccount: false, timeout: 30s}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resource, spec := test.name, test.spec
			if resource == "" {
				resource = "plants"
			}
			if spec == "" {
				spec = "{}"
			}
			manifest := fmt.Sprintf("apiVersion: liberty.ibm.com/v1alpha1\nkind: LibertyApp\nmetadata: {name: %s}\nspec: %s\n", resource, spec)
			mustKubectl(t, manifest, "apply", "--dry-run=server", "-f", "-")
		})
	}
}
