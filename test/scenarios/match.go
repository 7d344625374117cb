package scenarios

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// mismatch says where and how actual is not what expected asks for; "" if it is. Both are of JSON's types.
//
//   - A map asks for its keys and lets others be; null asks for a key's absence.
//   - A list of maps asks for an element that matches for each of its own, in whatever order; further ones may be there.
//     Any other list is compared as a whole.
//   - A string between slashes is a regular expression.
func mismatch(path string, expected, actual any) string {
	switch expected := expected.(type) {
	case nil:
		if actual != nil {
			return fmt.Sprintf("%s: want it absent, is %s", path, show(actual))
		}
	case map[string]any:
		return mismatchMap(path, expected, actual)
	case []any:
		return mismatchList(path, expected, actual)
	case string:
		if !matchText(expected, actual) {
			return fmt.Sprintf("%s: want %q, is %s", path, expected, show(actual))
		}
	default:
		if !reflect.DeepEqual(expected, actual) {
			return fmt.Sprintf("%s: want %s, is %s", path, show(expected), show(actual))
		}
	}
	return ""
}

func mismatchMap(path string, expected map[string]any, actual any) string {
	have, ok := actual.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s: want a map, is %s", path, show(actual))
	}
	for _, key := range slices.Sorted(maps.Keys(expected)) {
		if diff := mismatch(path+"."+key, expected[key], have[key]); diff != "" {
			return diff
		}
	}
	return ""
}

func mismatchList(path string, expected []any, actual any) string {
	have, ok := actual.([]any)
	if !ok {
		return fmt.Sprintf("%s: want a list, is %s", path, show(actual))
	}
	if !slices.ContainsFunc(expected, isMap) {
		if !reflect.DeepEqual(expected, have) {
			return fmt.Sprintf("%s: want %s, is %s", path, show(expected), show(have))
		}
		return ""
	}
	for i, element := range expected {
		nearest := "the list is empty"
		if !slices.ContainsFunc(have, func(candidate any) bool {
			diff := mismatch("", element, candidate)
			if diff != "" {
				nearest = diff
			}
			return diff == ""
		}) {
			return fmt.Sprintf("%s: no element matches [%d] %s (%s)", path, i, show(element), nearest)
		}
	}
	return ""
}

func isMap(value any) bool {
	_, is := value.(map[string]any)
	return is
}

// matchText compares a text with an expected one, or with an expected /regular expression/.
func matchText(expected string, actual any) bool {
	text, ok := actual.(string)
	if !ok {
		return false
	}
	if pattern, is := strings.CutPrefix(expected, "/"); is && strings.HasSuffix(pattern, "/") && pattern != "/" {
		matched, err := regexp.MatchString(strings.TrimSuffix(pattern, "/"), text)
		return err == nil && matched
	}
	return text == expected
}

// field returns the value at a path with dots; nil if there is none.
func field(object map[string]any, path string) any {
	var at any = object
	for key := range strings.SplitSeq(path, ".") {
		switch node := at.(type) {
		case map[string]any:
			at = node[key]
		default:
			return nil
		}
	}
	return at
}

// show prints a value for a message, not for long.
func show(value any) string {
	const longest = 300
	text := fmt.Sprintf("%v", value)
	if value == nil {
		text = "absent"
	}
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return text
}
