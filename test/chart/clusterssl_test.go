package chart_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jkwong888/go-helm-operator/test/cluster/clustertest"
)

// job runs the script of the rendered Job as the kubelet would, with a token of the Job's account, and returns its output.
type job struct {
	script, host, namespace, account, tools string
}

func (j job) run(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", j.script)
	cmd.Env = append(os.Environ(), "NAMESPACE="+j.namespace, "SERVICE_ACCOUNT_DIR="+j.account,
		"KUBERNETES_API="+j.host, "PATH="+os.Getenv("PATH")+":"+j.tools)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	return output.String(), err
}

// standInForKeytool comes last in PATH, for machines without Java: it writes what keytool would have written as far as the
// script can tell, some bytes.
const standInForKeytool = `#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in -exportcert) export=yes ;; -file) file="$2" ;; -keystore) store="$2" ;; esac
  shift
done
if [ -n "$export" ]; then cat "$store" > "$file"; else head -c 64 /dev/urandom > "$store"; fi
`

func newJob(t *testing.T, s *site) job {
	t.Helper()
	objects := s.render(t, parseValues(t, "ssl: {createClusterSSLConfiguration: true}"))
	var name string
	for _, o := range objects {
		switch o.GetKind() {
		case "Job":
			name = nestedString(t, o.Object, "spec", "template", "spec", "serviceAccountName")
		case "ServiceAccount", "Role", "RoleBinding":
			s.apply(t, o.Unstructured)
		}
	}
	command := containers(t, find(t, objects, "Job"))[0]["command"].([]any)
	token, err := s.clients.CoreV1().ServiceAccounts(s.namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := clustertest.Config(t)
	j := job{script: command[2].(string), host: config.Host, namespace: s.namespace, account: t.TempDir(), tools: t.TempDir()}
	ca := config.CAData
	if len(ca) == 0 {
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	for file, content := range map[string][]byte{
		filepath.Join(j.account, "token"):  []byte(token.Status.Token),
		filepath.Join(j.account, "ca.crt"): ca,
		filepath.Join(j.tools, "keytool"):  []byte(standInForKeytool),
	} {
		if err := os.WriteFile(file, content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// secrets returns the keys of the namespace's stores by Secret.
func (s *site) secrets(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for secret, key := range map[string]string{
		"mb-keystore": "key.jks", "mb-keystore-password": "password", "mb-truststore": "trust.jks", "mb-truststore-password": "password",
	} {
		live, err := s.clients.CoreV1().Secrets(s.namespace).Get(t.Context(), secret, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(live.Data[key]) == 0 {
			t.Fatalf("Secret %s has no %s", secret, key)
		}
		out[secret] = live.Data[key]
	}
	return out
}

// Two releases create the Secrets of their namespace at the same time: there is one set of them, which a later release keeps.
func TestClusterSSLJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	j := newJob(t, s)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if output, err := j.run(t.Context()); err != nil {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
	both.Wait()
	if t.Failed() {
		t.FailNow()
	}
	first := s.secrets(t)
	checkStores(t, first)

	output, err := j.run(t.Context())
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for secret, value := range s.secrets(t) {
		if !bytes.Equal(value, first[secret]) {
			t.Errorf("Secret %s was replaced", secret)
		}
		if bytes.Contains([]byte(output), value) {
			t.Errorf("the log holds the content of Secret %s", secret)
		}
	}
}

// checkStores opens the stores with their passwords, where there is a keytool to do it.
func checkStores(t *testing.T, secrets map[string][]byte) {
	t.Helper()
	if _, err := exec.LookPath("keytool"); err != nil {
		t.Log("there is no keytool here: the stores are not opened")
		return
	}
	for store, entry := range map[string]string{"mb-keystore": "PrivateKeyEntry", "mb-truststore": "trustedCertEntry"} {
		file := filepath.Join(t.TempDir(), store)
		if err := os.WriteFile(file, secrets[store], 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "keytool", "-list", "-keystore", file, "-storepass:env", "PASSWORD")
		cmd.Env = append(os.Environ(), "PASSWORD="+string(secrets[store+"-password"]))
		output, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(output), entry) {
			t.Errorf("Secret %s holds no %s: %v: %s", store, entry, err, output)
		}
	}
}

// A Job that may not write says which Secret it could not, and why.
func TestClusterSSLJobSaysWhatIsForbidden(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	j := newJob(t, s)
	name := "plants-ibm-websphere-liberty-cluster-ssl"
	patch := []byte(`{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`)
	if _, err := s.clients.RbacV1().Roles(s.namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the Job to be refused", func(ctx context.Context) (bool, string, error) {
		output, err := j.run(ctx)
		refused := err != nil && strings.Contains(output, "cannot create Secret mb-keystore-password: HTTP status 403") &&
			strings.Contains(output, `cannot create resource \"secrets\"`)
		if err == nil {
			err := s.clients.CoreV1().Secrets(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
			return false, output, err
		}
		return refused, output, nil
	})
}
