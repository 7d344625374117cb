package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Lock keeps other processes from starting or stopping the cluster of a folder until unlock is called. It waits for
// whoever has the lock. It locks the parent folder, which it makes if need be, so that nothing is left behind.
func Lock(ctx context.Context, dir string) (unlock func(), err error) {
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("making room for the control plane: %w", err)
	}
	file, err := os.Open(parent)
	if err != nil {
		return nil, fmt.Errorf("locking the control plane of %s: %w", dir, err)
	}
	return lock(ctx, file, func() {})
}

// lock takes the lock of a file, which it closes; waiting is called, again and again, when it has to wait.
func lock(ctx context.Context, file *os.File, waiting func()) (unlock func(), err error) {
	const poll = 200 * time.Millisecond
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // closing gives the lock back
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", file.Name(), err), file.Close())
		}
		waiting()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for the lock of %s: %w", file.Name(), ctx.Err()), file.Close())
		}
	}
}
