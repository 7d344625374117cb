package manager

import (
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// TestSecrecy puts passwords wherever a user may put them, makes the operator talk about them, and reads its log at the level debug.
func TestSecrecy(t *testing.T) {
	t.Parallel()
	const inValues, rejected = "seeded-password-in-values", "seeded password that is no label"
	own := clustertest.Namespace(t)
	deploy(t, own, own)
	grantKinds(t, own, "Shop")
	op := start(t, own, startOptions{watch: own, watches: watchesFile(t, "Shop"), args: []string{"--zap-log-level=debug"}})
	repository := own + "/plants"
	must[string](t)(images(t).PushImage(t.Context(), repository, "1", 1))
	pullSecret(t, own, "registry-credentials")
	plants := liberty(t, own, "plants", map[string]any{
		"image": map[string]any{
			"repository": images(t).Host() + "/" + repository, "tag": "1", "license": "accept", "pullSecret": "registry-credentials",
			"extraEnvs": []any{map[string]any{"name": "PASSWORD", "value": inValues}},
		},
		"operator": map[string]any{"images": map[string]any{"insecure": true}},
	})
	// The release of this one has a Secret with a password that the chart has drawn.
	tools := create(t, shops, "Shop", own, "tools", map[string]any{"greeting": inValues})
	apps := []app{plants, tools}
	for _, app := range apps {
		app.awaitReady(t)
		app.awaitHealed(t)
	}
	secrets := clustertest.Client(t).CoreV1().Secrets(own)
	drawn := must[*corev1.Secret](t)(secrets.Get(t.Context(), "tools", metav1.GetOptions{})).Data["password"]
	if len(drawn) != 20 {
		t.Fatalf("the chart's password has %d characters", len(drawn))
	}
	heal(t, tools, entry{Version: "v1", Kind: "Secret", Name: "tools"})
	// The API server refuses this, and quotes what it refuses.
	label := map[string]any{"zone": rejected}
	plants.patch(t, map[string]any{"ingress": map[string]any{"enabled": true, "labels": label}})
	op.awaitLog(t, "the API server does not accept Ingress "+own+"/plants-ibm-websphere-liberty", "metadata.labels")
	plants.patch(t, map[string]any{"ingress": map[string]any{"enabled": false, "labels": nil}})
	plants.awaitReady(t)
	remove(t, apps)
	op.terminate(t)

	log := op.output(t)
	if !strings.Contains(log, `"level":"debug"`) {
		t.Error("the log has no lines of the level debug, so it proves nothing")
	}
	for name, secret := range map[string]string{
		"the registry's password": registryPassword, "a password in the values": inValues, "the chart's password": string(drawn),
		"a value that the API server rejects": rejected,
	} {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawStdEncoding.EncodeToString([]byte(registryUser + ":" + secret))} {
			if at := strings.Index(log, form); at >= 0 {
				t.Errorf("%s is in the log: …%s…", name, log[max(0, at-200):min(len(log), at+200)])
				break
			}
		}
	}
}
