package apply

import (
	"maps"
	"time"
	"unique"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/types"
)

// removal is what is remembered of an object that somebody else removed.
type removal struct {
	owner unique.Handle[ownerRef]
	at    time.Time
	// completed, with how it ended, is not forgotten with time.
	completed bool
	status    status.Status
	message   string
}

const (
	// goneFor is how long a removal that was seen says that nothing stands under
	// the name: long enough for the pass that it causes, and no longer, because
	// what somebody puts there may lack the label that brings it into the cache.
	goneFor = 5 * time.Second
	// goneMost bounds the removals remembered. Of the others it is only not known
	// that they were seen.
	goneMost = 1024
)

func (s *store) removeLocked(name types.NamespacedName, old object) {
	delete(s.objects, name)
	if old.leaving {
		return
	}
	now := s.clock.Now()
	if len(s.gone) >= goneMost {
		maps.DeleteFunc(s.gone, func(_ types.NamespacedName, r removal) bool { return !r.completed && !r.recent(now) })
	}
	if len(s.gone) < goneMost {
		s.gone[name] = old.removed(now)
	}
}

func (o *object) removed(now time.Time) removal {
	if !o.Completed {
		return removal{owner: o.owner, at: now}
	}
	return removal{owner: o.owner, at: now, completed: true, status: o.Status, message: o.Message}
}

func (r removal) recent(now time.Time) bool { return now.Sub(r.at) < goneFor }

// forget drops what is remembered of an owner's removed objects.
func (s *store) forget(owner unique.Handle[ownerRef]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.gone, func(_ types.NamespacedName, r removal) bool { return r.owner == owner })
}
