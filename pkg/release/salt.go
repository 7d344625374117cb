package release

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
)

// Digests of what a release renders stand in the status, and a release may
// render Secrets: whoever may read the resource but not the Secrets could try
// likely passwords against them. So each release has a salt that is only known
// to who can read the payload. It is the first line of the manifest, a comment,
// which every digest over the manifest covers and which Helm leaves as it is.
const saltLine = "# salt: "

// saltBytes is the size of a salt; 128 bits are beyond guessing.
const saltBytes = 16

func newSalt() string {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // it never fails, see crypto/rand
	return hex.EncodeToString(salt)
}

func salted(salt, manifest string) string { return saltLine + salt + "\n" + manifest }

// saltOf is the salt of a manifest, or "" when it has none.
func saltOf(manifest string) string {
	first, _, _ := strings.Cut(manifest, "\n")
	salt, ok := strings.CutPrefix(first, saltLine)
	if !ok {
		return ""
	}
	return salt
}

// salt is the salt of the current revision, so that what stays the same has the
// same digest, or a new one.
func (m *Manager) salt(ctx context.Context, rel *Release) (string, error) {
	if r := rel.Status.Release; r != nil {
		stored, err := m.payload(ctx, rel, r.Revision)
		switch {
		case err == nil && saltOf(stored.Manifest) != "":
			return saltOf(stored.Manifest), nil
		case err != nil && !lost(err):
			return "", fmt.Errorf("comparing with what is deployed: %w", err)
		}
	}
	return newSalt(), nil
}

// objectDigest is the digest of a wanted object in the inventory.
func objectDigest(salt string, obj *unstructured.Unstructured) string {
	if obj.GroupVersionKind().GroupKind() == corev1.SchemeGroupVersion.WithKind("Secret").GroupKind() {
		return chart.Digest([]any{salt, obj.Object})
	}
	return apply.ObjectDigest(obj)
}
