package release

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/apply"
)

// Two managers that want different values for one field would heal each other
// for ever. After fightHeals heals of one object within fightWindow the object
// is left alone for a while, doubling up to fightWindow.
const (
	fightHeals  = 5
	fightWindow = 10 * time.Minute
	fightPause  = 10 * time.Second
)

type contested struct {
	owner types.UID
	key   apply.Key
}

type healCount struct {
	since time.Time // when the window began
	last  time.Time
	heals int
}

// fights counts heals by object. The zero value is ready.
type fights struct {
	mu     sync.Mutex
	counts map[contested]*healCount
}

// wait is how long to leave the object alone; 0 counts one heal and allows it.
func (f *fights) wait(owner types.UID, entry releasev1alpha1.InventoryEntry, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[contested]*healCount{}
	}
	key := contested{owner, apply.EntryKey(entry)}
	c := f.counts[key]
	if c == nil || now.Sub(c.last) > fightWindow || c.heals < fightHeals && now.Sub(c.since) > fightWindow {
		f.expire(now)
		c = &healCount{since: now}
		f.counts[key] = c
	}
	if over := c.heals - fightHeals; over >= 0 {
		pause := min(fightPause<<min(over, 16), fightWindow)
		if left := pause - now.Sub(c.last); left > 0 {
			return left
		}
	}
	c.heals++
	c.last = now
	return 0
}

// expire forgets objects that were not healed for a while, so that the counts
// stay as few as the objects that drift.
func (f *fights) expire(now time.Time) {
	for key, c := range f.counts {
		if now.Sub(c.last) > fightWindow {
			delete(f.counts, key)
		}
	}
}

// fighter names the object and who last changed what the operator applies.
func (m *Manager) fighter(ctx context.Context, d drifted) string {
	other, err := m.Objects.LastManager(ctx, d.entry)
	if err != nil || other == "" {
		other = "another manager"
	}
	return describe(d.entry) + " is changed again and again by " + other
}
