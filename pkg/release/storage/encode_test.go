package storage_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/release/storage"
)

func packed(t *testing.T, write func(io.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if err := write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestDecodeRefuses(t *testing.T) {
	whole, err := storage.Encode(payload(t, "garden", 1))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"nothing":         nil,
		"something else":  []byte("plain text"),
		"half of it":      whole[:len(whole)/2],
		"no JSON":         packed(t, text(`{"name": "secret-word`)),
		"no release":      packed(t, text(`{}`)),
		"values no table": packed(t, text(`{"name":"a","version":1,"info":{},"chart":{},"config":"secret-word"}`)),
		"hook no object":  packed(t, text(`{"name":"a","version":1,"info":{},"chart":{},"hooks":[{"manifest":"secret-word"}]}`)),
		"a bomb": packed(t, func(w io.Writer) error {
			zeros := make([]byte, 1<<20)
			for range 40 {
				if _, err := w.Write(zeros); err != nil {
					return err
				}
			}
			return nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := storage.Decode(data)
			if !errors.Is(err, storage.ErrCorrupt) {
				t.Fatalf("error %v", err)
			}
			if strings.Contains(err.Error(), "secret-word") {
				t.Errorf("the error quotes the payload: %v", err)
			}
		})
	}
}

func TestDigest(t *testing.T) {
	base := storage.Digest(payload(t, "garden", 1))
	for name, test := range map[string]struct {
		change func(*storage.Payload)
		same   bool
	}{
		"status, times, description, inputs": {same: true, change: func(p *storage.Payload) {
			p.Status, p.LastDeployed, p.Description, p.InputsDigest = releasev1alpha1.StateFailed, deployed, "x", "1:x"
		}},
		"manifest": {change: func(p *storage.Payload) { p.Manifest += "# x\n" }},
		"hook":     {change: func(p *storage.Payload) { p.Hooks[0].Weight++ }},
		"hook object": {change: func(p *storage.Payload) {
			p.Hooks[0].Object.SetName("other")
		}},
		"values":   {change: func(p *storage.Payload) { p.Config["size"] = int64(9007199254740992) }},
		"revision": {change: func(p *storage.Payload) { p.Revision++ }},
	} {
		t.Run(name, func(t *testing.T) {
			p := payload(t, "garden", 1)
			test.change(p)
			if got := storage.Digest(p); (got == base) != test.same {
				t.Errorf("digest %s of %s", got, base)
			}
		})
	}
}

func TestManifestKeepsEveryValue(t *testing.T) {
	want := []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Odd", "metadata": map[string]any{"name": "numbers"},
			"max": int64(math.MaxInt64), "min": int64(math.MinInt64), "exact": int64(9007199254740993), "zero": int64(0),
			"half": 0.5, "tiny": 1e-300, "huge": 1e300, "none": nil, "on": true, "empty": map[string]any{}, "list": []any{},
		}},
		{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Odd", "metadata": map[string]any{"name": "strings"},
			"yes": "yes", "null": "null", "octal": "0755", "float": "1e3", "time": "12:30:45", "date": "2026-11-20", "tilde": "~",
			"empty": "", "space": " a ", "colon": "a: b", "hash": "a #b", "dash": "---\nkind: Secret\n---", "tab": "\ta\tb", "crlf": "a\r\nb",
			"unicode": "žluťoučký 🐎 \u2028 \u0085 \ufeff", "control": "\x01\x1b", "quote": `"'\`, "long": strings.Repeat("word ", 200),
			"lines": "a\n\n  b\n", "trailing": "a\n\n\n", "leading": "\n a", "template": "{{ .Values }}", "at": "@a", "percent": "%a", "bang": "!a", "star": "*a", "amp": "&a",
		}},
	}
	got, err := storage.DecodeManifest(manifest(t, want...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestManifestKeepsEveryCharacter(t *testing.T) {
	all := map[string]any{}
	for r := rune(0); r <= 0x1ffff; r++ {
		if utf8.ValidRune(r) {
			all[fmt.Sprintf("c%x", r)] = "a" + string(r) + "b"
		}
	}
	want := []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": all}}}
	got, err := storage.DecodeManifest(manifest(t, want...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeManifestOfHelm(t *testing.T) {
	got, err := storage.DecodeManifest("---\n# Source: web/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n# nothing\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range got {
		names = append(names, o.GetKind()+"/"+o.GetName())
	}
	if diff := cmp.Diff([]string{"ConfigMap/a", "Secret/b"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeManifestQuotesNothing(t *testing.T) {
	for name, manifest := range map[string]string{
		"no YAML":   "---\nkind: *secret-word",
		"no kind":   "---\ndata: {a: secret-word}",
		"no object": "--- \nsecret-word",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := storage.DecodeManifest(manifest)
			if err == nil || strings.Contains(err.Error(), "secret-word") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestPayloadHoldsNoChartBeyondItsMetadata(t *testing.T) {
	data, err := storage.Encode(payload(t, "garden", 1))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var release struct {
		Chart map[string]any `json:"chart"`
	}
	if err := json.NewDecoder(r).Decode(&release); err != nil {
		t.Fatal(err)
	}
	for key, value := range release.Chart {
		if key != "metadata" && value != nil && value != "0001-01-01T00:00:00Z" {
			t.Errorf("chart.%s is %v", key, value)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	p := payload(b, "garden", 1)
	p.Manifest = strings.Repeat(p.Manifest, 50)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := storage.Encode(p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	p := payload(b, "garden", 1)
	p.Manifest = strings.Repeat(p.Manifest, 50)
	data, err := storage.Encode(p)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ReportMetric(float64(len(data)), "bytes")
	for b.Loop() {
		if _, err := storage.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
