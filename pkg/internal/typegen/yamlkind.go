package typegen

// YAMLKind is the weakest source: it types a value by its default alone and
// keeps free-form whatever a default does not tell, which is null, {} and a
// list that is empty or holds anything but scalars of one kind.
type YAMLKind struct{}

// Name implements [Source].
func (YAMLKind) Name() string { return "YAML kind" }

// Type implements [Source]; it knows every value.
func (YAMLKind) Type(v *Value) (Type, bool) {
	switch v.Kind {
	case Map:
		// An empty map at the root is a chart without values, not an unknown one.
		if len(v.Children) > 0 || len(v.Path) == 0 {
			return Type{Kind: TypeStruct}, true
		}
	case List:
		elem := elementType(v.Default.([]any))
		return Type{Kind: TypeList, Elem: &elem}, true
	}
	return scalarType(v.Kind), true
}

func scalarType(kind Kind) Type {
	switch kind {
	case Bool:
		return Type{Kind: TypeBool}
	case Int:
		return Type{Kind: TypeInt64}
	case Float:
		return Type{Kind: TypeFloat}
	case String:
		return Type{Kind: TypeString}
	default:
		return Type{Kind: TypeJSON}
	}
}

// elementType is the type of all elements if they are scalars of one kind.
func elementType(elements []any) Type {
	if len(elements) == 0 {
		return Type{Kind: TypeJSON}
	}
	kind := kindOf(elements[0])
	for _, element := range elements[1:] {
		if kindOf(element) != kind {
			return Type{Kind: TypeJSON}
		}
	}
	return scalarType(kind)
}
