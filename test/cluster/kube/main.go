// Command kube is a whole Kubernetes control plane, a node simulator and an image registry in one binary.
//
// It is called by the name of one of its applets, either as argv[0] (through a link, as envtest does) or as the
// first argument: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok, registry.
// One binary, because the applets share nearly all of their code: apart they would take five times the disk and linker time.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "time/tzdata" // time zones of CronJobs, on machines without a zone database

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credential plugins named in kubeconfigs
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics on /metrics
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// applets maps a name to what it runs. os.Args[0] is the applet's name by then and the rest are its own arguments.
var applets = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 runKubectl,
	"kwok":                    runKwok,
	"registry":                runRegistry,
}

func main() {
	run, args, err := choose(os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Args = args
	os.Exit(run())
}

// choose finds the applet that a command line names and returns it with the command line as the applet shall see it.
func choose(args []string) (func() int, []string, error) {
	name := filepath.Base(args[0])
	if run, ok := applets[name]; ok {
		return run, append([]string{name}, args[1:]...), nil
	}
	if len(args) > 1 {
		if run, ok := applets[args[1]]; ok {
			return run, args[1:], nil
		}
	}
	known := slices.Sorted(maps.Keys(applets))
	return nil, nil, fmt.Errorf("%s: name one of %s, as the first argument or by a link of that name", name, strings.Join(known, ", "))
}

func runEtcd() int {
	// etcd ends the process itself when it fails.
	etcdmain.Main(os.Args)
	return 0
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints as kubectl does and exits
	}
	return 0
}

// fail reports an applet's own failure the way every applet does: one line on stderr, status 1.
func fail(applet string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", applet, err)
	return 1
}
