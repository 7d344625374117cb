package scenarios

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"text/template"
)

// variables are what templates in scenario.yaml and in its files can use.
type variables struct {
	Registry   string // host:port
	RegistryCA string // PEM
	Namespace  string

	mu      sync.Mutex
	digests map[string]string
	secrets map[string]string
}

// secret returns a random text, the same for the same name, that must not get out.
func (v *variables) secret(name string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.secrets[name] == "" {
		v.secrets[name] = "secret" + rand.Text()
	}
	return v.secrets[name]
}

// digest returns the digest of what a push step named.
func (v *variables) digest(name string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.digests[name] == "" {
		return "", fmt.Errorf("no push step before this one is named %q", name)
	}
	return v.digests[name], nil
}

func (v *variables) setDigest(name, digest string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.digests[name] = digest
}

// expand executes text as a template.
func (v *variables) expand(text string) (string, error) {
	t, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{"secret": v.secret, "digest": v.digest}).Parse(text)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return "", err
	}
	return out.String(), nil
}

// step expands all strings of a step, and decodes it.
func (v *variables) step(raw json.RawMessage) (*Step, error) {
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	tree, err := v.walk(tree)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return decodeStep(data)
}

func (v *variables) walk(node any) (any, error) {
	switch node := node.(type) {
	case string:
		return v.expand(node)
	case []any:
		for i := range node {
			expanded, err := v.walk(node[i])
			if err != nil {
				return nil, err
			}
			node[i] = expanded
		}
	case map[string]any:
		for key := range node {
			expanded, err := v.walk(node[key])
			if err != nil {
				return nil, err
			}
			node[key] = expanded
		}
	}
	return node, nil
}
