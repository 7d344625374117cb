// Package watches reads watches.yaml, the file that says which kinds the
// operator runs from which charts. The format is that of the operator-sdk Helm
// operator.
package watches

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// maxBytes bounds the file.
const maxBytes = 1 << 20

// Watch is one entry of watches.yaml.
type Watch struct {
	// Group, Version and Kind of the custom resource; the group may be empty.
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Chart is the folder or .tgz file to install for each resource. A relative
	// path is relative to the watches file.
	Chart string `json:"chart"`
	// OperatorKey is the key of spec that holds the operator's settings
	// instead of values; empty for kinds whose whole spec is values.
	OperatorKey string `json:"operatorKey,omitempty"`
}

// GroupVersionKind of the entry.
func (w Watch) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: w.Group, Version: w.Version, Kind: w.Kind}
}

// Load reads a watches file. Unknown fields, missing ones and a kind that is
// named twice are errors.
func Load(path string) ([]Watch, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the watches file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the watches file %s: %w", path, err)
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("reading the watches file %s: it is larger than %d bytes", path, maxBytes)
	}
	all, err := parse(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("reading the watches file %s: %w", path, err)
	}
	return all, nil
}

func parse(data []byte, dir string) ([]Watch, error) {
	var all []Watch
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it names no kind")
	}
	seen := map[schema.GroupKind]bool{}
	for i := range all {
		w := &all[i]
		switch {
		case w.Version == "":
			return nil, fmt.Errorf("entry %d: version is missing", i+1)
		case w.Kind == "":
			return nil, fmt.Errorf("entry %d: kind is missing", i+1)
		case w.Chart == "":
			return nil, fmt.Errorf("entry %d (%s): chart is missing", i+1, w.Kind)
		case seen[w.GroupVersionKind().GroupKind()]:
			return nil, fmt.Errorf("entry %d: %s is named twice", i+1, w.GroupVersionKind().GroupKind())
		}
		seen[w.GroupVersionKind().GroupKind()] = true
		if !filepath.IsAbs(w.Chart) {
			w.Chart = filepath.Join(dir, w.Chart)
		}
	}
	return all, nil
}
