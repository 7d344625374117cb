package apply

import (
	"regexp"
	"strings"
)

// maxReason bounds what is taken over from a message of the API server, in
// bytes: it ends up in conditions and events.
const maxReason = 1000

// harmless are the words after which the API server quotes a name, not a value.
var harmless = regexp.MustCompile(`(?i)\b(fields?|version|kind|webhook|resource|group|namespace|user|verb|policy|binding) $|supported values: ("[^"]*", )*$`)

// listKey is the place in a path where a list item's key follows, as in
// containers[name="app"].
var listKey = regexp.MustCompile(`\[[^\]"]*\b\w+=$`)

// redact cuts the values out of a message of the API server: quoted strings,
// but for names, and everything in braces, which is how it prints structures.
func redact(message string) string {
	var out strings.Builder
	for i := 0; i < len(message); {
		switch message[i] {
		case '"':
			end := quoteEnd(message, i)
			before := message[:i]
			if end > 0 && (harmless.MatchString(before) || listKey.MatchString(before)) {
				out.WriteString(message[i:end])
			} else {
				out.WriteString(`"…"`)
			}
			i = end
		case '{':
			out.WriteString("{…}")
			i = braceEnd(message, i)
		default:
			out.WriteByte(message[i])
			i++
		}
		if i <= 0 { // the message was cut inside a value
			break
		}
	}
	return shorten(out.String())
}

// shorten bounds a reason and keeps it on one line.
func shorten(reason string) string {
	reason = strings.Join(strings.Fields(strings.ToValidUTF8(reason, "")), " ")
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "…"
}

// quoteEnd returns the index after the quoted string that starts at i, or 0
// when it does not end.
func quoteEnd(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return 0
}

// braceEnd returns the index after the braces that start at i, or 0 when they
// do not end.
func braceEnd(s string, i int) int {
	depth := 0
	for j := i; j < len(s); j++ {
		switch s[j] {
		case '"':
			end := quoteEnd(s, j)
			if end == 0 {
				return 0
			}
			j = end - 1
		case '{':
			depth++
		case '}':
			depth--
			if depth == 0 {
				return j + 1
			}
		}
	}
	return 0
}
