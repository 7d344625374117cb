package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/sample"
)

func sampleCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "sample",
		Short: "Write a sample resource",
		Long: `Write a sample resource with the values that the override file names for it or, when it names none, with every scalar value
of the chart, each below its documentation.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := o.load()
			if err != nil {
				return err
			}
			text, err := sample.Generate(api, sample.Options{Kind: o.gvk, OperatorKey: o.operatorKey})
			if err != nil {
				return err
			}
			group, _, _ := strings.Cut(o.gvk.Group, ".")
			name := fmt.Sprintf("%s_%s_%s.yaml", group, o.gvk.Version, strings.ToLower(o.gvk.Kind))
			return o.writer(cmd, "deploy/samples").Write(name, text)
		},
	}
	o.addChartFlags(cmd)
	o.addOutputFlags(cmd, "deploy/samples")
	return cmd
}
