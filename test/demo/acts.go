package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/process"
	"github.com/jkwong888/go-helm-operator/test/registry"
)

// Names in the story.
const (
	app            = "plants"
	object         = app + "-ibm-websphere-liberty" // release-chart, as Helm names things
	pullSecret     = "registry-credentials"
	serviceAccount = "go-helm-operator"
	user, password = "gardener", "demo-only"
)

// manifest is the app of the story; %s is the registry's host.
const manifest = `apiVersion: liberty.ibm.com/v1alpha1
kind: LibertyApp
metadata:
  name: ` + app + `
spec:
  image:
    repository: %s/plants
    tag: latest
    pullSecret: ` + pullSecret + `
    license: accept
  replicaCount: 2
  operator:
    images:
      insecure: true # the registry of this demo speaks plain HTTP
`

func buildOperator(ctx context.Context, _ *world) (string, error) {
	if err := os.MkdirAll(outputDir, 0o755); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/manager").CombinedOutput()
	return string(out), err
}

func startCluster(ctx context.Context, w *world) (string, error) {
	// Only a first build takes long enough to tell of.
	c, err := cluster.Start(ctx, cluster.Options{Dir: filepath.Join(outputDir, "cluster"), CRDs: []string{"deploy/crds"}, Progress: os.Stdout})
	if err != nil {
		return "", err
	}
	w.cluster = c
	if w.client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return "", err
	}
	return w.kubectl(ctx, "", "get", "nodes")
}

func startRegistry(ctx context.Context, w *world) (string, error) {
	r, err := registry.Start(ctx, registry.Options{Username: user, Password: password})
	if err != nil {
		return "", err
	}
	w.registry = r
	return "it is at " + r.Host(), nil
}

func pushFirst(ctx context.Context, w *world) (string, error) {
	digest, err := w.registry.PushImage(ctx, "plants", "latest", 1)
	w.first = digest
	return digest, err
}

func deploy(ctx context.Context, w *world) (string, error) {
	if out, err := w.kubectl(ctx, "", "create", "namespace", namespace); err != nil {
		return out, err
	}
	args := []string{"apply"}
	for _, file := range []string{"crds", "service_account.yaml", "role.yaml", "role_binding.yaml", "leader_election_role.yaml"} {
		args = append(args, "-f", filepath.Join("deploy", file))
	}
	return w.kubectl(ctx, "", args...)
}

func runOperator(ctx context.Context, w *world) (string, error) {
	hour := int64(3600)
	token, err := w.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	kubeconfig := filepath.Join(outputDir, "kubeconfig")
	if err := writeKubeconfig(w, kubeconfig, token.Status.Token); err != nil {
		return "", err
	}
	w.operator, err = process.Start(process.Spec{
		Name: "operator", Path: binary, Log: filepath.Join(outputDir, "operator.log"),
		Args: []string{"--kubeconfig=" + kubeconfig, "--leader-elect", "--leader-election-namespace=" + namespace,
			"--health-probe-bind-address=0", "--metrics-bind-address=0"},
		Env: []string{"WATCH_NAMESPACE=" + namespace},
	})
	if err != nil {
		return "", err
	}
	return "", until(ctx, func(ctx context.Context) error {
		if !w.operator.Running() {
			return errors.New("the operator ended by itself")
		}
		lease, err := w.client.CoordinationV1().Leases(namespace).Get(ctx, "go-helm-operator", metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			err = errors.New("nobody holds the Lease yet")
		}
		return err
	})
}

func writeKubeconfig(w *world, path, token string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["demo"] = &clientcmdapi.Cluster{
		Server: w.cluster.Config.Host, CertificateAuthority: w.cluster.Config.CAFile, CertificateAuthorityData: w.cluster.Config.CAData,
	}
	config.AuthInfos["operator"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["demo"] = &clientcmdapi.Context{Cluster: "demo", AuthInfo: "operator", Namespace: namespace}
	config.CurrentContext = "demo"
	return clientcmd.WriteToFile(*config, path)
}

func typo(ctx context.Context, w *world) (string, error) {
	wrong := strings.Replace(fmt.Sprintf(manifest, w.registry.Host()), "replicaCount", "replicasCount", 1)
	_, err := w.kubectl(ctx, wrong, "apply", "-f", "-")
	if err == nil {
		return "", errors.New("a field that does not exist was accepted")
	}
	if !strings.Contains(err.Error(), "replicasCount") {
		return "", err
	}
	_, said, _ := strings.Cut(err.Error(), "exit status 1: ")
	return said, nil
}

func applyApp(ctx context.Context, w *world) (string, error) {
	path := filepath.Join(outputDir, app+".yaml")
	if err := os.WriteFile(path, []byte(fmt.Sprintf(manifest, w.registry.Host())), 0o600); err != nil {
		return "", err
	}
	if out, err := w.kubectl(ctx, "", "apply", "-f", path); err != nil {
		return out, err
	}
	out, err := w.await(ctx, "PullSecretReady=False")
	if err != nil {
		return out, err
	}
	return w.kubectl(ctx, "", "get", "libertyapps")
}

// await waits for a condition of the app, written Type=Status.
func (w *world) await(ctx context.Context, condition string) (string, error) {
	return w.kubectl(ctx, "", "wait", "libertyapp/"+app, "--for=condition="+condition, "--timeout="+patience.String())
}

func createSecret(ctx context.Context, w *world) (string, error) {
	if out, err := w.kubectl(ctx, "", "create", "secret", "docker-registry", pullSecret,
		"--docker-server="+w.registry.Host(), "--docker-username="+user, "--docker-password="+password); err != nil {
		return out, err
	}
	if out, err := w.await(ctx, "Ready=True"); err != nil {
		return out, err
	}
	if err := w.runs(ctx, w.first); err != nil {
		return "", err
	}
	return w.kubectl(ctx, "", "get", "libertyapps,deployments,services,pods")
}

// runs waits until the Deployment is rolled out with an image of this digest.
func (w *world) runs(ctx context.Context, digest string) error {
	return until(ctx, func(ctx context.Context) error {
		d, err := w.client.AppsV1().Deployments(namespace).Get(ctx, object, metav1.GetOptions{})
		if err != nil {
			return err
		}
		image := d.Spec.Template.Spec.Containers[0].Image
		if !strings.HasSuffix(image, "@"+digest) {
			return fmt.Errorf("the Deployment runs %s, not %s", image, digest)
		}
		if d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != 2 || d.Status.AvailableReplicas != 2 || d.Status.Replicas != 2 {
			return errors.New("the Deployment is not rolled out yet")
		}
		return nil
	})
}

func heal(ctx context.Context, w *world) (string, error) {
	services := w.client.CoreV1().Services(namespace)
	before, err := services.Get(ctx, object, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if err := services.Delete(ctx, object, metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	began := time.Now()
	err = until(ctx, func(ctx context.Context) error {
		after, err := services.Get(ctx, object, metav1.GetOptions{})
		if err == nil && after.UID == before.UID {
			err = errors.New("the old Service is still there")
		}
		return err
	})
	return fmt.Sprintf("a new Service stood there after %d ms", time.Since(began).Milliseconds()), err
}

func rollOut(ctx context.Context, w *world) (string, error) {
	digest, err := w.registry.PushImage(ctx, "plants", "latest", 2)
	if err != nil {
		return "", err
	}
	// The poller would see it within its interval (5 min unless the app says otherwise); the annotation asks for a look now.
	if out, err := w.kubectl(ctx, "", "annotate", "--overwrite", "libertyapp", app, "helm.sdk.operatorframework.io/poll-images=now"); err != nil {
		return out, err
	}
	if err := w.runs(ctx, digest); err != nil {
		return "", err
	}
	if out, err := w.await(ctx, "Ready=True"); err != nil {
		return out, err
	}
	return w.kubectl(ctx, "", "get", "deployments", "-o", "wide")
}

func removeApp(ctx context.Context, w *world) (string, error) {
	out, err := w.kubectl(ctx, "", "delete", "libertyapp", app, "--timeout="+patience.String())
	if err != nil {
		return out, err
	}
	return out, until(ctx, w.nothingIsLeft)
}

// nothingIsLeft fails while the namespace holds anything of the app: objects,
// pods, the release, the entry in the default ServiceAccount.
func (w *world) nothingIsLeft(ctx context.Context) error {
	left, err := w.kubectl(ctx, "", "get", "deployments,statefulsets,replicasets,pods,services,configmaps,secrets,serviceaccounts,jobs,ingresses,libertyapps",
		"--no-headers", "-o", "custom-columns=KIND:.kind,NAME:.metadata.name")
	if err != nil {
		return err
	}
	for line := range strings.Lines(left) {
		if strings.Contains(line, app) {
			return fmt.Errorf("left behind: %s", strings.TrimSpace(line))
		}
	}
	account, err := w.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil && len(account.ImagePullSecrets) > 0 {
		err = fmt.Errorf("the default ServiceAccount still lists %v", account.ImagePullSecrets)
	}
	return err
}
