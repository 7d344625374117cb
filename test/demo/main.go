// Command demo shows the whole story on a control plane and a registry of its
// own: a LibertyApp is applied and becomes ready, heals, follows its image in
// the registry, and goes without leaving anything behind.
//
//	go run ./test/demo             # stays up afterwards, to look around; Ctrl-C ends it
//	DEMO=exit go run ./test/demo   # ends by itself; status 0 only if every step held
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := show(ctx, os.Getenv("DEMO") != "exit"); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		cancel()
		os.Exit(1)
	}
}

// show plays the story and takes the stage down again.
func show(ctx context.Context, stay bool) (err error) {
	w := &world{narrator: newNarrator(os.Stdout)}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, act := range story {
		if err := w.narrator.play(ctx, act.title, func(ctx context.Context) (string, error) { return act.play(ctx, w) }); err != nil {
			w.explain()
			return fmt.Errorf("%s: %w", act.title, err)
		}
	}
	if stay {
		w.invite(ctx)
	}
	return nil
}

// story is the demo, act by act. Each says what it shows, and returns what was
// seen.
var story = []struct {
	title string
	play  func(context.Context, *world) (string, error)
}{
	{"Build the operator", buildOperator},
	{"Start a Kubernetes control plane", startCluster},
	{"Start a registry that asks for a password", startRegistry},
	{"Push the app's image, version 1, as plants:latest", pushFirst},
	{"Deploy the CRD and the operator's rights", deploy},
	{"Run the operator under its own ServiceAccount", runOperator},
	{"Ask for a typo: the API server refuses it", typo},
	{"Apply the LibertyApp; its pull secret is still missing", applyApp},
	{"Create the pull secret: the install goes on", createSecret},
	{"Delete its Service by hand: it comes back", heal},
	{"Push version 2 under the same tag: the app rolls out to its digest", rollOut},
	{"Delete the LibertyApp: nothing is left", removeApp},
}
