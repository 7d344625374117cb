package storage

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

// What Helm calls its Secrets and puts into them.
const (
	helmSecretName = "sh.helm.release.v1"
	helmDataKey    = "release"

	helmSecretType corev1.SecretType = "helm.sh/release.v1"
)

const (
	// primaryResource and primaryResourceType name the owner, in
	// operator-sdk's words: "namespace/name" and "Kind.group".
	primaryResource     = "operator-sdk/primary-resource"
	primaryResourceType = "operator-sdk/primary-resource-type"
	// ownerLabel holds "<uid of the owner>.<revision>". Helm keeps labels when
	// it marks a revision, but also copies them to a revision that it adds; the
	// revision tells the copy from the original.
	ownerLabel = "go-helm-operator/owner"
)

type secretDriver struct {
	client typedcorev1.SecretsGetter
	clock  clock.PassiveClock
}

// NewSecret returns the driver that keeps each revision in a Secret in the
// namespace of its release, exactly as Helm does. The client must not be a
// caching one.
func NewSecret(client typedcorev1.SecretsGetter, c clock.PassiveClock) Driver {
	return &secretDriver{client: client, clock: c}
}

func (d *secretDriver) Create(ctx context.Context, p *Payload) error {
	secret, err := d.secret(p, "createdAt")
	if err != nil {
		return err
	}
	_, err = d.client.Secrets(p.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	switch {
	// A namespace that is being deleted answers in the same way, with a cause.
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("create Secret %s/%s: %w", p.Namespace, secret.Name, ErrExists)
	case err != nil:
		return fmt.Errorf("create Secret %s/%s: %w", p.Namespace, secret.Name, err)
	}
	return nil
}

func (d *secretDriver) Get(ctx context.Context, namespace, name string, revision int64) (*Payload, error) {
	secretName := secretName(name, revision)
	secret, err := d.client.Secrets(namespace).Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, secretName, notFound(err))
	}
	p, err := fromSecret(secret)
	if err == nil && (p.Name != name || p.Revision != revision) {
		err = fmt.Errorf("%w: it holds revision %d of release %s", ErrCorrupt, p.Revision, p.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, secretName, err)
	}
	return p, nil
}

func (d *secretDriver) Update(ctx context.Context, p *Payload) error {
	secret, err := d.secret(p, "modifiedAt")
	if err != nil {
		return err
	}
	// Without a resourceVersion the write is unconditional.
	if _, err := d.client.Secrets(p.Namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update Secret %s/%s: %w", p.Namespace, secret.Name, notFound(err))
	}
	return nil
}

func (d *secretDriver) Delete(ctx context.Context, namespace, name string, revision int64) error {
	secretName := secretName(name, revision)
	if err := d.client.Secrets(namespace).Delete(ctx, secretName, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete Secret %s/%s: %w", namespace, secretName, notFound(err))
	}
	return nil
}

func (d *secretDriver) Revisions(ctx context.Context, namespace, name string) ([]int64, error) {
	list, err := d.client.Secrets(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{"owner": "helm", "name": name}.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list the Secrets of release %s/%s: %w", namespace, name, err)
	}
	var out []int64
	for i := range list.Items {
		if revision, err := strconv.ParseInt(list.Items[i].Labels["version"], 10, 64); err == nil {
			out = append(out, revision)
		}
	}
	slices.Sort(out)
	return out, nil
}

// secret makes the Secret of a payload. written is the label that tells when.
func (d *secretDriver) secret(p *Payload, written string) (*corev1.Secret, error) {
	packed, err := Encode(p)
	if err != nil {
		return nil, err
	}
	data := base64.StdEncoding.AppendEncode(nil, packed)
	if len(data) > corev1.MaxSecretSize {
		return nil, fmt.Errorf("revision %d of release %s takes %d bytes, and a Secret holds %d: %w; "+
			"move large files out of the chart's ConfigMaps and Secrets, or split the release",
			p.Revision, p.Name, len(data), corev1.MaxSecretSize, ErrTooLarge)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      secretName(p.Name, p.Revision),
			Namespace: p.Namespace,
			Labels: map[string]string{
				"name":    p.Name,
				"owner":   "helm",
				"status":  string(p.Status),
				"version": strconv.FormatInt(p.Revision, 10),
				written:   strconv.FormatInt(d.clock.Now().Unix(), 10),
			},
		},
		Type: helmSecretType,
		Data: map[string][]byte{helmDataKey: data},
	}
	if p.Owner.UID != "" {
		secret.Labels[ownerLabel] = fmt.Sprintf("%s.%d", p.Owner.UID, p.Revision)
		secret.Annotations = map[string]string{
			primaryResource:     strings.TrimPrefix(p.Owner.Namespace+"/"+p.Owner.Name, "/"),
			primaryResourceType: p.Owner.GroupKind.String(),
		}
	}
	return secret, nil
}

func fromSecret(secret *corev1.Secret) (*Payload, error) {
	if secret.Type != helmSecretType {
		return nil, fmt.Errorf("%w: the Secret's type is %s, not %s", ErrCorrupt, secret.Type, helmSecretType)
	}
	packed, err := base64.StdEncoding.AppendDecode(nil, secret.Data[helmDataKey])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	p, err := Decode(packed)
	if err != nil {
		return nil, err
	}
	uid, revision, _ := strings.Cut(secret.Labels[ownerLabel], ".")
	if p.Owner.UID == "" && revision == strconv.FormatInt(p.Revision, 10) {
		p.Owner.UID = types.UID(uid)
	}
	return p, nil
}

func secretName(name string, revision int64) string {
	return fmt.Sprintf("%s.%s.v%d", helmSecretName, name, revision)
}

// notFound turns the API's answer into ours and leaves other errors alone.
func notFound(err error) error {
	if apierrors.IsNotFound(err) {
		return ErrNotFound
	}
	return err
}
