package cluster

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// reporter tells a person what a long operation waits for. On a terminal it keeps one line up to date with the seconds
// that went by; elsewhere, in a log, it writes one line when the operation starts and one when it ends.
type reporter struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	what     string // the operation under way; empty before and after
	doing    string // its present step
	start    time.Time
	stop     chan struct{}
}

func newReporter(out io.Writer) *reporter {
	if out == nil {
		out = io.Discard
	}
	return &reporter{out: out, terminal: isTerminal(out)}
}

// isTerminal takes every character device for a terminal, /dev/null included, where it does not matter.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("CI") == ""
}

// begin names the operation. Naming the one under way again does nothing.
func (r *reporter) begin(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.what == what {
		return
	}
	r.finish()
	r.what, r.doing, r.start = what, "", time.Now()
	_, _ = fmt.Fprintln(r.out, what) // nobody is helped by an operation that fails because it cannot report
	if r.terminal {
		r.stop = make(chan struct{})
		go r.refresh(r.stop)
	}
}

// step says what the operation does now.
func (r *reporter) step(doing string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doing = doing
}

// end says how the operation ended, with the seconds it took.
func (r *reporter) end(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	start := r.start
	if r.what == "" {
		return
	}
	r.finish()
	_, _ = fmt.Fprintf(r.out, "%s (%.0f s)\n", how, time.Since(start).Seconds())
}

// finish forgets the operation; r.mu is held.
func (r *reporter) finish() {
	if r.stop != nil {
		close(r.stop)
		r.stop = nil
		_, _ = fmt.Fprint(r.out, clearLine)
	}
	r.what = ""
}

// clearLine is ANSI's: to the start of the line and erase it.
const clearLine = "\r\x1b[K"

func (r *reporter) refresh(stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		r.mu.Lock()
		if r.stop == stop {
			doing := r.doing
			if const80 := 80; len(doing) > const80 {
				doing = doing[:const80] + "…"
			}
			_, _ = fmt.Fprintf(r.out, "%s  %4.0f s  %s", clearLine, time.Since(r.start).Seconds(), doing)
		}
		r.mu.Unlock()
	}
}
