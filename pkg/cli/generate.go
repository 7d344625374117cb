package cli

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen"
	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/chartref"
	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/output"
)

// options are the flags that the generate commands share.
type options struct {
	chart       chartref.Ref
	gvk         schema.GroupVersionKind
	typesFile   string
	operatorKey string
	headerFile  string
	out         string
	check       bool
}

func generateCommand() *cobra.Command {
	generate := &cobra.Command{
		Use:   "generate",
		Short: "Write the types, CRDs, roles and sample that follow from a chart",
	}
	generate.AddCommand(typesCommand(), crdsCommand(), openAPICommand(), rbacCommand(), sampleCommand())
	return generate
}

// addOutputFlags adds the flags that say where files go.
func (o *options) addOutputFlags(cmd *cobra.Command, defaultOut string) {
	flags := cmd.Flags()
	flags.StringVarP(&o.out, "out", "o", "", "folder to write to, or - for the standard output (default "+defaultOut+")")
	flags.BoolVar(&o.check, "check", false, "write nothing, fail when what is there differs")
	flags.StringVar(&o.headerFile, "header", "", "file with the text, in comments, that each generated file starts with")
}

// addChartFlags adds the flags that name the chart and the kind made of it.
func (o *options) addChartFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.chart.Location, "chart", "", "chart: folder, .tgz, URL of a chart repository, or oci://registry/repository/chart")
	flags.StringVar(&o.chart.Name, "chart-name", "", "name of the chart in its repository, when that holds several")
	flags.StringVar(&o.chart.Version, "chart-version", "", "version of the chart in its repository or registry (default the newest)")
	flags.BoolVar(&o.chart.PlainHTTP, "plain-http", false, "talk to the registry of an oci:// chart without TLS")
	flags.StringVar(&o.gvk.Group, "group", "", "API group of the kind, for example liberty.ibm.com")
	flags.StringVar(&o.gvk.Version, "version", "v1alpha1", "API version of the kind")
	flags.StringVar(&o.gvk.Kind, "kind", "", "kind of the resource, for example LibertyApp")
	flags.StringVar(&o.typesFile, "types", "", "override file with what values.yaml cannot tell about types (default types.yaml in the kind's Go package, if it is there)")
	flags.StringVar(&o.operatorKey, "operator-key", "operator", "key of the spec that holds the operator's own settings; empty for none")
	for _, name := range []string{"chart", "group", "kind"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
}

// packageDir is the conventional folder of the kind's Go package.
func (o *options) packageDir() string {
	group, _, _ := strings.Cut(o.gvk.Group, ".")
	return path.Join("pkg/apis", group, o.gvk.Version)
}

// load loads the chart and types its values.
func (o *options) load() (_ *typegen.API, err error) {
	file := o.typesFile
	if file == "" {
		file = path.Join(o.packageDir(), "types.yaml")
	}
	overrides, err := os.ReadFile(file)
	if err != nil && (o.typesFile != "" || !os.IsNotExist(err)) {
		return nil, fmt.Errorf("reading the type overrides: %w", err)
	}
	local, err := chartref.Fetch(o.chart)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	return typegen.Load(local.Path, overrides)
}

// header reads the text that generated files start with.
func (o *options) header() (string, error) {
	if o.headerFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(o.headerFile)
	if err != nil {
		return "", fmt.Errorf("reading the header of generated files: %w", err)
	}
	return string(text), nil
}

// writer is where the files of a command go.
func (o *options) writer(cmd *cobra.Command, defaultOut string) output.Writer {
	dir := o.out
	if dir == "" {
		dir = defaultOut
	}
	switch {
	case o.check:
		return output.Check(dir)
	case dir == "-":
		return output.Stream{To: cmd.OutOrStdout()}
	default:
		return output.Dir(dir)
	}
}
