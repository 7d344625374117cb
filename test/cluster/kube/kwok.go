package main

import (
	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// runKwok plays the nodes: it follows the stages in the files that --config names.
func runKwok() int {
	// kwok reads its configuration before its command is built, from flags that the command has to know as well.
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true
	global.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), global)
	ctx, err := config.InitFlags(ctx, global)
	if err != nil {
		return fail("kwok", err)
	}
	command := kwok.NewCommand(ctx)
	// A version would make cobra add --version, which Kubernetes' packages have already put into the global flags.
	command.Version = ""
	command.PersistentFlags().AddFlagSet(global)
	if err := command.ExecuteContext(ctx); err != nil {
		return fail("kwok", err)
	}
	return 0
}
