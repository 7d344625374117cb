// Package process runs the child processes of the local control plane and of the registry: they log to a file, end with
// their parent (or outlive it, when detached) and are only ever signalled by a pid that is known to be theirs.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	Name string   // shown in errors; also the argv[0] of the child
	Path string   // the executable
	Args []string // without argv[0]
	Env  []string // added to the environment of this process
	Log  string   // file that stderr is appended to, and stdout unless Stdout is set
	// Stdout, when set, is the file that stdout is appended to.
	Stdout string
	// Detached lets the child outlive this process, in a session of its own. Otherwise the kernel kills it when this
	// process ends in whatever way (Linux; elsewhere only Stop does).
	Detached bool
}

// Record identifies a running process across processes: a pid alone may have been reused since it was written down.
type Record struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Start is the start time of the process in a form that only this package compares.
	Start string `json:"start"`
}

// Process is a child that was started, or one that an earlier process started and that was found again by its Record.
type Process struct {
	spec   Spec
	record Record
	done   chan struct{} // closed when the process is gone; nil for one that was found again

	mu  sync.Mutex
	err error // how it ended; set before done is closed
}

// Start runs spec. The process is running when Start returns, but need not be ready for anything.
func Start(spec Spec) (*Process, error) {
	p := &Process{spec: spec, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	return p, nil
}

// run starts the child and waits for it on one thread: the kernel ties a parent-death signal to the thread that forked.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, files, err := p.command()
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range files {
		_ = f.Close() // the child has its own copy
	}
	if err != nil {
		started <- err
		return
	}
	p.record = Record{Name: p.spec.Name, PID: cmd.Process.Pid}
	p.record.Start, _ = startTime(cmd.Process.Pid) // empty if it is gone already, which Done tells
	started <- nil
	err = cmd.Wait()
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	close(p.done)
}

func (p *Process) command() (*exec.Cmd, []*os.File, error) {
	// Not CommandContext: the child's life is bound to Stop and to this process, not to the context of whoever started it.
	cmd := exec.Command(p.spec.Path, p.spec.Args...) //nolint:noctx // see above
	cmd.Args[0] = p.spec.Name
	cmd.Env = append(os.Environ(), p.spec.Env...)
	cmd.SysProcAttr = attributes(p.spec.Detached)
	log, err := appendTo(p.spec.Log)
	if err != nil {
		return nil, nil, err
	}
	files := []*os.File{log}
	cmd.Stdout, cmd.Stderr = log, log
	if p.spec.Stdout != "" {
		out, err := appendTo(p.spec.Stdout)
		if err != nil {
			return nil, files, err
		}
		cmd.Stdout, files = out, append(files, out)
	}
	return cmd, files, nil
}

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// Find returns the process that r names if it still runs, and false if it is gone (or its pid is another process's now).
func Find(r Record) (*Process, bool) {
	p := &Process{spec: Spec{Name: r.Name}, record: r}
	return p, p.Running()
}

// Record returns what identifies the process to Find.
func (p *Process) Record() Record { return p.record }

// Running reports whether the process is there; a stopped (paused) one is.
func (p *Process) Running() bool {
	if p.done != nil {
		select {
		case <-p.done:
			return false
		default:
			return true
		}
	}
	start, err := startTime(p.record.PID)
	return err == nil && start == p.record.Start
}

// Done is closed when the process has ended. It is nil, so never ready, for a process that came from Find.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends sig to the process.
func (p *Process) Signal(sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signalling %s: %v is not a signal of this system", p.spec.Name, sig)
	}
	if !p.Running() {
		return fmt.Errorf("signalling %s (pid %d): it is not running", p.spec.Name, p.record.PID)
	}
	if err := syscall.Kill(p.record.PID, number); err != nil {
		return fmt.Errorf("signalling %s (pid %d): %w", p.spec.Name, p.record.PID, err)
	}
	return nil
}

// poll is how often a process that is not a child, so cannot be waited for, is looked at.
const poll = 10 * time.Millisecond

// Stop asks the process to end, kills it when it has not after grace, and returns once it is gone.
// Zero grace kills at once. A process that is gone already is no error.
func (p *Process) Stop(grace time.Duration) error {
	if grace > 0 && p.Running() {
		// A paused process would not see the request to end. Errors of both: it ended meanwhile.
		_ = p.Signal(syscall.SIGTERM)
		_ = p.Signal(syscall.SIGCONT)
		if p.await(grace) {
			return nil
		}
	}
	if !p.Running() {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && p.Running() {
		return err
	}
	// The kernel frees a killed process's resources in no bounded time, but this long means that something is very wrong.
	const reaping = 10 * time.Second
	if !p.await(reaping) {
		return fmt.Errorf("stopping %s (pid %d): still there %s after it was killed", p.spec.Name, p.record.PID, reaping)
	}
	return nil
}

// await reports whether the process ended within d.
func (p *Process) await(d time.Duration) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for p.Running() {
		select {
		case <-p.done: // never, when p was found again
		case <-tick.C:
		case <-limit.C:
			return !p.Running()
		}
	}
	return true
}

// Until waits for ready to report true, which it asks again and again, and fails when ctx or the process ends first.
// The error carries the last thing ready complained about and the end of the process's log.
func (p *Process) Until(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return p.exited()
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %w)%s", p.spec.Name, ctx.Err(), err, p.tail())
		}
	}
}

// ExitError says that a process ended by itself.
type ExitError struct {
	Name string
	Log  string // the end of its log
	err  error
}

func (e *ExitError) Error() string { return fmt.Sprintf("%s ended: %v%s", e.Name, e.err, e.Log) }

func (e *ExitError) Unwrap() error { return e.err }

func (p *Process) exited() error {
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	if err == nil {
		err = errors.New("exit status 0")
	}
	return &ExitError{Name: p.spec.Name, Log: p.tail(), err: err}
}

// tail returns the end of the log, set off from the message it is added to.
func (p *Process) tail() string {
	const lines, width, bytes = 12, 400, 64 << 10
	f, err := os.Open(p.spec.Log)
	if err != nil {
		return ""
	}
	defer f.Close()
	size := int64(0)
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	buf := make([]byte, bytes)
	n, _ := f.ReadAt(buf, max(0, size-bytes)) // a short read is what a short log gives
	all := strings.Split(strings.TrimSpace(string(buf[:n])), "\n")
	out := "\n  " + p.spec.Log + ":"
	for _, line := range all[max(0, len(all)-lines):] {
		out += "\n  | " + line[:min(width, len(line))]
	}
	return out
}
