package chart

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// document is an object in a rendered file.
type document struct {
	object *unstructured.Unstructured
	file   string
	// hook is the annotation helm.sh/hook of the document, of the whole list
	// when the object was an item of one.
	hook        string
	annotations map[string]string
}

// parseFile returns the objects of a rendered file, items of lists one by one.
// Errors name the file and the line in what it rendered, never its text.
func parseFile(file, text string) ([]document, error) {
	var out []document
	for _, doc := range splitDocuments(text) {
		var content any
		if err := utilyaml.Unmarshal([]byte(doc.text), &content); err != nil {
			return nil, yamlError(file, doc.line, err)
		}
		if content == nil {
			continue
		}
		fields, ok := content.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s renders something other than a Kubernetes object at line %d of its output", file, doc.line)
		}
		if len(fields) == 0 {
			continue
		}
		object := &unstructured.Unstructured{Object: fields}
		if object.GetAPIVersion() == "" || object.GetKind() == "" {
			return nil, fmt.Errorf("%s renders an object without apiVersion or kind at line %d of its output", file, doc.line)
		}
		annotations := object.GetAnnotations()
		objects, err := flatten(object)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d of its output: %w", file, doc.line, err)
		}
		for _, o := range objects {
			out = append(out, document{object: o, file: file, hook: annotations[release.HookAnnotation], annotations: annotations})
		}
	}
	return out, nil
}

// flatten returns the items of a list (kind List, or such as ConfigMapList,
// whose items need no kind), or the object itself.
func flatten(o *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	itemKind, isList := strings.CutSuffix(o.GetKind(), "List")
	if !o.IsList() && o.GetKind() == "List" {
		return nil, nil
	}
	if !isList || !o.IsList() {
		return []*unstructured.Unstructured{o}, nil
	}
	items, _ := o.Object["items"].([]any)
	var out []*unstructured.Unstructured
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("item %d of the %s is not an object", i, o.GetKind())
		}
		inner := &unstructured.Unstructured{Object: fields}
		if inner.GetKind() == "" && itemKind != "" {
			inner.SetKind(itemKind)
			inner.SetAPIVersion(o.GetAPIVersion())
		}
		if inner.GetKind() == "" || inner.GetAPIVersion() == "" {
			return nil, fmt.Errorf("item %d of the %s has no apiVersion or kind", i, o.GetKind())
		}
		nested, err := flatten(inner)
		if err != nil {
			return nil, err
		}
		out = append(out, nested...)
	}
	return out, nil
}

// yamlDocument is one document of a rendered file.
type yamlDocument struct {
	text string
	line int // of the file, from 1
}

// separator is what Helm splits documents at: charts write "---" with blanks or
// even with the next key behind it.
var separator = regexp.MustCompile(`(?m)^---[ \t]*`)

func splitDocuments(text string) []yamlDocument {
	var out []yamlDocument
	line := 1
	add := func(doc string) {
		body := strings.TrimLeft(doc, " \t\r\n")
		if strings.TrimSpace(body) != "" {
			out = append(out, yamlDocument{text: body, line: line + strings.Count(doc[:len(doc)-len(body)], "\n")})
		}
	}
	start := 0
	for _, at := range separator.FindAllStringIndex(text, -1) {
		add(text[start:at[0]])
		line += strings.Count(text[start:at[1]], "\n")
		start = at[1]
	}
	add(text[start:])
	return out
}

var (
	yamlLine = regexp.MustCompile(`line (\d+): `)
	// plainCause matches those complaints of the parser that quote no text.
	plainCause = regexp.MustCompile(`^(did not find expected |could not find expected |mapping values are not allowed|found character that cannot start any token|found unexpected end of stream|found a tab character|block sequence entries are not allowed|control characters are not allowed)`)
	twice      = regexp.MustCompile(`already (defined|set)`)
)

// yamlError names the line in the rendered file, and the parser's complaint if
// that is known to quote nothing.
func yamlError(file string, first int, err error) error {
	_, text, _ := strings.Cut(err.Error(), "yaml: ")
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "unmarshal errors:\n  "), "\n")
	line := first
	if m := yamlLine.FindStringSubmatchIndex(text); m != nil {
		if n, convErr := strconv.Atoi(text[m[2]:m[3]]); convErr == nil {
			line += n - 1
		}
		text = text[m[1]:]
	}
	switch {
	case plainCause.MatchString(text):
	case twice.MatchString(text):
		text = "a key stands there twice"
	default:
		text = "it cannot be parsed"
	}
	return fmt.Errorf("%s renders invalid YAML at line %d of its output: %s", file, line, text)
}
