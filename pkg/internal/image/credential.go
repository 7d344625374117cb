package image

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/authn"
)

// anonymousName is how messages call access without credentials.
const anonymousName = "anonymous"

// fingerprintKey makes fingerprints useless outside this process: without it, a
// fingerprint in a log could be compared with those of likely passwords.
var fingerprintKey = newFingerprintKey()

func newFingerprintKey() []byte {
	key := make([]byte, sha256.Size)
	// Never fails since Go 1.24: the process ends when there is no randomness.
	_, _ = rand.Read(key)
	return key
}

// Credential is what to show a registry: the content of one entry of a pull
// secret, or nothing. Its secrets are reachable inside this package only.
type Credential struct {
	// Secret is the name of the Secret the credential came from; empty for
	// anonymous access.
	Secret string

	// reveal is a function so that printing a struct that holds a Credential in
	// an unexported field shows an address: fmt can call no String there, and
	// some verbs follow pointers. Nil reveals nothing, as for Anonymous.
	reveal      func() authn.AuthConfig
	fingerprint string
}

// Anonymous returns the credential of no credentials.
func Anonymous() Credential {
	return newCredential("", authn.AuthConfig{})
}

func newCredential(secret string, config authn.AuthConfig) Credential {
	// Lengths keep fields apart: ("ab", "c") is not ("a", "bc").
	return Credential{Secret: secret, reveal: func() authn.AuthConfig { return config }, fingerprint: fingerprint(
		config.Username, config.Password, config.IdentityToken, config.RegistryToken)}
}

// Fingerprint tells different credentials apart without showing them, whatever
// Secret they came from. It is stable within one process only: never store it.
func (c Credential) Fingerprint() string {
	if c.fingerprint == "" {
		return Anonymous().fingerprint
	}
	return c.fingerprint
}

// String names the credential without showing it.
func (c Credential) String() string {
	if c.Secret == "" {
		return anonymousName
	}
	return "secret " + c.Secret
}

// GoString keeps %#v from showing the fields.
func (c Credential) GoString() string { return "image.Credential{" + c.String() + "}" }

// MarshalJSON writes the name only; structured logs marshal what they are given.
func (c Credential) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

func (c Credential) config() authn.AuthConfig {
	if c.reveal == nil {
		return authn.AuthConfig{}
	}
	return c.reveal()
}

func (c Credential) authenticator() authn.Authenticator {
	config := c.config()
	if config == (authn.AuthConfig{}) {
		return authn.Anonymous
	}
	return authn.FromConfig(config)
}

// secrets lists what must not appear in any message.
func (c Credential) secrets() []string {
	config := c.config()
	var found []string
	basic := ""
	if config.Password != "" {
		basic = base64.StdEncoding.EncodeToString([]byte(config.Username + ":" + config.Password))
	}
	for _, s := range []string{config.Password, config.IdentityToken, config.RegistryToken, basic} {
		if s != "" {
			found = append(found, s)
		}
	}
	return found
}

// fingerprintSet is the fingerprint of credentials in this order; none are
// anonymous access.
func fingerprintSet(credentials []Credential) string {
	if len(credentials) == 0 {
		credentials = []Credential{Anonymous()}
	}
	prints := make([]string, len(credentials))
	for i, c := range credentials {
		prints[i] = c.Fingerprint()
	}
	return fingerprint(prints...)
}

func fingerprint(fields ...string) string {
	mac := hmac.New(sha256.New, fingerprintKey)
	for _, field := range fields {
		_, _ = fmt.Fprintf(mac, "%d:", len(field)) // a hash takes every write
		_, _ = io.WriteString(mac, field)
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
