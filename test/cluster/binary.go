package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Version is the Kubernetes version of the control plane; kube/go.mod pins it.
const Version = "v1.37.1"

// modulePath names this repository's module, by whose go.mod its root is recognised.
const modulePath = "github.com/jkwong888/go-helm-operator"

// Binary returns the path of the multi-call control plane binary (see ./kube), building it when this machine has none for
// the present sources, go.sum and Go version. The first build downloads about 600 MB of modules and keeps two cores busy
// for six to ten minutes; progress, which may be nil, is told what it waits for. The binary is kept under the user's
// cache directory, in go-helm-operator/. Processes that ask at the same time wait for one build.
//
// The working directory has to be inside the repository.
func Binary(ctx context.Context, progress io.Writer) (string, error) {
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for the control plane binary: %w", err)
	}
	cache = filepath.Join(cache, "go-helm-operator")
	key, err := sourceKey(source)
	if err != nil {
		return "", fmt.Errorf("reading the sources of the control plane in %s: %w", source, err)
	}
	path := filepath.Join(cache, "kube-"+key)
	if executable(path) {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // for prune; somebody else's cache may be read-only
		return path, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("making room for the control plane binary: %w", err)
	}
	report := newReporter(progress)
	lockFile, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("locking the build of the control plane: %w", err)
	}
	unlock, err := lock(ctx, lockFile, func() { report.begin("waiting for another process that builds the control plane") })
	if err != nil {
		return "", err
	}
	defer unlock()
	if executable(path) { // whoever held the lock has built it
		report.end("another process built the control plane")
		return path, nil
	}
	if err := build(ctx, source, path, report); err != nil {
		return "", err
	}
	prune(cache)
	return path, nil
}

// prune removes binaries (160 MB each) that nobody has asked for in a month: of sources that are long gone.
func prune(cache string) {
	const unused = 30 * 24 * time.Hour
	files, _ := filepath.Glob(filepath.Join(cache, "kube-*")) // fails only for a bad pattern
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) > unused {
			_ = os.Remove(file) // the next build tries again
		}
	}
}

// sourceDir finds the module in ./kube from the working directory. Embedding would need no search, but Go embeds no
// files of another module.
func sourceDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		mod, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && slices.Contains(strings.Split(string(mod), "\n"), "module "+modulePath) {
			return filepath.Join(at, "test", "cluster", "kube"), nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not inside a checkout of %s, whose test/cluster/kube is the control plane's source", dir, modulePath)
		}
	}
}

// sourceKey condenses all that decides what the build makes.
func sourceKey(source string) (string, error) {
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return "", err
	}
	h := sha256.New() // never fails to write
	_, _ = fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildArgs(""))
	for _, file := range append(files, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum")) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(h, "%s %d\n%s", filepath.Base(file), len(content), content)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// buildArgs are the arguments of go. They make the build reproducible, and stamp the version that kubectl and clients see.
func buildArgs(output string) []string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(Version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	ldflags := "-s -w -buildid="
	for _, stamp := range []string{
		"gitVersion=" + Version, "gitMajor=" + major, "gitMinor=" + minor,
		"gitTreeState=clean", "gitCommit=" + Version, "buildDate=1970-01-01T00:00:00Z",
	} {
		ldflags += " -X k8s.io/component-base/version." + stamp + " -X k8s.io/client-go/pkg/version." + stamp
	}
	// An explicit -mod beats one in GOFLAGS, where a vendored build of the main module may have put another.
	return []string{"build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=" + ldflags, "-o", output, "."}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// build compiles source into path, which appears only when it is whole.
func build(ctx context.Context, source, path string, report *reporter) error {
	report.begin("building the Kubernetes " + Version + " control plane, once for this machine (6 to 10 minutes, 600 MB of modules)")
	report.step("starting")
	partial := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(partial) //nolint:errcheck // gone already when all went well
	cmd := exec.CommandContext(ctx, "go", buildArgs(partial)...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	output := &buildOutput{report: report}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Run(); err != nil {
		report.end("the build failed")
		return fmt.Errorf("building the control plane in %s: %w\n%s", source, errors.Join(err, ctx.Err()), output.tail())
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("keeping the control plane binary: %w", err)
	}
	report.end("built " + path)
	return nil
}

// buildOutput turns what go build -v says into progress and keeps the end of it for an error.
type buildOutput struct {
	report   *reporter
	partial  []byte
	last     []string // the last lines
	packages int
}

// keptLines is enough for the errors of one package.
const keptLines = 30

func (o *buildOutput) Write(b []byte) (int, error) {
	o.partial = append(o.partial, b...)
	for {
		line, rest, found := bytes.Cut(o.partial, []byte("\n"))
		if !found {
			return len(b), nil
		}
		o.partial = rest
		o.line(string(line))
	}
}

func (o *buildOutput) line(line string) {
	o.last = append(o.last, line)
	o.last = o.last[max(0, len(o.last)-keptLines):]
	if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
		o.report.step("downloading " + module)
		return
	}
	o.packages++
	o.report.step(fmt.Sprintf("compiling, %d packages done, now %s", o.packages, line))
}

func (o *buildOutput) tail() string { return strings.Join(append(o.last, string(o.partial)), "\n") }
