package manager

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// TestMetrics reads the metrics as Prometheus does.
func TestMetrics(t *testing.T) {
	t.Parallel()
	own := clustertest.Namespace(t)
	deploy(t, own, own)
	op := start(t, own, startOptions{watch: own})
	repository := own + "/plants"
	digest := must[string](t)(images(t).PushImage(t.Context(), repository, "1", 1))
	pullSecret(t, own, "registry-credentials")
	app := liberty(t, own, "plants", map[string]any{
		"image":    map[string]any{"repository": images(t).Host() + "/" + repository, "tag": "1", "license": "accept", "pullSecret": "registry-credentials"},
		"operator": map[string]any{"images": map[string]any{"insecure": true}},
	})
	app.awaitReady(t)

	reader, stranger := metricsReader(t, own), token(t, own, "default")
	secure, plain := selfSigned(), http.DefaultClient
	for _, test := range []struct {
		name, scheme, path, token string
		client                    *http.Client
		status                    int
	}{
		{name: "without token", scheme: "https", path: "/metrics", client: secure, status: http.StatusUnauthorized},
		{name: "with a made-up token", scheme: "https", path: "/metrics", client: secure, token: "made-up", status: http.StatusInternalServerError}, // controller-runtime's answer
		{name: "with a token that may not", scheme: "https", path: "/metrics", client: secure, token: stranger, status: http.StatusForbidden},
		{name: "with a token that may", scheme: "https", path: "/metrics", client: secure, token: reader, status: http.StatusOK},
		{name: "over plain HTTP", scheme: "http", path: "/metrics", client: plain, token: stranger, status: http.StatusBadRequest},
		{name: "profiles", scheme: "https", path: "/debug/pprof/heap", client: secure, token: reader, status: http.StatusNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, body, err := get(t.Context(), test.client, test.scheme+"://"+op.metrics+test.path, test.token)
			if err != nil || status != test.status {
				t.Fatalf("the answer is %d %q, %v; want %d", status, body, err, test.status)
			}
			series := []string{
				`controller_runtime_reconcile_total{controller="libertyapp.liberty.ibm.com",result="success"}`,
				`registry_polls_total{host="` + images(t).Host() + `",result="`, "registry_poll_seconds_count",
			}
			for _, one := range series {
				if has := strings.Contains(body, one); has != (test.status == http.StatusOK) {
					t.Errorf("the answer has %s: %v", one, has)
				}
			}
		})
	}
	obj := must[*unstructured.Unstructured](t)(app.get(t.Context(), t))
	if status := fmt.Sprint(obj.Object["status"]); !strings.Contains(status, digest) {
		t.Errorf("the image was not resolved to %s: %s", digest, status)
	}
	app.remove(t)
	allowed(t, op)
}

// metricsReader is a token of a ServiceAccount that has the role for readers of metrics.
func metricsReader(t *testing.T, namespace string) string {
	t.Helper()
	const name = "prometheus"
	client := clustertest.Client(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + namespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "go-helm-operator-metrics-reader"},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	removeAfter(t, "clusterrolebindings", binding.Name)
	return token(t, namespace, name)
}

// selfSigned insists on TLS, and on a certificate; the operator makes its own.
func selfSigned() *http.Client {
	verify := func(certificates [][]byte, _ [][]*x509.Certificate) error {
		_, err := x509.ParseCertificate(certificates[0])
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyPeerCertificate: verify}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

// pullSecret creates a Secret with the account of the registry.
func pullSecret(t *testing.T, namespace, name string) {
	t.Helper()
	account := map[string]any{"username": registryUser, "password": registryPassword}
	config := must[[]byte](t)(json.Marshal(map[string]any{"auths": map[string]any{images(t).Host(): account}}))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	}
	if _, err := clustertest.Client(t).CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
