package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Request is one request that the registry has answered.
type Request struct {
	Time      time.Time `json:"time"`
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	User      string    `json:"user"` // of HTTP basic authentication, whether or not the password was right; empty without
	UserAgent string    `json:"userAgent"`
	Status    int       `json:"status"`
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s %d (user %q)", r.Method, r.Path, r.Status, r.User)
}

// Mark is a point in the access log. The zero value is its start.
type Mark int64

// Mark returns the present end of the access log.
func (r *Registry) Mark() (Mark, error) {
	info, err := os.Stat(r.path(accessFile))
	if err != nil {
		return 0, fmt.Errorf("reading the registry's access log: %w", err)
	}
	return Mark(info.Size()), nil
}

// Requests returns the requests to the registry's API since a mark, in the order in which they were answered, without
// those of PushImage and PushIndex. Every request whose answer has begun to arrive anywhere is among them.
func (r *Registry) Requests(since Mark) ([]Request, error) {
	content, err := os.ReadFile(r.path(accessFile))
	if err != nil {
		return nil, fmt.Errorf("reading the registry's access log: %w", err)
	}
	var requests []Request
	for line := range bytes.Lines(content[min(int(since), len(content)):]) {
		var request Request
		if err := json.Unmarshal(line, &request); err != nil {
			return nil, fmt.Errorf("reading the registry's access log: %w in %q", err, line)
		}
		// The user agent that go-containerregistry sends has its own name appended.
		if strings.HasPrefix(request.Path, "/v2/") && !strings.HasPrefix(request.UserAgent, pusher) {
			requests = append(requests, request)
		}
	}
	return requests, nil
}
