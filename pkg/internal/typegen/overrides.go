package typegen

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Overrides is what people know of a chart's values and no evidence tells. It
// is read from a checked-in file, where every statement carries its reason, and
// is the source of highest authority.
type Overrides struct {
	// Types of values.
	Types []Override `json:"types,omitempty"`
	// Rules in CEL across several values.
	Rules []Rule `json:"rules,omitempty"`
	// Sample says what the sample resource shows.
	Sample Sample `json:"sample,omitzero"`
}

// Override types the values at some paths.
type Override struct {
	// Paths of the values, keys joined by dots.
	Paths []string `json:"paths"`
	// Undeclared says that the chart's templates read the value and values.yaml
	// does not declare it; such a statement names one path and its Doc.
	Undeclared bool `json:"undeclared,omitempty"`
	// Reason why the value has this type.
	Reason string `json:"reason"`
	TypeSpec
}

// TypeSpec writes a [Type] down.
type TypeSpec struct {
	// Type as in Go: bool, int32, int64, float64, string, intOrString, quantity,
	// json, struct, a type of the Kubernetes API (corev1.Probe), or one of these
	// after [] or map[string].
	Type string `json:"type"`
	// Doc of the field, for those that values.yaml does not describe.
	Doc string `json:"doc,omitempty"`
	// Elem constrains the elements of a list or map.
	Elem Constraints `json:"elem,omitzero"`
	// Fields of a struct besides those that values.yaml declares.
	Fields []FieldSpec `json:"fields,omitempty"`
	Constraints
}

// FieldSpec writes down a field of a struct.
type FieldSpec struct {
	Key string `json:"key"`
	TypeSpec
}

// Sample of a resource.
type Sample struct {
	// Name of the resource; the kind in lower case and "-sample" when empty.
	Name string `json:"name,omitempty"`
	// Values to show. The ones that only say what the chart does anyway have no
	// value of their own and show the default.
	Values []SampleValue `json:"values,omitempty"`
}

// SampleValue is one value of a sample.
type SampleValue struct {
	Path string `json:"path"`
	// Value to show; the chart's default when it is left out.
	Value any `json:"value,omitempty"`
	// Doc to show instead of the value's own.
	Doc string `json:"doc,omitempty"`
}

// ParseOverrides reads an override file. It refuses unknown keys, types it
// cannot read and statements without a reason.
func ParseOverrides(data []byte) (*Overrides, error) {
	o := &Overrides{}
	if err := yaml.UnmarshalStrict(data, o); err != nil {
		return nil, fmt.Errorf("reading type overrides: %w", err)
	}
	var problems []error
	for _, override := range o.Types {
		problems = append(problems, override.check())
	}
	for _, rule := range o.Rules {
		problems = append(problems, rule.check())
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("reading type overrides: %w", err)
	}
	return o, nil
}

func (o Override) check() error {
	name := strings.Join(o.Paths, ", ")
	switch {
	case len(o.Paths) == 0:
		return errors.New("a statement under types names no paths")
	case o.Reason == "":
		return fmt.Errorf("%s: a reason is missing", name)
	case o.Undeclared && (len(o.Paths) != 1 || o.Doc == ""):
		return fmt.Errorf("%s: an undeclared value stands alone and needs a doc", name)
	}
	if _, err := o.resolve(nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Check finds statements that speak of values the chart does not have; they
// are left over from another version of the chart or misspelt.
func (o *Overrides) Check(root *Value) error {
	var problems []error
	for _, override := range o.Types {
		for _, path := range override.Paths {
			declared := root.Find(ParsePath(path)) != nil
			if declared == override.Undeclared {
				problems = append(problems, fmt.Errorf("type overrides: %s is %s in the chart's values.yaml", path, foundOrNot(declared)))
			}
		}
	}
	return errors.Join(problems...)
}

func foundOrNot(found bool) string {
	if found {
		return "declared (so it is not undeclared)"
	}
	return "not declared"
}

// Name implements [Source].
func (*Overrides) Name() string { return "override" }

// Type implements [Source].
func (o *Overrides) Type(v *Value) (Type, bool) {
	path := v.Path.String()
	for _, override := range o.Types {
		if !override.Undeclared && slices.Contains(override.Paths, path) {
			t, err := override.resolve(v.Path)
			return t, err == nil
		}
	}
	return Type{}, false
}

// Undeclared implements [Extender].
func (o *Overrides) Undeclared(parent Path) []*Field {
	var fields []*Field
	for _, override := range o.Types {
		path := ParsePath(override.Paths[0])
		if !override.Undeclared || path[:len(path)-1].String() != parent.String() {
			continue
		}
		// ParseOverrides has resolved it once already.
		if t, err := override.resolve(path); err == nil {
			fields = append(fields, &Field{
				Key: path[len(path)-1], Path: path, Doc: override.Doc, Type: t, Source: o.Name(),
			})
		}
	}
	return fields
}

// ParsePath reads what [Path.String] writes.
func ParsePath(s string) Path {
	const escaped = "\x00"
	keys := strings.Split(strings.ReplaceAll(s, `\.`, escaped), ".")
	for i, key := range keys {
		keys[i] = strings.ReplaceAll(key, escaped, ".")
	}
	if s == "" {
		return nil
	}
	return keys
}

// plainTypes are the types that need no package and no parts.
var plainTypes = map[string]TypeKind{
	"bool": TypeBool, "int32": TypeInt32, "int64": TypeInt64, "float64": TypeFloat, "string": TypeString,
	"intOrString": TypeIntOrString, "quantity": TypeQuantity, "json": TypeJSON, "struct": TypeStruct,
}

var qualifiedName = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Z][A-Za-z0-9]*)$`)

// resolve reads the type of a value at a path.
func (s TypeSpec) resolve(path Path) (Type, error) {
	t, err := parseType(s.Type)
	if err != nil {
		return Type{}, err
	}
	t.Constraints = s.Constraints
	if t.Elem != nil {
		t.Elem.Constraints = s.Elem
	}
	for _, spec := range s.Fields {
		field := &Field{Key: spec.Key, Path: path.Child(spec.Key), Doc: spec.Doc, Source: (*Overrides)(nil).Name()}
		if field.Type, err = spec.resolve(field.Path); err != nil {
			return Type{}, fmt.Errorf("%s: %w", spec.Key, err)
		}
		t.Fields = append(t.Fields, field)
	}
	return t, s.consistent(t)
}

// consistent refuses parts that the type would ignore.
func (s TypeSpec) consistent(t Type) error {
	if s.Pattern != "" {
		if _, err := regexp.Compile(s.Pattern); err != nil {
			return fmt.Errorf("pattern: %w", err)
		}
	}
	switch {
	case len(s.Fields) > 0 && t.Kind != TypeStruct:
		return fmt.Errorf("type %s has no fields", s.Type)
	case !s.Elem.zero() && t.Elem == nil:
		return fmt.Errorf("type %s has no elements", s.Type)
	}
	return nil
}

func (c Constraints) zero() bool {
	return c.Enum == nil && c.Minimum == nil && c.Maximum == nil && c.Pattern == "" && c.MaxLength == nil &&
		c.MaxItems == nil && c.MaxProperties == nil && !c.Nullable
}

func parseType(s string) (Type, error) {
	if kind, ok := plainTypes[s]; ok {
		return Type{Kind: kind}, nil
	}
	for prefix, kind := range map[string]TypeKind{"[]": TypeList, "map[string]": TypeMap} {
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			elem, err := parseType(rest)
			return Type{Kind: kind, Elem: &elem}, err
		}
	}
	if m := qualifiedName.FindStringSubmatch(s); m != nil {
		return Type{Kind: TypeGo, Go: GoType{Alias: m[1], Name: m[2]}}, nil
	}
	return Type{}, fmt.Errorf("%q is no type: expected one of bool, int32, int64, float64, string, intOrString, quantity, json, "+
		"struct, a Kubernetes type such as corev1.Probe, or [] or map[string] in front of one", s)
}
