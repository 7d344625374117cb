// Package output puts generated files where they belong, or says whether what
// is there is up to date.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Writer takes generated files by their names, which are relative paths.
type Writer interface {
	Write(name string, content []byte) error
}

// Dir writes files below a folder, which it makes if need be.
type Dir string

// Write implements [Writer]. A file that is up to date keeps its time.
func (d Dir) Write(name string, content []byte) error {
	path := filepath.Join(string(d), name)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Stream writes the contents of files one after the other.
type Stream struct{ To io.Writer }

// Write implements [Writer].
func (s Stream) Write(name string, content []byte) error {
	if _, err := s.To.Write(content); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// ErrOutdated is what [Check] fails with.
var ErrOutdated = errors.New("not up to date")

// Check compares with the files below a folder and writes nothing.
type Check string

// Write implements [Writer]; it fails with [ErrOutdated] for a file that is
// missing or differs, and names its first line that does.
func (c Check) Write(name string, content []byte) error {
	path := filepath.Join(string(c), name)
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is %w: it does not exist", path, ErrOutdated)
	}
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	if !bytes.Equal(old, content) {
		return fmt.Errorf("%s is %w: what would be generated differs from line %d on", path, ErrOutdated, differingLine(old, content))
	}
	return nil
}

func differingLine(a, b []byte) int {
	line := 1
	for i := 0; i < min(len(a), len(b)) && a[i] == b[i]; i++ {
		if a[i] == '\n' {
			line++
		}
	}
	return line
}
