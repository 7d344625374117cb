//go:build unix && !linux

package process

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes puts a child into a process group of its own. Nothing here ends it with its parent; only Stop does.
func attributes(detached bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: detached, Setpgid: !detached}
}

// startTime returns when a process was started, as ps prints it.
func startTime(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // ends at once
	if err != nil {
		return "", os.ErrProcessDone
	}
	return strings.TrimSpace(string(out)), nil
}
