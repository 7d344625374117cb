package cli

import (
	"github.com/spf13/cobra"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/crd"
)

func openAPICommand() *cobra.Command {
	o := &options{}
	var api string
	cmd := &cobra.Command{
		Use:   "openapi",
		Short: "Write the structure of a Go package's kinds for applyconfiguration-gen",
		Long: `Write an OpenAPI v2 document with the structure of the kinds in a Go package. Given to applyconfiguration-gen as
--openapi-schema, it lets the generated fake clientset play server-side apply.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			document, err := crd.OpenAPI(cmd.Context(), api)
			if err != nil {
				return err
			}
			return o.writer(cmd, ".").Write("openapi.json", document)
		},
	}
	cmd.Flags().StringVar(&api, "api", "", "folder of the Go package with the kinds, for example pkg/apis/liberty/v1alpha1")
	if err := cmd.MarkFlagRequired("api"); err != nil {
		panic(err) // the flag is defined above
	}
	o.addOutputFlags(cmd, ".")
	return cmd
}
