package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// auditPolicy writes down every request once it is answered, and a watch when it starts. No bodies: they hold Secrets.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

func (c *Cluster) auditArgs() []string {
	if !c.options.AuditLog {
		return nil
	}
	return []string{
		"--audit-policy-file=" + c.path(etcFolder, "audit.yaml"),
		"--audit-log-path=" + c.auditPath(),
		"--audit-log-maxsize=1000000", // MB; a rotated file would be lost to Requests
	}
}

func (c *Cluster) auditPath() string { return c.path(logFolder, "audit.log") }

// Request is one request that the API server has answered, or a watch that it has begun to answer.
type Request struct {
	Time        time.Time // when it was received
	User        string    // whose rights it had: the impersonated user, if there was one
	UserAgent   string
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection …
	Group       string // API group; empty for the core group and for what is no resource
	Resource    string // plural; empty for what is no resource, such as /apis
	Subresource string
	Namespace   string
	Name        string // empty for list, watch and create
	Code        int    // HTTP status; 0 if the client gave up
	URI         string
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s %s %d (%s)", r.Time.Format("15:04:05.000"), r.Verb, r.URI, r.Code, r.User)
}

// Filter chooses requests.
type Filter func(Request) bool

// ByUser chooses the requests of users whose name starts with prefix, such as system:serviceaccount:NAMESPACE:NAME.
func ByUser(prefix string) Filter {
	return func(r Request) bool { return strings.HasPrefix(r.User, prefix) }
}

// ByUserAgent chooses the requests of clients whose user agent starts with prefix.
func ByUserAgent(prefix string) Filter {
	return func(r Request) bool { return strings.HasPrefix(r.UserAgent, prefix) }
}

// ByNamespace chooses the requests for objects in a namespace.
func ByNamespace(namespace string) Filter {
	return func(r Request) bool { return r.Namespace == namespace }
}

// Not chooses what filter does not.
func Not(filter Filter) Filter { return func(r Request) bool { return !filter(r) } }

// ByVerb chooses the requests with one of these verbs.
func ByVerb(verbs ...string) Filter {
	return func(r Request) bool { return slices.Contains(verbs, r.Verb) }
}

// ByResource chooses the requests for these resources (plural names), whatever their group.
func ByResource(resources ...string) Filter {
	return func(r Request) bool { return slices.Contains(resources, r.Resource) }
}

// Writes chooses the requests that may change something.
func Writes() Filter { return Not(ByVerb("get", "list", "watch")) }

// Mark is a point in the stream of requests. The zero value is its start.
type Mark struct{ offset int64 }

// Mark returns the present point: a request that was answered before the call is before it, one that is sent after the call
// is after it.
func (c *Cluster) Mark(ctx context.Context) (Mark, error) {
	present := Mark{}
	if info, err := os.Stat(c.auditPath()); err == nil { // else readAudit says what is wrong
		present.offset = info.Size()
	}
	_, end, err := c.readAudit(ctx, present)
	return Mark{end}, err
}

// Requests returns the requests since a mark that all filters choose, in the order in which they were answered; without
// those that this package makes. A request that was answered before the call is among them.
func (c *Cluster) Requests(ctx context.Context, since Mark, filters ...Filter) ([]Request, error) {
	content, _, err := c.readAudit(ctx, since)
	if err != nil {
		return nil, err
	}
	// A watch is written down when it starts and when it ends, under one ID; a refused one only when it ends.
	seen := map[string]bool{}
	var requests []Request
	for line := range bytes.Lines(content) {
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("reading the audit log %s: %w in %q", c.auditPath(), err, line)
		}
		watchFromBefore := event.Verb == "watch" && event.Stage == "ResponseComplete" && event.Status.Code < 300
		if watchFromBefore || seen[event.ID] || strings.HasPrefix(event.UserAgent, userAgent) {
			continue
		}
		seen[event.ID] = true
		request := event.request()
		if !slices.ContainsFunc(filters, func(filter Filter) bool { return !filter(request) }) {
			requests = append(requests, request)
		}
	}
	return requests, nil
}

// readAudit returns the audit log since a mark, and where it ends now. The API server writes a line before it ends its
// answer but promises that nowhere, so this sends a request of its own and waits for its line.
func (c *Cluster) readAudit(ctx context.Context, since Mark) (content []byte, end int64, err error) {
	if !c.options.AuditLog {
		return nil, 0, errors.New("requests are not written down: start the cluster with Options.AuditLog")
	}
	client, err := c.client()
	if err != nil {
		return nil, 0, err
	}
	marker := rand.Text()
	if err := client.RESTClient().Get().AbsPath("/version").Param("marker", marker).Do(ctx).Error(); err != nil {
		return nil, 0, fmt.Errorf("marking the audit log: %w", err)
	}
	file, err := os.Open(c.auditPath())
	if err != nil {
		return nil, 0, fmt.Errorf("reading the audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(since.offset, io.SeekStart); err != nil {
		return nil, 0, fmt.Errorf("reading the audit log: %w", err)
	}
	err = wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		more, err := io.ReadAll(file)
		content = append(content, more...)
		// The marker's own line has to be whole.
		at := bytes.Index(content, []byte(marker))
		return at >= 0 && bytes.IndexByte(content[at:], '\n') >= 0, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("waiting for the audit log %s to catch up: %w", c.auditPath(), err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	return content, since.offset + int64(len(content)), nil
}

// auditEvent is what we read of an audit.k8s.io/v1 Event.
type auditEvent struct {
	ID           string    `json:"auditID"`
	Stage        string    `json:"stage"`
	URI          string    `json:"requestURI"`
	Verb         string    `json:"verb"`
	User         auditUser `json:"user"`
	Impersonated auditUser `json:"impersonatedUser"`
	UserAgent    string    `json:"userAgent"`
	Received     time.Time `json:"requestReceivedTimestamp"`
	Object       struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

type auditUser struct {
	Name string `json:"username"`
}

func (e *auditEvent) request() Request {
	user := e.User.Name
	if e.Impersonated.Name != "" {
		user = e.Impersonated.Name
	}
	return Request{
		Time: e.Received, User: user, UserAgent: e.UserAgent, Verb: e.Verb, Group: e.Object.Group, Resource: e.Object.Resource,
		Subresource: e.Object.Subresource, Namespace: e.Object.Namespace, Name: e.Object.Name, Code: e.Status.Code, URI: e.URI,
	}
}
