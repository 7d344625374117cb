// Package cli is the command line of go-helm-operator.
package cli

import "github.com/spf13/cobra"

// Command makes the root command with all its subcommands.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:           "go-helm-operator",
		Short:         "Make a typed Kubernetes API out of a Helm chart",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(generateCommand())
	return root
}
