package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asMain makes this test binary behave as the command, so that tests see its exit status and what it writes.
const asMain = "MANAGER_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// outcome is how the command ended.
type outcome struct {
	status         int
	stdout, stderr string
}

// command runs the command where no API server can be found.
func command(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{asMain + "=1", "HOME=" + cmd.Dir}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{status: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

func TestExit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing := filepath.Join(dir, "missing.yaml")
	entry := "- {group: example.com, version: v1, kind: Shop, chart: " + filepath.Join(dir, "no-chart") + "}\n"
	good := write("watches.yaml", entry)
	charts, err := filepath.Abs("../../test/e2e/testdata/charts")
	if err != nil {
		t.Fatal(err)
	}
	whole := write("whole.yaml", "- {group: example.com, version: v1, kind: Shop, chart: "+filepath.Join(charts, "shop")+"}\n")
	// Nobody listens on port 1.
	deaf := write("kubeconfig", "{clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: x, context: {cluster: c}}], current-context: x}")
	for _, test := range []struct {
		name   string
		env    []string
		args   []string
		status int
		stdout string // part of it; "" for nothing at all
		stderr string
	}{
		{name: "version", args: []string{"--version"}, stdout: "go-helm-operator dev\n"},
		{name: "help", args: []string{"--help"}, stdout: "-watches-file"},
		{name: "bad flag", args: []string{"--no-such-flag"}, status: 2, stderr: "manager: flag provided but not defined: -no-such-flag; --help lists the flags\n"},
		{name: "bad namespace", env: []string{"WATCH_NAMESPACE=a b"}, status: 2, stderr: `manager: WATCH_NAMESPACE: "a b" cannot be`},
		{name: "no watches file", args: []string{"--watches-file=" + missing}, status: 1, stderr: "reading the watches file: open " + missing + ": no such file"},
		{name: "default watches file", status: 1, stderr: "open ./watches.yaml: no such file"},
		{
			name: "typo in the watches file", status: 1, args: []string{"--watches-file=" + write("typo.yaml", "- {group: example.com, versoin: v1}\n")},
			stderr: `unknown field \"versoin\"`,
		},
		{
			name: "a kind named twice", status: 1, args: []string{"--watches-file=" + write("twice.yaml", entry+entry)},
			stderr: "entry 2: Shop.example.com is named twice",
		},
		{
			name: "no kubeconfig", status: 1, args: []string{"--watches-file=" + good, "--kubeconfig=" + missing},
			stderr: "reading --kubeconfig " + missing,
		},
		{
			name: "no API server", status: 1, args: []string{"--watches-file=" + whole, "--kubeconfig=" + deaf, "--metrics-bind-address=0", "--health-probe-bind-address=0"},
			stderr: "asking the API server for the scope of Shop",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := command(t, test.env, test.args...)
			if got.status != test.status {
				t.Errorf("exit status is %d, want %d", got.status, test.status)
			}
			for stream, texts := range map[string][2]string{"stdout": {test.stdout, got.stdout}, "stderr": {test.stderr, got.stderr}} {
				want, is := texts[0], texts[1]
				if want == "" && is != "" || !strings.Contains(is, want) {
					t.Errorf("%s is\n%s\nwant %q in it (nothing, if that is empty)", stream, is, want)
				}
			}
		})
	}
}
