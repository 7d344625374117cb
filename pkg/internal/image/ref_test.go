package image

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	digestB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func mustParse(t testing.TB, image string) Ref {
	t.Helper()
	ref, err := Parse(image)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestParseKeepsWhatWasWritten(t *testing.T) {
	type want struct{ Name, Host, Pinned, Digest string }
	for image, want := range map[string]want{
		"nginx": {
			Name: "index.docker.io/library/nginx:latest", Host: "index.docker.io", Pinned: "nginx@" + digestB},
		"docker.io/library/nginx:1.29": {
			Name: "index.docker.io/library/nginx:1.29", Host: "index.docker.io", Pinned: "docker.io/library/nginx:1.29@" + digestB},
		"localhost/app": {
			Name: "localhost/app:latest", Host: "localhost", Pinned: "localhost/app@" + digestB},
		"reg.example.com:5000/team/app": {
			Name: "reg.example.com:5000/team/app:latest", Host: "reg.example.com:5000", Pinned: "reg.example.com:5000/team/app@" + digestB},
		"reg.example.com:5000/team/app:1.0": {
			Name: "reg.example.com:5000/team/app:1.0", Host: "reg.example.com:5000", Pinned: "reg.example.com:5000/team/app:1.0@" + digestB},
		"reg.example.com:5000/team/app:1.0@" + digestA: {
			Name: "reg.example.com:5000/team/app:1.0", Host: "reg.example.com:5000", Digest: digestA, Pinned: "reg.example.com:5000/team/app:1.0@" + digestB},
		"app@" + digestA: {
			Name: "index.docker.io/library/app:latest", Host: "index.docker.io", Digest: digestA, Pinned: "app@" + digestB},
		"[::1]:5000/app:1": {
			Name: "[::1]:5000/app:1", Host: "[::1]:5000", Pinned: "[::1]:5000/app:1@" + digestB},
	} {
		t.Run(image, func(t *testing.T) {
			ref := mustParse(t, image)
			got := want
			got.Name, got.Host, got.Pinned, got.Digest = ref.Name(), ref.Host(), ref.Pinned(digestB), ref.Digest()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if ref.String() != image {
				t.Errorf("String() = %q", ref.String())
			}
			if got := Unpin(ref.Pinned(digestB)); got != Unpin(image) {
				t.Errorf("unpinned %q", got)
			}
			if got := ref.Pinned(""); got != Unpin(image) {
				t.Errorf("pinned to nothing: %q", got)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, image := range map[string]string{
		"nothing":               "",
		"a digest only":         "@" + digestA,
		"a scheme":              "https://reg.example.com/app:1",
		"upper case":            "reg.example.com/App:1",
		"an empty tag":          "reg.example.com/app:",
		"a bad tag":             "reg.example.com/app:a/b:c:d",
		"a short digest":        "app:1@sha256:abcd",
		"an unknown digest":     "app:1@md5:d41d8cd98f00b204e9800998ecf8427e",
		"two digests":           "app@" + digestA + "@" + digestB,
		"blanks":                " app:1",
		"a line break":          "app:1\nReady",
		"more than is sensible": "reg.example.com/" + strings.Repeat("a", 2000),
	} {
		t.Run(name, func(t *testing.T) {
			ref, err := Parse(image)
			if err == nil {
				t.Fatalf("parsed as %q", ref.Name())
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 3*maxReference {
				t.Errorf("error is not fit to show: %q", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"nginx", "reg:5000/a/b:c@" + digestA, "@", ":", "a:b:c", "[::1]:5000/x", "docker.io/x:y", "localhost:5000/x", "a//b", "\x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, image string) {
		ref, err := Parse(image)
		if err != nil {
			return
		}
		if ref.String() != image {
			t.Errorf("%q became %q", image, ref.String())
		}
		pinned, err := Parse(ref.Pinned(digestB))
		if err != nil {
			t.Fatalf("%q pinned cannot be parsed: %v", image, err)
		}
		if pinned.Digest() != digestB || pinned.Name() != ref.Name() || Unpin(pinned.String()) != Unpin(image) {
			t.Errorf("%q pinned is %q, of %q", image, pinned, pinned.Name())
		}
	})
}
