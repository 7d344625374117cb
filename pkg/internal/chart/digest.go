package chart

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
)

// recipe is the version of the way digests are made here. A change of the way
// changes the version: digests of different recipes are never compared.
const recipe = "1:"

// Digest of a value, "1:<sha256 in hex>", over its JSON with sorted keys.
// Numbers must be int64 or float64, as the API machinery has them: a
// json.Number keeps its spelling and digests by it. It panics on what JSON
// cannot hold (functions, channels, NaN), which no value from the API has.
func Digest(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("digest of %T: %v", v, err))
	}
	sum := sha256.Sum256(data)
	return recipe + hex.EncodeToString(sum[:])
}

// chartDigest covers what rendering reads: metadata, values, schema, templates
// and files of the chart and its subcharts. Chart.yaml counts by its content,
// as `helm package` writes it anew, and lock files do not count, as nothing
// renders from them.
func chartDigest(c *helmchart.Chart) string {
	h := sha256.New()
	hashChart(h, c)
	return recipe + hex.EncodeToString(h.Sum(nil))
}

func hashChart(h hash.Hash, c *helmchart.Chart) {
	metadata, err := json.Marshal(c.Metadata)
	if err != nil {
		// The loader read it from YAML, by way of JSON.
		panic(fmt.Sprintf("metadata of chart %s: %v", c.Name(), err))
	}
	hashEntry(h, "Chart.yaml", metadata)
	hashEntry(h, "values.schema.json", c.Schema)
	var files []*common.File
	for _, f := range c.Raw {
		if f.Name == "values.yaml" {
			files = append(files, f)
		}
	}
	files = append(files, c.Templates...)
	for _, f := range c.Files {
		if f.Name != "requirements.yaml" && f.Name != "requirements.lock" {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b *common.File) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range files {
		hashEntry(h, f.Name, f.Data)
	}
	subs := slices.Clone(c.Dependencies())
	slices.SortFunc(subs, func(a, b *helmchart.Chart) int {
		return strings.Compare(a.Name()+" "+a.Metadata.Version, b.Name()+" "+b.Metadata.Version)
	})
	for _, sub := range subs {
		hashEntry(h, "charts/"+sub.Name(), nil)
		hashChart(h, sub)
	}
	hashEntry(h, "end", nil)
}

// hashEntry writes name and content, each led by its length, so that no two
// different charts write the same bytes.
func hashEntry(h hash.Hash, name string, data []byte) {
	var length [8]byte
	for _, part := range [][]byte{[]byte(name), data} {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
}
