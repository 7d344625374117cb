package chart

import (
	"encoding/base64"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// maxError bounds the text of an error from a template, in bytes, so that it
// fits into a condition.
const maxError = 2048

const redacted = "[redacted]"

// sensitiveKey matches the names of values that tend to be secret.
var sensitiveKey = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|private|apikey|api_key|auth`)

// redactor takes values out of what templates say when they fail. Chart authors
// may show values on purpose (fail, required), so those messages lose only what
// looks secret; everything that the template engine or a function quotes goes.
type redactor struct {
	secrets []string
}

// newRedactor knows the strings of values that stand under sensitive keys.
func newRedactor(values map[string]any) *redactor {
	r := &redactor{}
	r.collect(values, false)
	return r
}

func (r *redactor) collect(v any, sensitive bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			r.collect(item, sensitive || sensitiveKey.MatchString(key))
		}
	case []any:
		for _, item := range v {
			r.collect(item, sensitive)
		}
	case string:
		if sensitive {
			r.add(v)
		}
	}
}

// add a secret. Shorter ones than three bytes would blot out the message.
func (r *redactor) add(secret string) {
	if len(secret) >= 3 {
		r.secrets = append(r.secrets, secret, base64.StdEncoding.EncodeToString([]byte(secret)))
	}
}

// addSecretData adds the data of a Secret, or of a list of them.
func (r *redactor) addSecretData(secret map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		data, _ := secret[field].(map[string]any)
		for _, v := range data {
			text, _ := v.(string)
			r.add(text)
			if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
				r.add(string(plain))
			}
		}
	}
	items, _ := secret["items"].([]any)
	for _, item := range items {
		if s, ok := item.(map[string]any); ok {
			r.addSecretData(s)
		}
	}
}

var (
	// quoted matches a quoted string with the word before it, if that word
	// leads the name of a template or function.
	quoted = regexp.MustCompile("((?:executing|template|function) )?(\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`)")
	// parsed matches the text that tpl could not parse, which is a value.
	parsed = regexp.MustCompile(`cannot parse template "(?:[^"\\]|\\.)*"`)
	// printed matches where text/template prints a value without quotes.
	printed = regexp.MustCompile(`(?s)(can't iterate over|can't use) .*`)
	// templateName is what stands behind such a word when it is a name.
	templateName = regexp.MustCompile(`^"[\w./ -]*"$`)
	spaces       = regexp.MustCompile(`\s+`)
)

// engineError makes a message of what the engine says: on one line, with file
// and line, the chain of templates and the cause, without values.
func (r *redactor) engineError(err error) error {
	text := err.Error()
	// Longest first: one secret may be a part of another.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	// The engine's form for the functions fail and required.
	if !strings.HasPrefix(text, "execution error at (") {
		text = cutQuoted(text)
	}
	text = strings.TrimSpace(spaces.ReplaceAllString(text, " "))
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return errors.New(text)
}

// cutQuoted replaces whatever is quoted and is not the name of a template or
// function.
func cutQuoted(text string) string {
	text = parsed.ReplaceAllLiteralString(text, "cannot parse template "+redacted)
	text = printed.ReplaceAllString(text, "$1 it")
	return quoted.ReplaceAllStringFunc(text, func(match string) string {
		if sub := quoted.FindStringSubmatch(match); sub[1] != "" && templateName.MatchString(sub[2]) {
			return match
		}
		return redacted
	})
}
