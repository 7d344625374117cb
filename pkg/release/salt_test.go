package release

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

func object(kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "a"}, "data": map[string]any{"password": "bGV0bWVpbg=="},
	}}
}

func TestDigestsOfSecretsNeedTheSalt(t *testing.T) {
	one, other := newSalt(), newSalt()
	if one == other {
		t.Fatal("two salts are the same")
	}
	secret, plain := object("Secret"), object("ConfigMap")
	if objectDigest(one, secret) == objectDigest(other, secret) {
		t.Error("the digest of a Secret does not depend on the salt")
	}
	if objectDigest(one, secret) != objectDigest(one, object("Secret")) {
		t.Error("the digest of the same Secret differs under one salt")
	}
	if objectDigest(one, plain) != objectDigest(other, plain) {
		t.Error("the digest of a ConfigMap depends on the salt")
	}
	manifest, err := storage.EncodeManifest([]*unstructured.Unstructured{secret, plain})
	if err != nil {
		t.Fatal(err)
	}
	if manifestDigest(salted(one, manifest), nil) == manifestDigest(salted(other, manifest), nil) {
		t.Error("the digest of the manifest does not depend on the salt")
	}
}

func TestSaltStaysInTheManifest(t *testing.T) {
	manifest, err := storage.EncodeManifest([]*unstructured.Unstructured{object("Secret")})
	if err != nil {
		t.Fatal(err)
	}
	salt := newSalt()
	with := salted(salt, manifest)
	if got := saltOf(with); got != salt {
		t.Errorf("salt %q, want %q", got, salt)
	}
	if got := saltOf(manifest); got != "" {
		t.Errorf("salt %q of a manifest without one", got)
	}
	objects, err := storage.DecodeManifest(with)
	if err != nil || len(objects) != 1 {
		t.Errorf("%d objects, %v; want the one", len(objects), err)
	}
}
