package chart_test

import (
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
)

func TestBadValuesAreRefusedByName(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		want   []string // parts of the error: the key and what is wrong with it
	}{
		"a misspelled key":                    {`image: {repo: x}`, []string{"/image", "repo"}},
		"a misspelled key at the top":         {`replicas: 2`, []string{"replicas"}},
		"a misspelled key deep down":          {`sessioncache: {hazelcast: {image: {repo: x}}}`, []string{"/sessioncache/hazelcast/image", "repo"}},
		"text for a number":                   {`replicaCount: two`, []string{"/replicaCount"}},
		"a fraction of a replica":             {`replicaCount: 1.5`, []string{"/replicaCount"}},
		"text for a switch":                   {`ssl: {enabled: "yes"}`, []string{"/ssl/enabled"}},
		"a port out of range":                 {`service: {port: 99999}`, []string{"/service/port", "65,535"}},
		"port zero":                           {`service: {targetPort: 0}`, []string{"/service/targetPort"}},
		"a port name that is none":            {`jmsService: {targetPort: Not_A_Port}`, []string{"/jmsService/targetPort"}},
		"a service name that is none":         {`service: {name: my_service}`, []string{"service.name", "my_service"}},
		"a service name that is cut off":      {`service: {name: shop-}`, []string{"service.name", "shop-"}},
		"an unknown pull policy":              {`image: {pullPolicy: Sometimes}`, []string{"/image/pullPolicy"}},
		"an unknown service type":             {`service: {type: ExternalName}`, []string{"/service/type"}},
		"a license that would stop the image": {`image: {license: view}`, []string{"/image/license"}},
		"an unquoted off":                     {`logs: {consoleLogLevel: false}`, []string{"/logs/consoleLogLevel"}},
		"an unknown console source":           {`logs: {consoleSource: "message, trace"}`, []string{"/logs/consoleSource"}},
		"an unknown console format":           {`logs: {consoleFormat: xml}`, []string{"/logs/consoleFormat"}},
		"a relative ingress path":             {`ingress: {path: shop}`, []string{"/ingress/path"}},
		"an unknown path type":                {`ingress: {pathType: Regex}`, []string{"/ingress/pathType"}},
		"a size that is no quantity":          {`persistence: {size: 1 GB}`, []string{"/persistence/size"}},
		"a negative group":                    {`persistence: {fsGroupGid: -1}`, []string{"/persistence/fsGroupGid"}},
		"a request that is no quantity":       {`resources: {requests: {cpu: lots}}`, []string{"/resources/requests/cpu"}},
		"an architecture out of range":        {`arch: {amd64: 7}`, []string{"/arch/amd64"}},
		"an architecture without a digit":     {`arch: {amd64: yes please}`, []string{"/arch/amd64"}},
		"no replicas at all for the scaler":   {`autoscaling: {minReplicas: 0}`, []string{"/autoscaling/minReplicas"}},
		"fewer at most than at least":         {`autoscaling: {enabled: true, minReplicas: 12}`, []string{"autoscaling.minReplicas", "12", "10"}},
		"scaling without a CPU request":       {`{autoscaling: {enabled: true}, resources: {requests: {cpu: null}}}`, []string{"resources.requests.cpu"}},
		"OIDC without a secret":               {`oidcClient: {enabled: true}`, []string{"oidcClient.clientSecretName"}},
		"rights without an account":           {`rbac: {install: false, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`, []string{"rbac.rules", "rbac.install"}},
		"a variable without a name":           {`image: {extraEnvs: [{value: x}]}`, []string{"/image/extraEnvs/0", "name"}},
		"a variable that is a number":         {`image: {extraEnvs: [{name: X, value: 8080}]}`, []string{"/image/extraEnvs/0/value"}},
		"variables as a map":                  {`image: {extraEnvs: {X: y}}`, []string{"/image/extraEnvs"}},
		"node requirements as a map":          {`pod: {extraNodeSelectorRequirements: {disk: ssd}}`, []string{"/pod/extraNodeSelectorRequirements"}},
		"a probe with a misspelled field":     {`image: {livenessProbe: {http: {}}}`, []string{"/image/livenessProbe", "http"}},
		"a pod setting that is not security":  {`pod: {security: {nodeName: x}}`, []string{"/pod/security", "nodeName"}},
		"a label that is a list":              {`pod: {labels: {a: [b]}}`, []string{"/pod/labels/a"}},
		"a volume name that is none":          {`persistence: {name: My_PVC}`, []string{"/persistence/name"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render(t, release{name: releaseName, namespace: releaseNamespace, values: parseValues(t, test.values)})
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not mention %q: %v", part, err)
				}
			}
		})
	}
}

func TestValuesAreAccepted(t *testing.T) {
	for name, values := range map[string]string{
		"globals of a parent chart":  `global: {registry: x}`,
		"a repository with a digest": `image: {repository: "shop/app@sha256", tag: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}`,
		"a key removed by null":      `image: {extraEnvs: null, security: null}`,
		"no limit on memory":         `resources: {constraints: {enabled: true}, limits: {memory: null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			mustRender(t, release{name: releaseName, namespace: releaseNamespace, values: parseValues(t, values)}).objects(t)
		})
	}
}

func TestImageReference(t *testing.T) {
	const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	for name, test := range map[string]struct{ image, want string }{
		"a tag":                              {`{repository: shop/app, tag: v1}`, "shop/app:v1"},
		"a registry with a port":             {`{repository: "host:5000/app", tag: v1}`, "host:5000/app:v1"},
		"a digest":                           {`{repository: shop/app, tag: "` + digest + `"}`, "shop/app@" + digest},
		"a tag with a digest":                {`{repository: shop/app, tag: "v1@` + digest + `"}`, "shop/app:v1@" + digest},
		"a digest split as in older charts":  {`{repository: shop/app@sha256, tag: ` + digest[7:] + `}`, "shop/app@" + digest},
		"no tag":                             {`{repository: "shop/app:v1", tag: ""}`, "shop/app:v1"},
		"a number that fits a float exactly": {`{repository: shop/app, tag: 20261120}`, "shop/app:20261120"},
		"a number with a fraction":           {`{repository: shop/app, tag: 1.5}`, "shop/app:1.5"},
		"a number written as text":           {`{repository: shop/app, tag: "1.10"}`, "shop/app:1.10"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, integers := range []bool{false, true} {
				out := mustRender(t, release{name: releaseName, namespace: releaseNamespace,
					values: parseValues(t, "image: "+test.image), integers: integers})
				container := containers(t, find(t, out.objects(t), "Deployment"))[0]
				if got := container["image"]; got != test.want {
					t.Errorf("image %v, want %s (integers: %t)", got, test.want, integers)
				}
			}
		})
	}
}

// The chart has no icon; nothing else is remarked.
func TestLint(t *testing.T) {
	for _, name := range cases(t) {
		result := lint.RunAll(chartDir, caseValues(t, name), releaseNamespace)
		for _, message := range result.Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("case %s: %v", name, message)
			}
		}
	}
}
