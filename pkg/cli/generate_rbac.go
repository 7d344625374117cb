package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/jkwong888/go-helm-operator/pkg/internal/typegen/rbac"
)

func rbacCommand() *cobra.Command {
	o := &options{}
	var name, plural string
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Write the operator's Role and ClusterRole",
		Long: `Write the roles of the operator: what it needs for itself, and the verbs it uses on exactly the kinds that the chart can
create. The chart is rendered with many combinations of its values, and its templates are read, to find these kinds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := o.load()
			if err != nil {
				return err
			}
			if plural == "" {
				guess, _ := meta.UnsafeGuessKindToResource(o.gvk)
				plural = guess.Resource
			}
			roles, err := rbac.Generate(cmd.Context(), api, rbac.Options{Name: name, Kind: o.gvk, Resource: plural})
			if err != nil {
				return err
			}
			if len(roles.Guessed) > 0 {
				cmd.PrintErrf("rbac: the resource names of these kinds are guessed from the kind, check them: %s\n",
					strings.Join(roles.Guessed, ", "))
			}
			if len(roles.Unreachable) > 0 {
				cmd.PrintErrf("rbac: these kinds are cluster-scoped, so only the ClusterRole allows them: %s\n",
					strings.Join(roles.Unreachable, ", "))
			}
			writer := o.writer(cmd, "deploy")
			return errors.Join(
				writer.Write("role.yaml", roles.Role),
				writer.Write("cluster/cluster_role.yaml", roles.ClusterRole),
			)
		},
	}
	o.addChartFlags(cmd)
	o.addOutputFlags(cmd, "deploy")
	cmd.Flags().StringVar(&name, "name", "go-helm-operator", "name of the Role and the ClusterRole")
	cmd.Flags().StringVar(&plural, "plural", "", "name of the kind in URLs (default its English plural in lower case)")
	return cmd
}
