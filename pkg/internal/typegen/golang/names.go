package golang

import (
	"strconv"
	"strings"
	"unicode"
)

// initialisms are the words Go writes in capitals.
var initialisms = map[string]bool{
	"acl": true, "api": true, "cpu": true, "dns": true, "html": true, "http": true, "https": true, "id": true, "ip": true,
	"json": true, "rbac": true, "rpc": true, "sql": true, "ssh": true, "ssl": true, "tcp": true, "tls": true, "ttl": true,
	"udp": true, "ui": true, "uid": true, "uri": true, "url": true, "vm": true, "xml": true,
}

// exported turns a key into an exported Go name: minReplicas is MinReplicas,
// client-id is ClientID, 9p is X9p. A key without letters and digits is X.
func exported(key string) string {
	var name strings.Builder
	for _, word := range words(key) {
		if initialisms[strings.ToLower(word)] {
			name.WriteString(strings.ToUpper(word))
			continue
		}
		runes := []rune(word)
		name.WriteString(string(unicode.ToUpper(runes[0])) + string(runes[1:]))
	}
	result := name.String()
	if result == "" || !unicode.IsUpper([]rune(result)[0]) {
		return "X" + result
	}
	return result
}

// words splits a key at everything that is no letter or digit and in front of
// each capital that follows a small letter.
func words(key string) []string {
	var result []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			result = append(result, string(word))
			word = nil
		}
	}
	for _, r := range key {
		switch {
		case r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && !unicode.IsUpper(word[len(word)-1]):
			flush()
		}
		word = append(word, r)
	}
	flush()
	return result
}

// taggable says whether encoding/json takes a key as the name of a field.
func taggable(key string) bool {
	allowed := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	}
	return key != "" && strings.IndexFunc(key, func(r rune) bool { return !allowed(r) }) < 0
}

// nameSet gives each wanted name once, numbering those that repeat.
type nameSet map[string]bool

func (s nameSet) claim(name string) string {
	unique := name
	for i := 2; s[unique]; i++ {
		unique = name + strconv.Itoa(i)
	}
	s[unique] = true
	return unique
}
