// Command cmd runs the local control plane for a person: up, down, status, and build, which only builds the binary.
//
//	go run ./test/cluster/cmd up --crds deploy/crds
//	export KUBECONFIG=build/_output/cluster/kubeconfig
//	go run ./test/cluster/cmd down
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/jkwong888/go-helm-operator/test/cluster"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// defaultDir is where the cluster lives unless told otherwise, from the root of the repository.
const defaultDir = "build/_output/cluster"

// defaultCRDs names the repository's own definitions where they are.
func defaultCRDs() []string {
	const folder = "deploy/crds"
	if _, err := os.Stat(folder); err != nil {
		return nil
	}
	return []string{folder}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "A real Kubernetes control plane on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dir := root.PersistentFlags().String("dir", defaultDir, "folder of the cluster: its kubeconfig, logs and data")
	options := cluster.Options{Detached: true}
	start := &cobra.Command{
		Use:   "up",
		Short: "Start the control plane, unless it runs already, and say how to use it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Dir, options.Progress = *dir, cmd.ErrOrStderr()
			return up(cmd.Context(), options, cmd.OutOrStdout())
		},
	}
	start.Flags().StringSliceVar(&options.CRDs, "crds", defaultCRDs(), "files or folders of CustomResourceDefinitions to install first")
	start.Flags().BoolVar(&options.AuditLog, "audit-log", false, "write every request to logs/audit.log")
	root.AddCommand(start,
		&cobra.Command{
			Use:   "down",
			Short: "Stop the control plane and remove what it wrote",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return down(cmd.Context(), *dir, cmd.OutOrStdout()) },
		},
		&cobra.Command{
			Use:   "status",
			Short: "Say whether the control plane runs; fails when it does not",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return status(cmd.Context(), *dir, cmd.OutOrStdout()) },
		},
		&cobra.Command{
			Use:   "build",
			Short: "Build the control plane's binary, unless it is there already, and print its path",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				path, err := cluster.Binary(cmd.Context(), cmd.ErrOrStderr())
				if err == nil {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
				}
				return err
			},
		})
	return root
}

// up starts a cluster. One that runs is left alone; what is left of one that does not is removed first.
func up(ctx context.Context, options cluster.Options, out io.Writer) error {
	unlock, err := cluster.Lock(ctx, options.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := cluster.Open(options.Dir)
	switch {
	case err == nil && c.Ready(ctx) == nil:
		if err := c.InstallCRDs(ctx, options.CRDs); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "The control plane in %s is up already.\n%s", show(c.Dir), usage(c))
		return err
	case err == nil:
		if err := c.Stop(); err != nil {
			return err
		}
	case !errors.Is(err, cluster.ErrNoCluster):
		return err
	}
	if _, err := cluster.Binary(ctx, options.Progress); err != nil { // now, to time the start without it
		return err
	}
	begin := time.Now()
	if c, err = cluster.Start(ctx, options); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Kubernetes %s is up in %s, after %.1f s.\n%s", cluster.Version, show(c.Dir), time.Since(begin).Seconds(), usage(c))
	return err
}

func usage(c *cluster.Cluster) string {
	return fmt.Sprintf(`
  export KUBECONFIG=%s
  %s get nodes

It has one node, whose Pods are simulated: nothing runs in them. Logs are in %s.
`, c.Kubeconfig, show(filepath.Join(c.Dir, "bin", "kubectl")), show(c.Logs))
}

// show shortens a path that lies under the working directory.
func show(path string) string {
	if wd, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(short, "..") {
			return short
		}
	}
	return path
}

func down(ctx context.Context, dir string, out io.Writer) error {
	unlock, err := cluster.Lock(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := cluster.Open(dir)
	if errors.Is(err, cluster.ErrNoCluster) {
		_, err := fmt.Fprintf(out, "There is no control plane in %s.\n", show(dir))
		return err
	}
	if err != nil {
		return err
	}
	if err := c.Stop(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The control plane in %s is gone.\n", show(dir))
	return err
}

func status(ctx context.Context, dir string, out io.Writer) error {
	c, err := cluster.Open(dir)
	if err != nil {
		return err
	}
	components := c.Components()
	var lines []string
	for name, running := range components {
		state := "runs"
		if !running {
			state = "does not run"
		}
		lines = append(lines, fmt.Sprintf("  %-24s %s\n", name, state))
	}
	slices.Sort(lines)
	if _, err := fmt.Fprint(out, strings.Join(lines, "")); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprint(out, usage(c))
	return err
}
