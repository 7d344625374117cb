// Package docs checks that what the documentation points at exists.
package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+\s+(.+?)\s*$`)
	code     = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
	makeCall = regexp.MustCompile(`(?m)(?:^|[\s` + "`" + `])make ([a-z][a-z-]*)`)
	script   = regexp.MustCompile(`(?:hack|build|\.ci)/[\w./-]*\w`)
	target   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// documents returns the Markdown files under version control, or about to be, by their path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Fatalf("listing the documents with git: %v", err)
	}
	docs := map[string]string{}
	for path := range bytes.SplitSeq(bytes.Trim(list, "\x00"), []byte{0}) {
		docs[string(path)] = read(t, string(path))
	}
	if _, ok := docs["CONTRIBUTING.md"]; !ok {
		t.Fatalf("git lists no CONTRIBUTING.md; it lists %d documents", len(docs))
	}
	return docs
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLinksLeadSomewhere(t *testing.T) {
	docs := documents(t)
	for path, text := range docs {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			to := filepath.Join(filepath.Dir(path), file)
			if file == "" {
				to = path
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, m[1])
				continue
			}
			if anchor != "" && !anchors(docs[to])[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", path, m[1], to)
			}
		}
	}
}

// anchors returns the names GitHub gives the headings of a document.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		names[name] = true
	}
	return names
}

func TestNamedCommandsExist(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	for path, text := range documents(t) {
		for _, fragment := range code.FindAllString(text, -1) {
			for _, m := range makeCall.FindAllStringSubmatch(fragment, -1) {
				if !targets[m[1]] {
					t.Errorf("%s says `make %s`, which the Makefile does not have", path, m[1])
				}
			}
			for _, name := range script.FindAllString(fragment, -1) {
				if _, err := os.Stat(filepath.Join(root, name)); err != nil && !strings.HasPrefix(name, "build/_output") {
					t.Errorf("%s names %s, which does not exist", path, name)
				}
			}
		}
	}
}
