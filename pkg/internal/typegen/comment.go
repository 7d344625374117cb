package typegen

import (
	"regexp"
	"strings"
)

// helmDocsType is the type that helm-docs allows in front of a description:
// "# -- (list) Volumes of the pod".
var helmDocsType = regexp.MustCompile(`^\([\w/-]+\)\s+`)

// docAbove reads the block of comment lines that ends right above a line
// (counted from 1).
func docAbove(lines []string, line int) string {
	end := min(line-1, len(lines))
	start := end
	for start > 0 && strings.HasPrefix(strings.TrimSpace(lines[start-1]), "#") {
		start--
	}
	return docOf(lines[start:end])
}

// docOf takes the markup off comment lines. A line that starts with "# --", as
// helm-docs has it, begins the description; what stands above it belongs to a
// whole section. Lines with an @ after the # are instructions to other tools.
func docOf(comments []string) string {
	var text []string
	for _, comment := range comments {
		line := strings.TrimPrefix(strings.TrimSpace(comment), "#")
		line = strings.TrimSpace(strings.TrimLeft(line, "#"))
		if described, ok := strings.CutPrefix(line, "-- "); ok {
			text = []string{helmDocsType.ReplaceAllString(described, "")}
			continue
		}
		if !strings.HasPrefix(line, "@") {
			text = append(text, line)
		}
	}
	return strings.TrimSpace(strings.Join(text, "\n"))
}
