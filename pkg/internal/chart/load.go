package chart

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v4/pkg/chart/common"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// maxArchive bounds a chart archive as it lies on disk, in bytes.
	maxArchive = 20 << 20
	// maxChart bounds all files of a chart and its subcharts together, in
	// bytes. Helm's loader bounds each archive at 100 MiB before.
	maxChart = 32 << 20
)

// Load reads a chart from a folder or a .tgz archive. Its subcharts must be in
// charts/. Every error names the path and, where there is one, the file in it.
func Load(path string) (*Chart, error) {
	c, err := load(path)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", path, err)
	}
	return c, nil
}

func load(path string) (*Chart, error) {
	info, err := os.Stat(path)
	if err != nil {
		// The path stands in Load's message already.
		var pathError *os.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return nil, err
	}
	if !info.IsDir() && info.Size() > maxArchive {
		return nil, fmt.Errorf("the archive has %d bytes, more than the %d allowed", info.Size(), maxArchive)
	}
	root, err := loader.Load(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	if n := size(root); n > maxChart {
		return nil, fmt.Errorf("its files have %d bytes together, more than the %d allowed", n, maxChart)
	}
	if err := checkRunnable(root); err != nil {
		return nil, err
	}
	c := &Chart{
		root:          root,
		digest:        chartDigest(root),
		schemas:       map[string]*jsonschema.Schema{},
		crds:          map[*common.File][]*unstructured.Unstructured{},
		wholeVersions: usesWholeVersions(root),
	}
	if err := c.prepare(root); err != nil {
		return nil, err
	}
	return c, nil
}

// size of all files of a chart and its subcharts, in bytes. The raw files hold
// packed subcharts too, so that those count twice.
func size(c *helmchart.Chart) int64 {
	var n int64
	for _, f := range c.Raw {
		n += int64(len(f.Data))
	}
	for _, sub := range c.Dependencies() {
		n += size(sub)
	}
	return n
}

// prepare does once what every render needs of a chart and its subcharts, and
// lets go of the raw files.
func (c *Chart) prepare(hc *helmchart.Chart) error {
	for _, f := range hc.Raw {
		if f.Name != "values.yaml" {
			continue
		}
		values, err := decodeValues(f.Data)
		if err != nil {
			return fmt.Errorf("%s/values.yaml: %w", hc.ChartFullPath(), err)
		}
		hc.Values = values
	}
	hc.Raw = nil
	if len(hc.Schema) > 0 {
		schema, err := compileSchema(hc.Schema)
		if err != nil {
			return fmt.Errorf("%s/values.schema.json: %w", hc.ChartFullPath(), err)
		}
		c.schemas[string(hc.Schema)] = schema
	}
	for _, sub := range hc.Dependencies() {
		if err := c.prepare(sub); err != nil {
			return err
		}
	}
	if !hc.IsRoot() {
		return nil
	}
	for _, crd := range hc.CRDObjects() {
		objects, err := parseFile(crd.Filename, string(crd.File.Data))
		if err != nil {
			return err
		}
		for _, o := range objects {
			c.crds[crd.File] = append(c.crds[crd.File], o.object)
		}
	}
	return nil
}

// decodeValues reads the YAML documents of a values.yaml, later ones merged
// over earlier ones, as Helm's loader does, but keeps integers as int64.
func decodeValues(data []byte) (map[string]any, error) {
	values := map[string]any{}
	// A last line without its end is lost by the reader at some lengths.
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(append(bytes.Clone(data), '\n'))))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		current := map[string]any{}
		if err := utilyaml.Unmarshal(doc, &current); err != nil {
			return nil, err
		}
		values = loader.MergeMaps(values, current)
	}
}
