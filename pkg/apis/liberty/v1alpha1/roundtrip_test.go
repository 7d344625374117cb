package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/jkwong888/go-helm-operator/pkg/apis/liberty/v1alpha1"
)

// ours is the package whose types must keep every value as it is. Within the
// types of Kubernetes an empty value and an absent one mean the same.
const ours = "github.com/jkwong888/go-helm-operator/pkg/apis/liberty/v1alpha1"

var (
	quantity    = reflect.TypeFor[resource.Quantity]()
	intOrString = reflect.TypeFor[intstr.IntOrString]()
)

// decode reads JSON with its numbers as they are written.
func decode(t *testing.T, data []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// throughSpec reads values into a LibertyAppSpec, refusing unknown keys, and
// writes them again.
func throughSpec(t *testing.T, values any) any {
	t.Helper()
	data, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	var spec v1alpha1.LibertyAppSpec
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&spec); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	again, err := json.Marshal(&spec)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, again)
}

// compare lists what got lacks or changes of want, and what it adds, for a
// value of type typ. kubernetes says that the value is within a type of
// Kubernetes.
func compare(path string, want, got any, typ reflect.Type, kubernetes bool) []string {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() == reflect.Struct && typ != quantity && typ != intOrString {
		kubernetes = typ.PkgPath() != ours
	}
	if kubernetes && empty(want) && empty(got) {
		return nil
	}
	switch want := want.(type) {
	case map[string]any:
		gotMap, ok := got.(map[string]any)
		if !ok {
			break
		}
		return compareMaps(path, want, gotMap, typ, kubernetes)
	case []any:
		gotList, ok := got.([]any)
		if !ok || len(gotList) != len(want) {
			break
		}
		var problems []string
		for i := range want {
			problems = append(problems, compare(fmt.Sprintf("%s[%d]", path, i), want[i], gotList[i], typ.Elem(), kubernetes)...)
		}
		return problems
	default:
		if equal(want, got, typ) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: %v became %v", path, want, got)}
}

func compareMaps(path string, want, got map[string]any, typ reflect.Type, kubernetes bool) []string {
	var problems []string
	keys := map[string]bool{}
	for key := range want {
		keys[key] = true
	}
	for key := range got {
		keys[key] = true
	}
	for key := range keys {
		wantValue, wanted := want[key]
		gotValue, present := got[key]
		switch elem := elementOf(typ, key); {
		case wanted && wantValue == nil && !present:
			// null in a values file is an unset value
		case !kubernetes && wanted != present:
			problems = append(problems, fmt.Sprintf("%s.%s: was %v (%t), is %v (%t)", path, key, wantValue, wanted, gotValue, present))
		default:
			problems = append(problems, compare(path+"."+key, wantValue, gotValue, elem, kubernetes)...)
		}
	}
	return problems
}

// elementOf is the type of the value under a JSON name.
func elementOf(typ reflect.Type, key string) reflect.Type {
	if typ.Kind() == reflect.Map {
		return typ.Elem()
	}
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == key {
			return field.Type
		}
		if name == "" && field.Anonymous {
			if inner := elementOf(field.Type, key); inner != nil {
				return inner
			}
		}
	}
	return nil
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		return v == "0"
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, value := range v {
			if !empty(value) {
				return false
			}
		}
		return true
	}
	return false
}

// equal compares scalars; quantities may be written in several ways.
func equal(want, got any, typ reflect.Type) bool {
	if typ != quantity {
		return want == got
	}
	a, errA := resource.ParseQuantity(fmt.Sprint(want))
	b, errB := resource.ParseQuantity(fmt.Sprint(got))
	return errA == nil && errB == nil && a.Cmp(b) == 0
}

// TestValuesFilesSurvive reads values files as people write them.
func TestValuesFilesSurvive(t *testing.T) {
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values files: %v", err)
	}
	files = append(files, "../../../../helm-charts/ibm-websphere-liberty/values.yaml")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			asJSON, err := yaml.YAMLToJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			values := decode(t, asJSON)
			for _, problem := range compare("", values, throughSpec(t, values), reflect.TypeFor[v1alpha1.LibertyAppSpec](), false) {
				t.Error(problem)
			}
		})
	}
}

// TestAnyValuesSurvive makes values by chance, zero values often among them.
func TestAnyValuesSurvive(t *testing.T) {
	spec := reflect.TypeFor[v1alpha1.LibertyAppSpec]()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		values, _ := anyValue(random, spec, 0).(map[string]any)
		asJSON, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		want := decode(t, asJSON)
		for _, problem := range compare("", want, throughSpec(t, want), spec, false) {
			t.Errorf("seed %d: %s", seed, problem)
		}
		if t.Failed() {
			return
		}
	}
}

// anyValue makes a value for a type, as JSON. Types of Kubernetes other than
// the scalars are left to the values files.
func anyValue(random *rand.Rand, typ reflect.Type, depth int) any {
	pick := func(values ...any) any { return values[random.IntN(len(values))] }
	switch typ {
	case quantity:
		return pick("0", "500m", "1Gi", "1e3", 2, 0)
	case intOrString:
		return pick(0, 9443, "https")
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return anyValue(random, typ.Elem(), depth)
	case reflect.Bool:
		return pick(true, false)
	case reflect.Int32:
		return pick(0, 1, math.MaxInt32)
	case reflect.Int64:
		return pick(0, 1, int64(1)<<53+1, int64(math.MaxInt64))
	case reflect.String:
		return pick("", "x", "2 - No preference", `"quoted" & <escaped>`)
	case reflect.Map:
		values := map[string]any{}
		for i := range random.IntN(3) {
			values[fmt.Sprintf("key-%d", i)] = anyValue(random, typ.Elem(), depth+1)
		}
		return values
	case reflect.Slice:
		return []any{}
	case reflect.Struct:
		values := map[string]any{}
		for i := range typ.NumField() {
			field := typ.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if random.IntN(3) > 0 && (foreign(field.Type) == "" || foreign(field.Type) == ours) {
				values[name] = anyValue(random, field.Type, depth+1)
			}
		}
		return values
	}
	panic("no value for " + typ.String())
}

// foreign is the package of a struct behind pointers, "" for other types and
// for those that are scalars in JSON.
func foreign(typ reflect.Type) string {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ == quantity || typ == intOrString {
		return ""
	}
	return typ.PkgPath()
}

// TestUnsetStaysUnset: an empty spec writes nothing, so that the chart's
// defaults hold.
func TestUnsetStaysUnset(t *testing.T) {
	data, err := json.Marshal(v1alpha1.LibertyAppSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != "{}" {
		t.Errorf("an empty spec is %s, want {}", data)
	}
}
