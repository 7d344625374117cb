// Package crd writes the CustomResourceDefinition of the kinds in a Go package.
package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"
)

// Options of the definitions.
type Options struct {
	// Dir is the folder of the Go package with the kinds.
	Dir string
	// MaxNameLength bounds metadata.name; Helm allows release names 53
	// characters.
	MaxNameLength int64
	// MaxBytes bounds a definition as compact JSON. As much of the descriptions
	// within the types of Kubernetes is kept as fits: all, their first sentences,
	// or nothing.
	MaxBytes int
	// Header stands at the top of each file, as YAML comments.
	Header string
}

// File is a generated definition.
type File struct {
	// Name of the file, as controller-gen names it: <group>_<plural>.yaml.
	Name string
	// YAML of the definition.
	YAML []byte
	// Compact is the length in bytes of the definition as compact JSON, which is
	// what client-side apply puts into an annotation of at most 262144 bytes.
	Compact int
}

// namePattern is what a name must look like so that objects named after it are
// valid, Services among them (RFC 1035 label).
const namePattern = `^[a-z]([-a-z0-9]*[a-z0-9])?$`

// Generate makes the definition of each kind in a Go package, from its types
// and their markers. It needs the go command and the package's module.
func Generate(ctx context.Context, o Options) ([]File, error) {
	l, err := load(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, kind := range l.kinds {
		file, err := l.fit(kind, o)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// fit writes the definition of a kind with as many descriptions as the limit
// allows.
func (l *loaded) fit(kind schema.GroupKind, o Options) (File, error) {
	var file File
	for _, shorten := range []func(string) string{nil, firstSentence, nothing} {
		definition, err := l.define(kind, shorten)
		if err != nil {
			return File{}, err
		}
		restrictName(definition, o.MaxNameLength)
		if file, err = write(definition, o.Header); err != nil {
			return File{}, err
		}
		if file.Compact <= o.MaxBytes {
			return file, nil
		}
	}
	return File{}, fmt.Errorf("the definition of %s has %d bytes as compact JSON, even without the descriptions of Kubernetes' own "+
		"types; at most %d are allowed, because kubectl apply keeps it in an annotation, which ends at 262144", kind, file.Compact, o.MaxBytes)
}

// loaded is a Go package with kinds.
type loaded struct {
	root   *loader.Package
	parser *crd.Parser
	// kinds in a stable order.
	kinds []schema.GroupKind
}

func load(ctx context.Context, dir string) (*loaded, error) {
	roots, err := loader.LoadRootsWithConfig(&packages.Config{Context: ctx, Dir: dir}, ".")
	if err != nil {
		return nil, fmt.Errorf("loading the Go package in %s: %w", dir, err)
	}
	if len(roots) != 1 {
		return nil, fmt.Errorf("loading the Go package in %s: found %d packages, expected one", dir, len(roots))
	}
	root := roots[0]
	if err := packageErrors(root); err != nil {
		return nil, fmt.Errorf("loading the Go package in %s: %w", dir, err)
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return nil, fmt.Errorf("registering controller-gen's markers: %w", err)
	}
	parser := newParser(registry)
	parser.NeedPackage(root)
	metav1Package := crd.FindMetav1(roots)
	if metav1Package == nil {
		return nil, fmt.Errorf("the Go package in %s has no kinds: nothing in it embeds metav1.TypeMeta and metav1.ObjectMeta", dir)
	}
	return &loaded{root: root, parser: parser, kinds: kindsOf(parser, metav1Package, root)}, nil
}

func newParser(registry *markers.Registry) *crd.Parser {
	parser := &crd.Parser{
		Collector: &markers.Collector{Registry: registry},
		Checker:   &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
		// Charts have fractions among their values.
		AllowDangerousTypes: true,
	}
	crd.AddKnownTypes(parser)
	return parser
}

// kindsOf lists the kinds of the package in a stable order.
func kindsOf(parser *crd.Parser, metav1Package, root *loader.Package) []schema.GroupKind {
	kinds := slices.DeleteFunc(crd.FindKubeKinds(parser, metav1Package), func(kind schema.GroupKind) bool {
		return parser.LookupType(root, kind.Kind) == nil
	})
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return strings.Compare(a.Kind, b.Kind) })
	return kinds
}

// define makes one definition. The first pass collects the schema of every type
// that the kind reaches; then the descriptions in the types of Kubernetes, which
// are most of the size, are shortened, and the second pass puts the rest
// together.
func (l *loaded) define(kind schema.GroupKind, shorten func(string) string) (*apiextensionsv1.CustomResourceDefinition, error) {
	parser, root := l.parser, l.root
	parser.NeedFlattenedSchemaFor(crd.TypeIdent{Package: root, Name: kind.Kind})
	second := newParser(parser.Collector.Registry)
	second.Collector, second.Checker = parser.Collector, parser.Checker
	second.NeedPackage(root)
	for ident, props := range parser.Schemata {
		props = *props.DeepCopy()
		if shorten != nil && fromKubernetes(ident) {
			describe(&props, shorten)
		}
		second.Schemata[ident] = props
	}
	second.NeedCRDFor(kind, nil)
	if err := packageErrors(root); err != nil {
		return nil, fmt.Errorf("making the definition of %s: %w", kind, err)
	}
	definition := second.CustomResourceDefinitions[kind]
	crd.FixTopLevelMetadata(definition)
	return &definition, nil
}

// fromKubernetes tells the types of k8s.io from ours. TypeMeta keeps its
// descriptions: they stand at the top of every kubectl explain.
func fromKubernetes(ident crd.TypeIdent) bool {
	return strings.HasPrefix(loader.NonVendorPath(ident.Package.PkgPath), "k8s.io/") && ident.Name != "TypeMeta"
}

// describe changes every description in a schema.
func describe(props *apiextensionsv1.JSONSchemaProps, change func(string) string) {
	props.Description = change(props.Description)
	for name, property := range props.Properties {
		describe(&property, change)
		props.Properties[name] = property
	}
	for i := range props.AllOf {
		describe(&props.AllOf[i], change)
	}
	if props.Items != nil && props.Items.Schema != nil {
		describe(props.Items.Schema, change)
	}
	if props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil {
		describe(props.AdditionalProperties.Schema, change)
	}
}

func nothing(string) string { return "" }

// sentenceEnd is a full stop at the end of a line or before a capital, so that
// one after an abbreviation is none; or an empty line.
var sentenceEnd = regexp.MustCompile(`\.(\n|\s+\p{Lu}|$)|\n\n`)

func firstSentence(description string) string {
	if end := sentenceEnd.FindStringIndex(description); end != nil {
		description = description[:end[0]] + "."
	}
	return strings.ReplaceAll(strings.TrimSpace(description), "\n", " ")
}

// packageErrors joins what went wrong in a package and those it imports. Type
// errors are left to the compiler: the schema needs, and so loads, no more of a
// package than its types.
func packageErrors(root *loader.Package) error {
	var problems []error
	packages.Visit([]*packages.Package{root.Package}, nil, func(pkg *packages.Package) {
		for _, problem := range pkg.Errors {
			if problem.Kind != packages.TypeError {
				problems = append(problems, problem)
			}
		}
	})
	return errors.Join(problems...)
}

// restrictName bounds the name of the resource, which is also the name of its
// release and the beginning of its objects' names.
func restrictName(definition *apiextensionsv1.CustomResourceDefinition, maxLength int64) {
	for _, version := range definition.Spec.Versions {
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		version.Schema.OpenAPIV3Schema.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{
			Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"name": {Type: "string", MaxLength: &maxLength, Pattern: namePattern},
			},
		}
	}
}

func write(definition *apiextensionsv1.CustomResourceDefinition, header string) (File, error) {
	compact, err := json.Marshal(definition)
	if err != nil {
		return File{}, fmt.Errorf("encoding the definition %s: %w", definition.Name, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(compact, &fields); err != nil {
		return File{}, fmt.Errorf("encoding the definition %s: %w", definition.Name, err)
	}
	delete(fields, "status") // the API server's business
	if compact, err = json.Marshal(fields); err != nil {
		return File{}, fmt.Errorf("encoding the definition %s: %w", definition.Name, err)
	}
	text, err := yaml.Marshal(fields)
	if err != nil {
		return File{}, fmt.Errorf("encoding the definition %s: %w", definition.Name, err)
	}
	return File{
		Name:    fmt.Sprintf("%s_%s.yaml", definition.Spec.Group, definition.Spec.Names.Plural),
		YAML:    append([]byte(header+"---\n"), text...),
		Compact: len(compact),
	}, nil
}
