package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/felixge/httpsnoop"
	"github.com/sirupsen/logrus"
)

// verboseVariable names the environment variable that lets the registry's own log through, to stderr.
const verboseVariable = "REGISTRY_LOG"

// runRegistry serves the registry that the configuration file named by the only argument describes, until it is killed.
func runRegistry() int {
	if len(os.Args) != 2 {
		return fail("registry", errors.New("usage: registry CONFIG.yml"))
	}
	if err := serveRegistry(context.Background(), os.Args[1]); err != nil {
		return fail("registry", err)
	}
	return 0
}

func serveRegistry(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	config, err := configuration.Parse(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	// Ours replaces the registry's access log, which names no user and is written after the client has its answer.
	config.Log.AccessLog.Disabled = true
	access := &accessLog{out: json.NewEncoder(os.Stdout)}
	registry.RegisterHandler(func(_ *configuration.Configuration, next http.Handler) http.Handler { return access.wrap(next) })
	server, err := registry.NewRegistry(ctx, config)
	if err != nil {
		return err
	}
	// The registry logs every request in full whatever its configuration says.
	if os.Getenv(verboseVariable) == "" {
		logrus.SetOutput(io.Discard)
	}
	return server.ListenAndServe()
}

// accessLog writes one JSON object for each request. The line is written before the first byte of the answer leaves,
// so whoever has an answer finds its line.
type accessLog struct {
	mu  sync.Mutex
	out *json.Encoder
}

// accessEntry is a line of the access log; test/registry reads it.
type accessEntry struct {
	Time      time.Time `json:"time"`
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	User      string    `json:"user,omitempty"`
	UserAgent string    `json:"userAgent,omitempty"`
	Status    int       `json:"status"`
}

func (l *accessLog) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		entry := accessEntry{Method: r.Method, Path: r.URL.Path, User: user, UserAgent: r.UserAgent()}
		var once sync.Once
		answered := func(status int) {
			once.Do(func() { entry.Status = status; l.write(entry) })
		}
		next.ServeHTTP(httpsnoop.Wrap(w, httpsnoop.Hooks{
			WriteHeader: func(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
				return func(status int) { answered(status); write(status) }
			},
			Write: func(write httpsnoop.WriteFunc) httpsnoop.WriteFunc {
				return func(b []byte) (int, error) { answered(http.StatusOK); return write(b) }
			},
			ReadFrom: func(read httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
				return func(src io.Reader) (int64, error) { answered(http.StatusOK); return read(src) }
			},
		}), r)
		answered(http.StatusOK)
	})
}

func (l *accessLog) write(entry accessEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry.Time = time.Now()
	// A log that cannot be written shows in the tests that count its lines.
	_ = l.out.Encode(entry)
}
