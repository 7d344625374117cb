package process_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jkwong888/go-helm-operator/test/cluster/process"
)

// parentVariable makes this test binary start a process, print its record and wait to be killed; the value says how.
const parentVariable = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if how := os.Getenv(parentVariable); how != "" {
		if err := parent(how == "detached"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func parent(detached bool) error {
	p, err := process.Start(process.Spec{
		Name: "sleep", Path: "/bin/sleep", Args: []string{"600"}, Log: os.DevNull, Detached: detached,
	})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(p.Record()); err != nil {
		return err
	}
	select {} // until killed
}

// shell starts a shell script.
func shell(t *testing.T, script string) (*process.Process, string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	p, err := process.Start(process.Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(0); err != nil {
			t.Error(err)
		}
	})
	return p, log
}

// logHolds waits for a text in a script's log.
func logHolds(t *testing.T, p *process.Process, log, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := p.Until(ctx, func(context.Context) error {
		content, err := os.ReadFile(log)
		if err == nil && !strings.Contains(string(content), text) {
			err = fmt.Errorf("the log is %q", content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestChildEndsWithItsParentUnlessDetached(t *testing.T) {
	for how, survives := range map[string]bool{"attached": false, "detached": true} {
		t.Run(how, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), parentVariable+"="+how)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadBytes('\n')
			if err != nil {
				t.Fatal(err)
			}
			var record process.Record
			if err := json.Unmarshal(line, &record); err != nil {
				t.Fatal(err)
			}
			child, running := process.Find(record)
			if !running {
				t.Fatalf("%+v does not run while its parent does", record)
			}
			t.Cleanup(func() { _ = child.Stop(0) })
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed
			// What shall end does so at once; what shall not has a moment to prove otherwise.
			limit := time.Now().Add(300 * time.Millisecond)
			if !survives {
				limit = time.Now().Add(10 * time.Second)
			}
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for child.Running() && time.Now().Before(limit) {
				<-tick.C
			}
			if child.Running() != survives {
				t.Errorf("child runs without its parent: %t; want %t", child.Running(), survives)
			}
		})
	}
}

func TestFindIsNotFooledByAReusedPID(t *testing.T) {
	p, _ := shell(t, "sleep 600")
	record := p.Record()
	if _, running := process.Find(record); !running {
		t.Errorf("%+v was not found", record)
	}
	other := record
	other.Start = "1"
	found, running := process.Find(other)
	if running {
		t.Errorf("%+v was found though it started at another time", other)
	}
	if err := found.Signal(syscall.SIGKILL); err == nil {
		t.Error("another process was signalled")
	}
	if err := found.Stop(0); err != nil {
		t.Error(err)
	}
	if !p.Running() {
		t.Error("another process was stopped")
	}
}

func TestStop(t *testing.T) {
	for behaviour, tc := range map[string]struct {
		script string
		grace  time.Duration
		pause  bool
		log    string // what it says at its end
	}{
		"asks first":                 {script: "trap 'echo bye; exit' TERM; echo on; while :; do sleep 0.01; done", grace: 10 * time.Second, log: "bye"},
		"asks a paused one too":      {script: "trap 'echo bye; exit' TERM; echo on; while :; do sleep 0.01; done", grace: 10 * time.Second, pause: true, log: "bye"},
		"kills what does not listen": {script: "trap '' TERM; echo on; while :; do sleep 0.01; done", grace: 50 * time.Millisecond},
		"kills at once":              {script: "trap 'echo bye; exit' TERM; echo on; while :; do sleep 0.01; done"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			p, log := shell(t, tc.script)
			logHolds(t, p, log, "on")
			if tc.pause {
				if err := p.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Stop(tc.grace); err != nil {
				t.Fatal(err)
			}
			if p.Running() {
				t.Error("it still runs")
			}
			content, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if said := strings.Contains(string(content), "bye"); said != (tc.log != "") {
				t.Errorf("its log is %q", content)
			}
			if err := p.Stop(tc.grace); err != nil {
				t.Errorf("stopping again: %v", err)
			}
		})
	}
}

func TestUntilTellsWhyAProcessEnded(t *testing.T) {
	p, log := shell(t, "echo starting; echo port 80: address already in use >&2; exit 3")
	err := p.Until(t.Context(), func(context.Context) error { return errors.New("not yet") })
	var exit *process.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("error %v; want an ExitError", err)
	}
	for _, part := range []string{"script ended: exit status 3", log, "address already in use"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not hold %q", err, part)
		}
	}
}

func TestUntilGivesUpWithItsContext(t *testing.T) {
	p, _ := shell(t, "sleep 600")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	notYet := errors.New("not yet")
	err := p.Until(ctx, func(context.Context) error { return notYet })
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, notYet) {
		t.Errorf("error %v; want the deadline and what was missing", err)
	}
}

func TestStdoutGoesToItsOwnFile(t *testing.T) {
	dir := t.TempDir()
	p, err := process.Start(process.Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", "echo out; echo $WORD >&2"}, Env: []string{"WORD=err"},
		Log: filepath.Join(dir, "log"), Stdout: filepath.Join(dir, "out"),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	for file, want := range map[string]string{"log": "err\n", "out": "out\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", file, got, err, want)
		}
	}
}

func TestStartFailsForWhatCannotRun(t *testing.T) {
	_, err := process.Start(process.Spec{Name: "nothing", Path: "/does/not/exist", Log: os.DevNull})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("error %v; want one that names it and says that it does not exist", err)
	}
}
