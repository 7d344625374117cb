package typegen

import (
	"fmt"
	"strings"
)

// Source is one kind of evidence for the types of values: a checked-in
// override, a schema, the place where a value lands, its default.
type Source interface {
	// Name of the source, for people.
	Name() string
	// Type of a value, and whether the source knows it. A struct need not name
	// the fields that values.yaml declares; these are resolved by themselves.
	Type(v *Value) (Type, bool)
}

// Extender is a source that also knows values which values.yaml does not
// declare.
type Extender interface {
	Source
	// Undeclared lists the fields to add to the map at a path.
	Undeclared(path Path) []*Field
}

// Resolve types every value below root: of the sources, in order of their
// authority, the first that knows a value decides. It fails when none does.
func Resolve(root *Value, sources ...Source) (*Field, error) {
	f := &Field{Path: root.Path, Doc: root.Doc, Value: root}
	if len(root.Path) > 0 {
		f.Key = root.Path[len(root.Path)-1]
	}
	for _, source := range sources {
		t, ok := source.Type(root)
		if !ok {
			continue
		}
		f.Type, f.Source = t, source.Name()
		if t.Kind != TypeStruct {
			return f, nil
		}
		return f, resolveFields(f, sources)
	}
	names := make([]string, len(sources))
	for i, source := range sources {
		names[i] = source.Name()
	}
	return nil, fmt.Errorf("no type is known for the value %s (asked: %s)", root.Path, strings.Join(names, ", "))
}

// resolveFields puts the declared fields of a struct before those that only
// evidence knows.
func resolveFields(f *Field, sources []Source) error {
	var fields []*Field
	for _, child := range f.Value.Children {
		field, err := Resolve(child, sources...)
		if err != nil {
			return err
		}
		fields = append(fields, field)
	}
	more := f.Type.Fields
	for _, source := range sources {
		if extender, ok := source.(Extender); ok {
			more = append(more, extender.Undeclared(f.Path)...)
		}
	}
	f.Type.Fields = fields
	for _, field := range more {
		if f.Field(field.Key) == nil {
			f.Type.Fields = append(f.Type.Fields, field)
		}
	}
	return nil
}
