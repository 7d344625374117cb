package chart_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// deadKeys are accepted for the sake of old values files and only named in the notes.
var deadKeys = []string{
	"app.autoCreate", "app.version", "iiopService.type", "jmsService.type",
	"sessioncache.hazelcast.embedded", "sessioncache.hazelcast.enabled", "sessioncache.hazelcast.image.pullPolicy",
	"sessioncache.hazelcast.image.repository", "sessioncache.hazelcast.image.tag",
}

// Every key has an effect on the objects in at least one case: without it, that case renders to something else. A dead key
// has an effect on the notes, and there alone.
func TestEveryKeyHasAnEffect(t *testing.T) {
	type baseline struct {
		values map[string]any
		out    rendering
	}
	var matrix []baseline
	for _, name := range cases(t) {
		values := caseValues(t, name)
		matrix = append(matrix, baseline{values, mustRender(t, release{name: releaseName, namespace: releaseNamespace, values: values})})
	}
	keys := leaves(loadChart(t).Values, "")
	for _, dead := range deadKeys {
		if !slices.Contains(keys, dead) {
			t.Errorf("the dead key %s is not in values.yaml", dead)
		}
	}
	for _, key := range keys {
		objects, notes := false, false
		for _, base := range matrix {
			without := runtime.DeepCopyJSON(base.values)
			if !remove(without, strings.Split(key, ".")) {
				continue
			}
			out, err := render(t, release{name: releaseName, namespace: releaseNamespace, values: without})
			objects = objects || err != nil || !maps.Equal(out.files, base.out.files)
			notes = notes || err == nil && out.notes != base.out.notes
		}
		dead := slices.Contains(deadKeys, key)
		switch {
		case !dead && !objects:
			t.Errorf("%s changes no object in any case of testdata", key)
		case dead && objects:
			t.Errorf("%s is called dead but changes an object", key)
		case dead && !notes:
			t.Errorf("%s is dead, but the notes do not say so", key)
		}
	}
}

// The keys of 1.10.0, 92 in number, are a subset of ours; an old values file must not lose one.
func TestKeysOfVersion1100AreKept(t *testing.T) {
	old := leaves(caseValues(t, "values-1.10.0"), "")
	if len(old) != 92 {
		t.Errorf("testdata/values-1.10.0 has %d keys, version 1.10.0 has 92", len(old))
	}
	ours := leaves(loadChart(t).Values, "")
	for _, key := range old {
		if !slices.Contains(ours, key) {
			t.Errorf("%s is missing in values.yaml", key)
		}
	}
}

// leaves returns the dotted paths of everything that is not a map with content.
func leaves(values map[string]any, prefix string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if sub, ok := values[key].(map[string]any); ok && len(sub) > 0 {
			out = append(out, leaves(sub, prefix+key+".")...)
		} else {
			out = append(out, prefix+key)
		}
	}
	return out
}

// remove deletes the value at a path and says whether there was one.
func remove(values map[string]any, path []string) bool {
	for _, key := range path[:len(path)-1] {
		sub, ok := values[key].(map[string]any)
		if !ok {
			return false
		}
		values = sub
	}
	last := path[len(path)-1]
	_, found := values[last]
	delete(values, last)
	return found
}
