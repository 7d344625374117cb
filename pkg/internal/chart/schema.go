package chart

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
)

// maxViolations is how many violations of a schema an error lists.
const maxViolations = 10

const schemaURL = "file:///values.schema.json"

// anything stands for a schema elsewhere. The operator fetches nothing that a
// chart points to, so references out of the file allow everything.
type anything struct{}

func (anything) Load(string) (any, error) { return true, nil }

func compileSchema(text []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(anything{})
	if err := compiler.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(schemaURL)
}

// validate checks the values of a chart and its enabled subcharts against their
// schemas. The error names the paths and what is wanted there, never a value.
func (c *Chart) validate(hc *helmchart.Chart, values map[string]any) error {
	var violations []string
	c.violations(hc, values, nil, &violations)
	if len(violations) == 0 {
		return nil
	}
	more := ""
	if n := len(violations) - maxViolations; n > 0 {
		violations, more = violations[:maxViolations], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("%w: %s%s", ErrInvalidValues, strings.Join(violations, "; "), more)
}

func (c *Chart) violations(hc *helmchart.Chart, values map[string]any, path []string, out *[]string) {
	if schema := c.schemas[string(hc.Schema)]; schema != nil {
		if err := schema.Validate(values); err != nil {
			describe(err, path, out)
		}
	}
	for _, sub := range hc.Dependencies() {
		if table, ok := values[sub.Name()].(map[string]any); ok {
			c.violations(sub, table, slices.Concat(path, []string{sub.Name()}), out)
		}
	}
}

// describe adds the innermost causes of a validation error.
func describe(err error, path []string, out *[]string) {
	violation, ok := err.(*jsonschema.ValidationError) //nolint:errorlint // Validate documents this very type; causes are the same
	if !ok {
		*out = append(*out, "the values cannot be checked against the schema")
		return
	}
	for _, cause := range violation.Causes {
		describe(cause, path, out)
	}
	if len(violation.Causes) > 0 {
		return
	}
	at := strings.Join(slices.Concat(path, violation.InstanceLocation), ".")
	if at == "" {
		at = "the values"
	}
	*out = append(*out, at+": "+requirement(violation.ErrorKind))
}

// requirement says what a schema wants. Only kinds whose text is known to hold
// no value speak for themselves.
func requirement(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type, *kind.Enum, *kind.Const, *kind.Required, *kind.AdditionalProperties,
		*kind.Dependency, *kind.DependentRequired, *kind.PropertyNames, *kind.UniqueItems,
		*kind.MinItems, *kind.MaxItems, *kind.MinProperties, *kind.MaxProperties,
		*kind.MinLength, *kind.MaxLength:
		return k.LocalizedString(message.NewPrinter(language.English))
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.Format:
		return "must be a valid " + k.Want
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.FalseSchema:
		return "is not allowed"
	}
	if words := k.KeywordPath(); len(words) > 0 {
		return "does not meet the schema's " + strings.Join(words, " ")
	}
	return "does not meet the schema"
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
