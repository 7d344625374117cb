package image

import (
	"path"
	"slices"
	"strings"
)

// Keyring picks credentials for images by the kubelet's rules. It is read-only
// once made and safe for concurrent use; a nil Keyring is empty.
type Keyring struct {
	entries []Entry // in the order in which Lookup tries them
}

// NewKeyring returns a Keyring of entries in the order of their Secrets, as the
// pod or its ServiceAccount lists them.
func NewKeyring(entries ...Entry) *Keyring {
	sorted := slices.Clone(entries)
	// Reverse order of the keys, as for the kubelet: a longer path comes before
	// its prefix, a name before a glob. Equal keys stay in the Secrets' order.
	slices.SortStableFunc(sorted, func(a, b Entry) int { return strings.Compare(b.Key, a.Key) })
	return &Keyring{entries: sorted}
}

// Lookup returns the credentials to try for an image, in this order. Anonymous
// access is always the last. Equal credentials appear once, under the name of
// the first Secret that has them.
func (k *Keyring) Lookup(ref Ref) []Credential {
	var found []Credential
	if k != nil {
		found = k.match(ref)
	}
	return append(found, Anonymous())
}

func (k *Keyring) match(ref Ref) []Credential {
	hostname, port := splitPort(ref.lookupHost())
	labels, repository := strings.Split(hostname, "."), ref.lookupPath()
	var found []Credential
	for _, entry := range k.entries {
		if !entry.pattern.matches(labels, port, repository) {
			continue
		}
		same := func(c Credential) bool { return c.fingerprint == entry.Credential.fingerprint }
		if !slices.ContainsFunc(found, same) {
			found = append(found, entry.Credential)
		}
	}
	return found
}

// matches reports whether an image belongs to the pattern: equal ports, as many
// labels in the host, each matched by its glob, and a prefix of the path. The
// prefix need not end at a slash; the kubelet does not ask for it either.
func (p pattern) matches(labels []string, port, repository string) bool {
	if p.port != port || len(p.labels) != len(labels) || !strings.HasPrefix(repository, p.path) {
		return false
	}
	for i, glob := range p.labels {
		if glob == labels[i] {
			continue
		}
		if ok, err := path.Match(glob, labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
