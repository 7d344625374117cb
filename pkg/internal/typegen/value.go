package typegen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Kind is what a value is in values.yaml, read as Helm reads it (YAML 1.1, so
// that a bare off is a boolean).
type Kind string

// The kinds of YAML. An integer that does not fit into 64 bits is a Float.
const (
	Null   Kind = "null"
	Bool   Kind = "bool"
	Int    Kind = "int"
	Float  Kind = "float"
	String Kind = "string"
	List   Kind = "list"
	Map    Kind = "map"
)

// Path names a value by the keys that lead to it; the root has none.
type Path []string

// String joins the keys by dots; a dot within a key is escaped by a backslash.
func (p Path) String() string {
	keys := make([]string, len(p))
	for i, key := range p {
		keys[i] = strings.ReplaceAll(key, ".", `\.`)
	}
	return strings.Join(keys, ".")
}

// Child is the path of a key below p.
func (p Path) Child(key string) Path {
	return append(p[:len(p):len(p)], key)
}

// Value is one entry of a chart's values.yaml.
type Value struct {
	// Path from the root of the values.
	Path Path
	// Kind of the default.
	Kind Kind
	// Default as JSON: nil, bool, int64, float64, string, []any, map[string]any.
	Default any
	// Doc is the comment that stands above the key, without its markup.
	Doc string
	// Children of a map, in the order of the file.
	Children []*Value
}

// Child finds the entry of a map by its key, nil when there is none.
func (v *Value) Child(key string) *Value {
	for _, child := range v.Children {
		if child.Path[len(child.Path)-1] == key {
			return child
		}
	}
	return nil
}

// Find follows a path down from v, nil when it leads nowhere.
func (v *Value) Find(path Path) *Value {
	for _, key := range path {
		if v = v.Child(key); v == nil {
			return nil
		}
	}
	return v
}

// Walk calls visit for v and everything below it, parents first.
func (v *Value) Walk(visit func(*Value)) {
	visit(v)
	for _, child := range v.Children {
		child.Walk(visit)
	}
}

// ParseValues reads a values.yaml: the defaults as Helm sees them, nulls
// included, and the order and comments of its keys. Its errors name the line.
func ParseValues(data []byte) (*Value, error) {
	defaults, err := DecodeValues(data)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("reading values: %w", err)
	}
	p := valueParser{lines: strings.Split(string(data), "\n")}
	var node *yaml.Node
	if len(document.Content) > 0 {
		node = document.Content[0]
	}
	return p.value(nil, defaults, node), nil
}

// DecodeValues reads a values file into JSON types, with integers as int64.
// An empty file holds no values.
func DecodeValues(data []byte) (map[string]any, error) {
	asJSON, err := sigsyaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("reading values: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, fmt.Errorf("reading values: %w", err)
	}
	switch values := narrowNumbers(decoded).(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return values, nil
	default:
		return nil, errors.New("reading values: the file must hold a map of keys to values at its top level")
	}
}

// narrowNumbers replaces each json.Number by int64 or, failing that, float64.
func narrowNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		// The decoder has checked the syntax; only the range can be wrong, and
		// then the infinity that comes back is as near as JSON gets.
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = narrowNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = narrowNumbers(v[key])
		}
	}
	return v
}

// valueParser joins the defaults, which decide, with the nodes of the YAML
// tree, which know order and lines.
type valueParser struct {
	lines []string
}

func (p valueParser) value(path Path, def any, node *yaml.Node) *Value {
	v := &Value{Path: path, Kind: kindOf(def), Default: def}
	entries, ok := def.(map[string]any)
	if !ok {
		return v
	}
	for _, entry := range entriesOf(node) {
		key := entry.key.Value
		child, ok := entries[key]
		if !ok || v.Child(key) != nil {
			continue
		}
		c := p.value(path.Child(key), child, entry.value)
		c.Doc = docAbove(p.lines, entry.key.Line)
		if c.Doc == "" {
			c.Doc = docOf([]string{entry.value.LineComment, entry.key.LineComment})
		}
		v.Children = append(v.Children, c)
	}
	// Keys that YAML 1.1 reads as something else than their text (on is true).
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if v.Child(key) == nil {
			v.Children = append(v.Children, p.value(path.Child(key), entries[key], nil))
		}
	}
	return v
}

func kindOf(v any) Kind {
	switch v.(type) {
	case nil:
		return Null
	case bool:
		return Bool
	case int64:
		return Int
	case float64:
		return Float
	case []any:
		return List
	case map[string]any:
		return Map
	default:
		return String
	}
}

type entry struct{ key, value *yaml.Node }

// entriesOf lists the entries of a mapping in the order of the file, those
// that a merge key (<<) brings in last.
func entriesOf(node *yaml.Node) []entry {
	if node == nil {
		return nil
	}
	if node.Kind == yaml.AliasNode {
		return entriesOf(node.Alias)
	}
	var own, merged []entry
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.Tag != "!!merge":
			own = append(own, entry{key, value})
		case value.Kind == yaml.SequenceNode:
			for _, source := range value.Content {
				merged = append(merged, entriesOf(source)...)
			}
		default:
			merged = append(merged, entriesOf(value)...)
		}
	}
	return append(own, merged...)
}
