package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/crd"
)

func crdsCommand() *cobra.Command {
	o := &options{}
	var definition crd.Options
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Write the CustomResourceDefinitions of a Go package",
		Long: `Write the CustomResourceDefinition of each kind in a Go package, from its types and markers. Descriptions within the types of
Kubernetes are shortened or left out, so that kubectl apply can keep the definition in an annotation.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			header, err := o.header()
			if err != nil {
				return err
			}
			definition.Header = header
			files, err := crd.Generate(cmd.Context(), definition)
			if err != nil {
				return err
			}
			writer := o.writer(cmd, "deploy/crds")
			var problems []error
			for _, file := range files {
				problems = append(problems, writer.Write(file.Name, file.YAML))
			}
			return errors.Join(problems...)
		},
	}
	cmd.Flags().StringVar(&definition.Dir, "api", "", "folder of the Go package with the kinds, for example pkg/apis/liberty/v1alpha1")
	cmd.Flags().Int64Var(&definition.MaxNameLength, "max-name-length", 53, "longest metadata.name in characters; Helm allows release names 53")
	cmd.Flags().IntVar(&definition.MaxBytes, "max-bytes", 240_000, "largest definition in bytes of compact JSON")
	if err := cmd.MarkFlagRequired("api"); err != nil {
		panic(err) // the flag is defined above
	}
	o.addOutputFlags(cmd, "deploy/crds")
	return cmd
}
