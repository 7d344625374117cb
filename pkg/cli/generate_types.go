package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/golang"
)

// operatorPackage holds OperatorSpec, which every kind shares.
const operatorPackage = "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"

func typesCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "types",
		Short: "Write the Go types of the spec",
		Long: `Write the Go types of the spec: one field for each value of the chart, under the value's own key, with the comment above it
in values.yaml as documentation. The types follow from the defaults and from an override file, which says what defaults cannot.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := o.load()
			if err != nil {
				return err
			}
			header, err := o.header()
			if err != nil {
				return err
			}
			source, err := golang.Types(api.Spec, golang.Options{
				Package:         o.gvk.Version,
				Kind:            o.gvk.Kind,
				Chart:           api.Chart.Name(),
				ChartVersion:    api.Chart.Version(),
				Header:          header,
				OperatorKey:     o.operatorKey,
				OperatorPackage: operatorPackage,
			})
			if err != nil {
				return err
			}
			name := "zz_generated." + strings.ToLower(o.gvk.Kind) + "spec.go"
			return o.writer(cmd, o.packageDir()).Write(name, source)
		},
	}
	o.addChartFlags(cmd)
	o.addOutputFlags(cmd, "pkg/apis/<first part of the group>/<version>")
	return cmd
}
