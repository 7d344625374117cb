package libertyapp

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
)

// caKey is the key of a CA Secret that holds the certificates.
const caKey = "ca.crt"

// secrets reads single Secrets, once each version however many resources refer
// to it. Only what is of use is kept.
type secrets struct {
	reader client.Reader // not a cache: nobody may watch the contents of Secrets
	known  *versioned[secret]
}

// secret is what is kept of a Secret.
type secret struct {
	entries  []image.Entry
	problems []image.Problem
	ca       []byte // nil if it holds no certificate
}

func newSecrets(reader client.Reader) *secrets {
	return &secrets{reader: reader, known: newVersioned[secret]()}
}

// get reads a Secret at the version that a watch told. fresh says that it was
// not known before.
func (s *secrets) get(ctx context.Context, key types.NamespacedName, version string) (found secret, fresh bool, err error) {
	return s.known.get(key, version, func() (secret, string, error) {
		obj := &corev1.Secret{}
		if err := s.reader.Get(ctx, key, obj); err != nil {
			return secret{}, "", fmt.Errorf("reading Secret %s: %w", key, err)
		}
		out := secret{}
		out.entries, out.problems = image.ParseSecret(obj.Name, obj.Type, obj.Data)
		if x509.NewCertPool().AppendCertsFromPEM(obj.Data[caKey]) {
			out.ca = obj.Data[caKey]
		}
		return out, obj.ResourceVersion, nil
	})
}

// trouble is what is wrong with a pull secret, for the user; "" if nothing is.
func (s secret) trouble() string {
	said := make([]string, len(s.problems))
	for i, p := range s.problems {
		said[i] = p.String()
	}
	return strings.Join(said, "; ")
}
