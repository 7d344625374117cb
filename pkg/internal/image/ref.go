package image

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// maxReference is the longest image reference accepted, in bytes. A repository
// has at most 255, a tag 128, a sha512 digest 135; the rest is for the host.
const maxReference = 1024

// repositoryName is <name> of the OCI distribution specification.
var repositoryName = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)

// dockerHub is the host under which the kubelet looks up images of Docker Hub.
const dockerHub = "docker.io"

// Ref is a parsed image reference. It remembers how the image was written, so
// that pinning it changes no more than the digest. Refs are comparable; the
// zero Ref names no image.
type Ref struct {
	repo   string // as written, without tag and digest
	tag    string // as written; empty when none was
	digest string
	parsed name.Tag // normalised; its tag is "latest" when none was written
}

// Parse reads an image reference such as registry:5000/team/app:1.0@sha256:….
// Its error says what is wrong with the reference, for the user.
func Parse(image string) (Ref, error) {
	if len(image) > maxReference {
		return Ref{}, fmt.Errorf("image reference of %d bytes is longer than %d", len(image), maxReference)
	}
	tagged, digest, pinned := strings.Cut(image, "@")
	// The library's messages quote the reference raw; a name with control
	// characters must not reach conditions and logs that way.
	if strings.ContainsFunc(image, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return Ref{}, fmt.Errorf("image reference %q holds blanks or control characters", image)
	}
	if pinned {
		if _, err := name.NewDigest(image); err != nil {
			return Ref{}, fmt.Errorf("image reference %q: %w", image, err)
		}
	}
	parsed, err := name.NewTag(tagged)
	if err != nil {
		return Ref{}, fmt.Errorf("image reference %q: %w", image, err)
	}
	// The library takes any order of the allowed characters for a repository,
	// and with it "https:" for a registry.
	if !repositoryName.MatchString(parsed.RepositoryStr()) || strings.HasSuffix(parsed.RegistryStr(), ":") {
		return Ref{}, fmt.Errorf("image reference %q: a repository is lower-case names, separated by single slashes", image)
	}
	ref := Ref{repo: tagged, digest: digest, parsed: parsed}
	// A colon before the last slash separates a port, not a tag.
	if colon := strings.LastIndexByte(tagged, ':'); colon > strings.LastIndexByte(tagged, '/') {
		ref.repo, ref.tag = tagged[:colon], tagged[colon+1:]
	}
	return ref, nil
}

// Unpin returns the image without its digest, if it has one.
func Unpin(image string) string {
	tagged, _, _ := strings.Cut(image, "@")
	return tagged
}

// String returns the image as it was written.
func (r Ref) String() string {
	if r.digest == "" {
		return r.tagged()
	}
	return r.tagged() + "@" + r.digest
}

// Pinned returns the image with this digest. Repository and tag stay as they
// were written, the tag for the reader's sake: the digest alone decides what is
// pulled. An empty digest leaves the image unpinned.
func (r Ref) Pinned(digest string) string {
	if digest == "" {
		return r.tagged()
	}
	return r.tagged() + "@" + digest
}

// Digest returns the digest that the reference itself pins, or "".
func (r Ref) Digest() string { return r.digest }

// Name returns the image with registry, repository and tag spelt out and
// without a digest; equal names are the same image.
func (r Ref) Name() string { return r.parsed.Name() }

// Host returns the registry's host, with its port if one was written.
func (r Ref) Host() string { return r.parsed.RegistryStr() }

func (r Ref) tagged() string {
	if r.tag == "" {
		return r.repo
	}
	return r.repo + ":" + r.tag
}

// lookupHost and lookupPath are what keys of pull secrets are matched with.
func (r Ref) lookupHost() string { return canonicalHost(r.parsed.RegistryStr()) }
func (r Ref) lookupPath() string { return "/" + r.parsed.RepositoryStr() }

// canonicalHost gives Docker Hub its one name.
func canonicalHost(host string) string {
	switch host {
	case "index.docker.io", "registry-1.docker.io":
		return dockerHub
	}
	return host
}
