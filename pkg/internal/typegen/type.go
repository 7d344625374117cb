package typegen

// TypeKind says what a [Type] is.
type TypeKind string

// The kinds of types. Each but Struct and Go is complete by itself or with its
// element.
const (
	TypeBool        TypeKind = "bool"
	TypeInt32       TypeKind = "int32"
	TypeInt64       TypeKind = "int64"
	TypeFloat       TypeKind = "float64"
	TypeString      TypeKind = "string"
	TypeIntOrString TypeKind = "intOrString"
	TypeQuantity    TypeKind = "quantity"
	// TypeJSON is free-form: any JSON, kept as it is.
	TypeJSON TypeKind = "json"
	// TypeGo is a type of the Kubernetes API, named by [Type.Go].
	TypeGo TypeKind = "go"
	// TypeStruct has named fields of its own.
	TypeStruct TypeKind = "struct"
	TypeList   TypeKind = "list"
	// TypeMap has string keys.
	TypeMap TypeKind = "map"
)

// GoType names a type of another Go package.
type GoType struct {
	// Alias under which the package is imported, for example corev1.
	Alias string
	// Name of the type.
	Name string
}

// Type of a value: what the Go types and the CRD say about it.
type Type struct {
	Kind TypeKind
	// Go names the type when Kind is TypeGo.
	Go GoType
	// Elem is the type of the elements of a list or map.
	Elem *Type
	// Fields of a struct that evidence knows besides those that values.yaml
	// declares, in order.
	Fields []*Field
	// Rules in CEL that stand on a struct.
	Rules []Rule
	// Constraints on the value.
	Constraints
}

// Constraints narrow a type further; the zero value allows everything.
type Constraints struct {
	// Enum lists the only strings allowed.
	Enum []string `json:"enum,omitempty"`
	// Minimum and Maximum bound a number, and the number in an IntOrString.
	Minimum *int64 `json:"minimum,omitempty"`
	Maximum *int64 `json:"maximum,omitempty"`
	// Pattern is a regular expression (RE2) that a string must match.
	Pattern string `json:"pattern,omitempty"`
	// MaxLength bounds a string, in characters.
	MaxLength *int64 `json:"maxLength,omitempty"`
	// MaxItems bounds a list.
	MaxItems *int64 `json:"maxItems,omitempty"`
	// MaxProperties bounds a map.
	MaxProperties *int64 `json:"maxProperties,omitempty"`
	// Nullable lets null through; it reads as unset.
	Nullable bool `json:"nullable,omitempty"`
}

// Field is one typed value.
type Field struct {
	// Key in the values, and so the JSON name.
	Key string
	// Path from the root of the values.
	Path Path
	// Doc for people, "" when the chart has none.
	Doc string
	// Value that the chart declares; nil when only evidence knows the field.
	Value *Value
	// Type that won.
	Type Type
	// Source is the name of the source that gave the type.
	Source string
}

// Field finds a field of a struct by its key, nil when there is none.
func (f *Field) Field(key string) *Field {
	for _, field := range f.Type.Fields {
		if field.Key == key {
			return field
		}
	}
	return nil
}

// Find follows a path down from f, nil when it leads nowhere.
func (f *Field) Find(path Path) *Field {
	for _, key := range path {
		if f = f.Field(key); f == nil {
			return nil
		}
	}
	return f
}

// Walk calls visit for f and every field below it, parents first.
func (f *Field) Walk(visit func(*Field)) {
	visit(f)
	for _, field := range f.Type.Fields {
		field.Walk(visit)
	}
}
