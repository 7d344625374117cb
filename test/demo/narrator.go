package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// narrator tells what happens and how long it took. On a terminal it counts the
// seconds of the act under way; elsewhere each act is one line.
type narrator struct {
	out      *os.File
	terminal bool
	acts     int
}

func newNarrator(out *os.File) *narrator {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("CI") == ""
	return &narrator{out: out, terminal: terminal}
}

// play runs one act. What it returns is shown below its title.
func (n *narrator) play(ctx context.Context, title string, act func(context.Context) (string, error)) error {
	n.acts++
	heading := fmt.Sprintf("%2d. %s", n.acts, title)
	began := time.Now()
	stop := n.count(heading, began)
	seen, err := act(ctx)
	stop()
	how := "done"
	if err != nil {
		how = "FAILED"
	}
	n.say("%s: %s in %.1f s", heading, how, time.Since(began).Seconds())
	for line := range strings.Lines(seen) {
		n.say("      %s", strings.TrimRight(line, "\n"))
	}
	return err
}

// count shows the seconds until stop is called.
func (n *narrator) count(heading string, began time.Time) (stop func()) {
	if !n.terminal {
		return func() {}
	}
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				n.write("\r\x1b[K") // ANSI: to the start of the line, erase it
				return
			case <-tick.C:
				n.write(fmt.Sprintf("\r\x1b[K%s … %.0f s", heading, time.Since(began).Seconds()))
			}
		}
	})
	return func() { close(done); ended.Wait() }
}

func (n *narrator) say(format string, args ...any) {
	n.write(fmt.Sprintf(format, args...) + "\n")
}

// write cannot fail in a way that anybody could be told of.
func (n *narrator) write(s string) { _, _ = io.WriteString(n.out, s) }
