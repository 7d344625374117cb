package deploy

import (
	"archive/tar"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// largest is how big the image may be, compressed, in bytes. It is about 20 MB; one that doubles has caught something by accident.
const largest = 40 << 20

// pull fetches the image behind a reference from the registry.
func pull(t *testing.T, reference string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref, remote.WithContext(t.Context()),
		remote.WithAuth(&authn.Basic{Username: username, Password: password}))
	if err != nil {
		t.Fatalf("pulling %s: %v", reference, err)
	}
	return image
}

// unpack writes the image's files to a folder and returns it.
func unpack(t *testing.T, image v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	folder, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	content := mutate.Extract(image)
	defer content.Close()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatalf("reading the image's layers: %v", err)
		}
		path := strings.TrimPrefix(filepath.Clean(header.Name), "/")
		switch header.Typeflag {
		case tar.TypeDir:
			err = folder.MkdirAll(path, 0o755)
		case tar.TypeReg:
			err = unpackFile(folder, path, header, files)
		default:
			t.Fatalf("the image holds %s of type %c; it should have files and folders only", header.Name, header.Typeflag)
		}
		if err != nil {
			t.Fatalf("unpacking %s: %v", header.Name, err)
		}
	}
}

func unpackFile(folder *os.Root, path string, header *tar.Header, content io.Reader) error {
	if err := folder.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := folder.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, header.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// checkImage fails the test unless the image is what build/Dockerfile promises, and returns the folder with its files.
func checkImage(t *testing.T, reference string) string {
	t.Helper()
	image := pull(t, reference)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := v1.Config{User: config.Config.User, Entrypoint: config.Config.Entrypoint, WorkingDir: config.Config.WorkingDir}
	if diff := cmp.Diff(v1.Config{User: "65532:65532", Entrypoint: []string{"/manager"}, WorkingDir: "/"}, got); diff != "" {
		t.Errorf("the image's configuration, -want +got:\n%s", diff)
	}
	if size := compressed(t, image); size > largest {
		t.Errorf("the image is %d bytes large, want at most %d", size, largest)
	}

	dir := unpack(t, image)
	var top []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		top = append(top, entry.Name())
	}
	slices.Sort(top)
	if diff := cmp.Diff([]string{"etc", "helm-charts", "manager", "watches.yaml"}, top); diff != "" {
		t.Errorf("what is in the image, -want +got:\n%s", diff)
	}
	for _, path := range []string{"etc/ssl/certs/ca-certificates.crt", "helm-charts/ibm-websphere-liberty/Chart.yaml"} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Size() == 0 {
			t.Errorf("%s in the image: %v, or it is empty", path, err)
		}
	}
	checkStatic(t, filepath.Join(dir, "manager"))
	return dir
}

func compressed(t *testing.T, image v1.Image) (size int64) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		n, err := layer.Size()
		if err != nil {
			t.Fatal(err)
		}
		size += n
	}
	return size
}

// checkStatic fails the test if the program needs a loader or libraries, of which the image has none.
func checkStatic(t *testing.T, path string) {
	t.Helper()
	program, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("%s is linked dynamically", path)
		}
	}
}
