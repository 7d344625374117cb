package process

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// attributes puts a child into a process group of its own, so that an interrupt typed at the terminal reaches only the
// parent, which then stops its children in order.
func attributes(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startTime returns when a process was started, in clock ticks since boot: field 22 of /proc/PID/stat (proc(5)).
// A process that is dead but not yet reaped by its parent has ended as far as we are concerned.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the name in parentheses and may hold anything; what follows the last one has no surprises.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, start = 0, 22 - 3 // proc(5) counts from 1, and state is its field 3, the first after the name
	if len(fields) <= start {
		return "", fmt.Errorf("process %d: its stat has only %d fields", pid, len(fields))
	}
	if s := fields[state][0]; s == 'Z' || s == 'X' {
		return "", os.ErrProcessDone
	}
	return string(fields[start]), nil
}
