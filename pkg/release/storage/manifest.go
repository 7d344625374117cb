package storage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// EncodeManifest writes objects as YAML documents, in their order.
func EncodeManifest(objects []*unstructured.Unstructured) (string, error) {
	var out strings.Builder
	for _, o := range objects {
		text, err := encodeObject(o)
		if err != nil {
			return "", err
		}
		out.WriteString("---\n")
		out.WriteString(text)
	}
	return out.String(), nil
}

func encodeObject(o *unstructured.Unstructured) (string, error) {
	data, err := json.Marshal(o.Object)
	if err == nil {
		data, err = yaml.JSONToYAML(escapeControls(data))
	}
	if err != nil {
		return "", fmt.Errorf("write %s %s as YAML: %w", o.GetKind(), o.GetName(), err)
	}
	return string(data), nil
}

// escapeControls escapes those characters in JSON that JSON allows as they are
// and YAML does not, or takes for the end of a line.
func escapeControls(data []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(data) {
		switch {
		case r >= 0x7f && r <= 0x9f, r == 0xfeff, r == 0xfffe, r == 0xffff:
			_, _ = fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// DecodeManifest reads what EncodeManifest wrote, and manifests of Helm.
// Integers become int64. Errors quote nothing of the manifest.
func DecodeManifest(manifest string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	// A last line without its end is lost by the reader at some lengths.
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest + "\n")))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the manifest: %w", err)
		}
		var fields map[string]any
		if err := utilyaml.Unmarshal(document, &fields); err != nil {
			return nil, fmt.Errorf("the manifest's object %d is no valid YAML", len(out)+1)
		}
		if len(fields) == 0 {
			continue
		}
		o := &unstructured.Unstructured{Object: fields}
		if o.GetKind() == "" || o.GetAPIVersion() == "" {
			return nil, fmt.Errorf("the manifest's object %d has no apiVersion or kind", len(out)+1)
		}
		out = append(out, o)
	}
}
