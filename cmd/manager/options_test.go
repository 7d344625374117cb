package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
)

func TestNamespaces(t *testing.T) {
	for _, test := range []struct {
		name, list string
		want       []string
		wrong      string // part of the error
	}{
		{name: "empty means all"},
		{name: "spaces mean all", list: "  "},
		{name: "one", list: "a", want: []string{"a"}},
		{name: "several, sorted", list: "b,a", want: []string{"a", "b"}},
		{name: "spaces around names", list: " a , b\n", want: []string{"a", "b"}},
		{name: "empty entries", list: ",a,,b,", want: []string{"a", "b"}},
		{name: "duplicates", list: "a,b,a, b", want: []string{"a", "b"}},
		{name: "commas alone do not mean all", list: " , ", wrong: `WATCH_NAMESPACE is " , ", which names no namespace; leave it empty to watch all`},
		{name: "an asterisk is no namespace", list: "*", wrong: `WATCH_NAMESPACE: "*" cannot be the name of a namespace`},
		{name: "separated by spaces", list: "a b", wrong: `WATCH_NAMESPACE: "a b" cannot be the name of a namespace`},
		{name: "capitals", list: "a,Plants", wrong: `"Plants" cannot be the name of a namespace`},
		{name: "too long", list: strings.Repeat("a", 64), wrong: "63"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(watchNamespaceEnv, test.list)
			o, err := parse(nil)
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Fatalf("error is %v, want one with %q", err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, o.namespaces); diff != "" {
				t.Errorf("namespaces, -want +got:\n%s", diff)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Setenv(watchNamespaceEnv, "")
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case o.watchesFile != "./watches.yaml":
		t.Errorf("the watches file is %q", o.watchesFile)
	case !o.metricsSecure || !o.metricsRequireRBAC:
		t.Error("metrics are open unless asked for")
	case o.secretsInStatus || o.releaseStorage != reconciler.StorageSecret:
		t.Errorf("releases are kept in %s, secrets in status: %v", o.releaseStorage, o.secretsInStatus)
	case o.leaderElect:
		t.Error("the operator elects a leader without being asked to; outside of a Pod it knows no namespace for the Lease")
	}
}

func TestFlags(t *testing.T) {
	t.Setenv(watchNamespaceEnv, "")
	o, err := parse([]string{
		"--watches-file=w.yaml", "-leader-elect", "--leader-election-id", "id", "--image-poll-interval=30s",
		"--max-concurrent-reconciles=1", "--metrics-secure=false", "--metrics-require-rbac=false", "--release-storage=status",
		"--zap-log-level=debug",
	})
	if err != nil {
		t.Fatal(err)
	}
	got := []any{o.watchesFile, o.leaderElect, o.leaderElectionID, o.imagePollInterval, o.maxConcurrentReconciles, o.metricsSecure, o.releaseStorage}
	want := []any{"w.yaml", true, "id", 30 * time.Second, 1, false, "status"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options, -want +got:\n%s", diff)
	}
	if o.zap.Level == nil {
		t.Error("--zap-log-level is ignored")
	}
}

func TestBadFlags(t *testing.T) {
	t.Setenv(watchNamespaceEnv, "")
	for _, test := range []struct{ arg, says string }{
		{"--no-such-flag", "-no-such-flag"},
		{"install", `unexpected argument "install"`},
		{"--max-concurrent-reconciles=0", "--max-concurrent-reconciles must be at least 1"},
		{"--max-concurrent-reconciles=many", `invalid value "many" for flag -max-concurrent-reconciles`},
		{"--image-poll-interval=29s", "--image-poll-interval must be at least 30s"},
		{"--image-poll-interval=5", `invalid value "5" for flag -image-poll-interval`},
		{"--metrics-secure=false", "--metrics-require-rbac needs --metrics-secure"},
		{"--release-storage=etcd", `--release-storage must be secret or status, not "etcd"`},
		{"--zap-log-level=loud", `invalid value "loud" for flag -zap-log-level`},
	} {
		t.Run(test.arg, func(t *testing.T) {
			_, err := parse([]string{test.arg})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error is %v, want one with %q", err, test.says)
			}
		})
	}
}
