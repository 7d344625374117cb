package image

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
)

// Entry is one registry's entry of a pull secret.
type Entry struct {
	// Key is the pattern of images the entry is for, without scheme:
	// host[:port][/path], where labels of the host may be globs.
	Key string
	// Credential to use for them.
	Credential Credential

	pattern pattern
}

// Problem is a part of a pull secret that cannot be used. It never holds data
// of the secret but the address of the registry, where that is one.
type Problem struct {
	// Secret that has the problem.
	Secret string
	// Key of the Secret's data.
	Key string
	// Entry is the registry whose entry is broken; empty when the whole is.
	Entry string
	// Message says what is wrong.
	Message string
}

// String returns the problem as a sentence for an event.
func (p Problem) String() string {
	if p.Entry == "" {
		return fmt.Sprintf("pull secret %s, key %s: %s", p.Secret, p.Key, p.Message)
	}
	return fmt.Sprintf("pull secret %s, key %s, entry %s: %s", p.Secret, p.Key, p.Entry, p.Message)
}

// ParseSecret reads a Secret of type kubernetes.io/dockerconfigjson or
// kubernetes.io/dockercfg. What is broken becomes a Problem and the rest goes
// on, as one bad entry must not take the others' credentials away.
func ParseSecret(name string, secretType corev1.SecretType, data map[string][]byte) ([]Entry, []Problem) {
	key := corev1.DockerConfigJsonKey
	switch secretType {
	case corev1.SecretTypeDockerConfigJson:
	case corev1.SecretTypeDockercfg:
		key = corev1.DockerConfigKey
	default:
		return nil, []Problem{{Secret: name, Key: "type", Message: fmt.Sprintf(
			"a Secret of type %q holds no registry credentials; use %s", secretType, corev1.SecretTypeDockerConfigJson)}}
	}
	raw, err := registries(key, data)
	if err != nil {
		return nil, []Problem{{Secret: name, Key: key, Message: err.Error()}}
	}
	var entries []Entry
	var problems []Problem
	// Sorted, since two keys may mean the same registry and order decides.
	for i, registry := range slices.Sorted(maps.Keys(raw)) {
		entry, err := parseEntry(name, registry, raw[registry])
		if err != nil {
			problems = append(problems, Problem{Secret: name, Key: key, Entry: printable(registry, i), Message: err.Error()})
			continue
		}
		entries = append(entries, entry)
	}
	return entries, problems
}

// registries returns the entries by registry, not yet decoded.
func registries(key string, data map[string][]byte) (map[string]json.RawMessage, error) {
	content, ok := data[key]
	if !ok || len(content) == 0 {
		return nil, errors.New("the key is missing or empty")
	}
	var byRegistry map[string]json.RawMessage
	if key == corev1.DockerConfigKey {
		if err := decode(content, &byRegistry); err != nil {
			return nil, err
		}
		return byRegistry, nil
	}
	var config struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if err := decode(content, &config); err != nil {
		return nil, err
	}
	if len(config.Auths) == 0 {
		return nil, errors.New(`the configuration has no "auths"`)
	}
	return config.Auths, nil
}

func parseEntry(secret, registry string, raw json.RawMessage) (Entry, error) {
	var fields struct {
		Username      string `json:"username"`
		Password      string `json:"password"`
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
		RegistryToken string `json:"registrytoken"`
	}
	if err := decode(raw, &fields); err != nil {
		return Entry{}, err
	}
	p, err := parsePattern(registry)
	if err != nil {
		return Entry{}, err
	}
	config := authn.AuthConfig{
		Username: fields.Username, Password: fields.Password,
		IdentityToken: fields.IdentityToken, RegistryToken: fields.RegistryToken,
	}
	// auth wins over username and password, as for the kubelet.
	if fields.Auth != "" {
		if config.Username, config.Password, err = decodeAuth(fields.Auth); err != nil {
			return Entry{}, err
		}
	}
	if config.Password == "" && config.IdentityToken == "" && config.RegistryToken == "" {
		return Entry{}, errors.New("the entry holds no password and no token; " +
			"a configuration that uses a credential helper keeps them elsewhere")
	}
	return Entry{Key: p.String(), Credential: newCredential(secret, config), pattern: p}, nil
}

// decodeAuth splits base64("user:password"), padded or not.
func decodeAuth(auth string) (username, password string, err error) {
	unpadded := strings.TrimRight(strings.TrimSpace(auth), "=")
	decoded, err := base64.RawStdEncoding.DecodeString(unpadded)
	if err != nil {
		return "", "", errors.New("auth is not valid base64")
	}
	username, password, ok := strings.Cut(string(decoded), ":")
	if !ok {
		return "", "", errors.New("auth is not the base64 of user:password")
	}
	// Old docker clients padded the password with zero bytes.
	return username, strings.Trim(password, "\x00"), nil
}

// decode unmarshals JSON; its errors say where, never what.
func decode(content []byte, into any) error {
	err := json.Unmarshal(content, into)
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return fmt.Errorf("not valid JSON at byte %d", syntax.Offset)
	case errors.As(err, &mismatch):
		return fmt.Errorf("a JSON %s where %s belongs, at byte %d", jsonKind(mismatch.Value), mismatch.Type.Kind(), mismatch.Offset)
	default:
		return errors.New("not valid JSON")
	}
}

// jsonKind cuts "number 12345" to "number": the value may be a password.
func jsonKind(value string) string {
	kind, _, _ := strings.Cut(value, " ")
	return kind
}

// printable returns the registry if it looks like one, else its place: a
// password that slipped into a key must not be shown.
func printable(registry string, index int) string {
	p, err := parsePattern(registry)
	if err != nil || strings.ContainsFunc(p.String(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Sprintf("number %d", index+1)
	}
	return p.String()
}

// pattern is a key of a pull secret, taken apart for matching.
type pattern struct {
	labels []string
	port   string
	path   string
	host   string // with port, for String
}

// String returns host[:port][/path].
func (p pattern) String() string { return p.host + p.path }

// parsePattern reads a key as the kubelet does: the scheme does not matter,
// and a leading /v1/ or /v2/ is the registry's API, not part of a path.
func parsePattern(key string) (pattern, error) {
	bad := errors.New("the entry's key is not the address of a registry")
	address := key
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return pattern{}, bad
	}
	host := canonicalHost(u.Host)
	hostname, port := splitPort(host)
	labels := strings.Split(hostname, ".")
	for _, label := range labels {
		if _, err := path.Match(label, ""); err != nil {
			return pattern{}, bad
		}
	}
	return pattern{labels: labels, port: port, path: repositoryPrefix(host, u.Path), host: host}, nil
}

// repositoryPrefix is the path of a key without what is not of a repository.
func repositoryPrefix(host, address string) string {
	if strings.HasPrefix(address, "/v1/") || strings.HasPrefix(address, "/v2/") {
		address = address[len("/v1"):]
	}
	// Docker Hub's own key is often written without its last slash.
	if address == "/" || host == dockerHub && (address == "/v1" || address == "/v2") {
		return ""
	}
	return address
}

func splitPort(host string) (hostname, port string) {
	u := url.URL{Host: host}
	return u.Hostname(), u.Port()
}
