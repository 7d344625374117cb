package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/jkwong888/go-helm-operator/test/cluster"
	"github.com/jkwong888/go-helm-operator/test/cluster/process"
	"github.com/jkwong888/go-helm-operator/test/registry"
)

// Where things are; the working directory is the repository's root.
const (
	outputDir = "build/_output/demo"
	binary    = outputDir + "/manager"
	namespace = "demo"
	// patience bounds each wait for the cluster.
	patience = time.Minute
)

// world is what the acts share: the parts that run, and what was seen.
type world struct {
	narrator *narrator
	cluster  *cluster.Cluster
	registry *registry.Registry
	operator *process.Process
	client   *kubernetes.Clientset
	first    string // digest of version 1
}

func (w *world) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.cluster.Dir, "bin", "kubectl"), append([]string{"--namespace=" + namespace}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(failure.String()))
	}
	return out.String(), nil
}

// until asks again until check holds or patience ends; then the last reason why
// it did not is the error.
func until(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		last := check(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-tick.C:
		}
	}
}

// explain shows what helps to find out why an act failed.
func (w *world) explain() {
	if w.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if out, err := w.kubectl(ctx, "", "get", "libertyapps,events", "-o", "wide"); err == nil {
			w.narrator.say("%s", out)
		}
	}
	if log, err := os.ReadFile(filepath.Join(outputDir, "operator.log")); err == nil {
		w.narrator.say("the operator's log:\n%s", log)
	}
}

// invite waits for Ctrl-C while the user looks around.
func (w *world) invite(ctx context.Context) {
	w.narrator.say("\nEverything is still up. In another terminal:\n")
	w.narrator.say("  export KUBECONFIG=%s", w.cluster.Kubeconfig)
	w.narrator.say("  %s/bin/kubectl apply -n %s -f %s/plants.yaml", w.cluster.Dir, namespace, outputDir)
	w.narrator.say("  %s/bin/kubectl get libertyapps -n %s --watch", w.cluster.Dir, namespace)
	w.narrator.say("  %s/bin/kubectl explain libertyapp.spec.image", w.cluster.Dir)
	w.narrator.say("\nCtrl-C ends it and removes what it made.")
	<-ctx.Done()
}

// close stops what runs, last started first.
func (w *world) close() error {
	var errs []error
	if w.operator != nil {
		errs = append(errs, w.operator.Stop(30*time.Second))
	}
	if w.registry != nil {
		errs = append(errs, w.registry.Close())
	}
	if w.cluster != nil {
		errs = append(errs, w.cluster.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(outputDir))...)
}
