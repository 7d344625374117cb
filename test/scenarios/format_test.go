package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadRefuses(t *testing.T) {
	const head = "description: A story.\n"
	for name, test := range map[string]struct{ content, complaint string }{
		"no description":                {"steps: [{operator: start}]\n", "needs a description"},
		"no steps":                      {head, "needs a description and steps"},
		"an unknown field":              {head + "step: []\n", "step"},
		"an unknown verb":               {head + "steps: [{sleep: 5}]\n", "sleep"},
		"two verbs in a step":           {head + "steps: [{operator: start, delete: Pod/a}]\n", "exactly one verb"},
		"no verb in a step":             {head + "steps: [{}]\n", "exactly one verb"},
		"an unknown field of a verb":    {head + "steps: [{wait: {object: Pod/a, absent: true, until: 5s}}]\n", "until"},
		"an unknown field of start":     {head + "steps: [{operator: {start: {after: 1}}}]\n", "after"},
		"an unknown field of condition": {head + "steps: [{wait: {object: Pod/a, conditions: {Ready: {state: x}}}}]\n", "state"},
		"an unknown operator verb":      {head + "steps: [{operator: restart}]\n", "restart"},
		"an unknown type of patch":      {head + "steps: [{patch: {object: Pod/a, type: yaml, patch: {}}}]\n", "yaml"},
		"a file that is not there":      {head + "steps: [{apply: none.yaml}]\n", "none.yaml"},
		"an expectation of nothing":     {head + "steps: [{expect: {object: Pod/a}}]\n", "expects nothing"},
		"a count without a kind":        {head + "steps: [{expect: {object: Pod/a, count: 1}}]\n", "count needs a kind"},
		"unchanged since when":          {head + "steps: [{expect: {object: Pod/a, unchanged: [spec]}}]\n", "since"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "scenario.yaml"), []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), test.complaint) {
				t.Errorf("error %v, want one about %q", err, test.complaint)
			}
		})
	}
}

func TestMismatch(t *testing.T) {
	actual := map[string]any{
		"text": "hello", "count": 2.0, "on": true, "none": nil,
		"ports": []any{map[string]any{"name": "a", "port": 80.0}, map[string]any{"name": "b", "port": 81.0}},
		"verbs": []any{"get", "list"},
		"path":  "/",
	}
	for name, test := range map[string]struct {
		expected  any
		complaint string // part of it; empty for a match
	}{
		"a subset":                     {map[string]any{"text": "hello", "count": 2.0, "on": true}, ""},
		"another text":                 {map[string]any{"text": "hell"}, `.text: want "hell", is hello`},
		"another number":               {map[string]any{"count": 3.0}, ".count: want 3, is 2"},
		"a number for a text":          {map[string]any{"count": "2"}, ".count"},
		"a regular expression":         {map[string]any{"text": "/^h.*o$/"}, ""},
		"another regular expression":   {map[string]any{"text": "/^o/"}, ".text"},
		"a lone slash is a text":       {map[string]any{"path": "/"}, ""},
		"an absent key":                {map[string]any{"other": nil, "none": nil}, ""},
		"a key that should be absent":  {map[string]any{"text": nil}, "want it absent"},
		"a missing key":                {map[string]any{"other": "x"}, ".other"},
		"elements in any order":        {map[string]any{"ports": []any{map[string]any{"name": "b"}, map[string]any{"port": 80.0}}}, ""},
		"no such element":              {map[string]any{"ports": []any{map[string]any{"name": "a", "port": 81.0}}}, "no element matches"},
		"a list of texts":              {map[string]any{"verbs": []any{"get", "list"}}, ""},
		"a list of texts is not a set": {map[string]any{"verbs": []any{"list", "get"}}, ".verbs"},
		"a shorter list of texts":      {map[string]any{"verbs": []any{"get"}}, ".verbs"},
		"a list for a map":             {map[string]any{"ports": map[string]any{"name": "a"}}, "want a map"},
		"a map for a list":             {map[string]any{"text": []any{map[string]any{}}}, "want a list"},
	} {
		t.Run(name, func(t *testing.T) {
			got := mismatch("", test.expected, actual)
			if (got == "") != (test.complaint == "") || !strings.Contains(got, test.complaint) {
				t.Errorf("complaint %q, want %q", got, test.complaint)
			}
		})
	}
}

func TestConditionsAreOfThePresentGeneration(t *testing.T) {
	object := map[string]any{
		"metadata": map[string]any{"generation": 2.0},
		"status": map[string]any{
			"observedGeneration": 2.0,
			"conditions":         []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready", "message": "all well"}},
		},
	}
	for name, test := range map[string]struct {
		observed  float64
		expected  map[string]Condition
		complaint string
	}{
		"as expected":           {2, map[string]Condition{"Ready": {Status: "True", Reason: "Ready", Message: "/well/"}}, ""},
		"of an older spec":      {1, map[string]Condition{"Ready": {Status: "True"}}, "generation"},
		"another status":        {2, map[string]Condition{"Ready": {Status: "False"}}, "status"},
		"another reason":        {2, map[string]Condition{"Ready": {Status: "True", Reason: "Suspended"}}, "reason"},
		"not there":             {2, map[string]Condition{"Deployed": {Status: "True"}}, "absent"},
		"there, to be absent":   {2, map[string]Condition{"Ready": {Absent: true}}, "absent"},
		"absent as it ought be": {2, map[string]Condition{"Deployed": {Absent: true}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object["status"].(map[string]any)["observedGeneration"] = test.observed //nolint:forcetypeassert // made above
			got := conditions(test.expected, object)
			if (got == "") != (test.complaint == "") || !strings.Contains(got, test.complaint) {
				t.Errorf("complaint %q, want %q", got, test.complaint)
			}
		})
	}
}
