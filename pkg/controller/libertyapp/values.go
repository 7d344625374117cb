package libertyapp

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
)

// imageValues reads what the chart's values say of the application's image,
// with the chart's own values where the user gave none.
type imageValues struct {
	repository, tag, pullPolicy, pullSecret string
}

func readImageValues(c *chart.Chart, user map[string]any) imageValues {
	given, overridden := user["image"]
	table, _ := given.(map[string]any)
	read := func(key string) string {
		if value, ok := table[key]; ok {
			return text(value) // null takes the chart's own value away, as in Helm
		}
		if overridden && given == nil {
			return ""
		}
		return text(c.Default("image", key))
	}
	return imageValues{
		repository: read("repository"), tag: read("tag"),
		pullPolicy: read("pullPolicy"), pullSecret: read("pullSecret"),
	}
}

// digestTag matches a tag that is a digest, which the chart joins to the
// repository by an at sign.
var digestTag = regexp.MustCompile(`^[a-z0-9]+:[0-9a-fA-F]{32,}$`)

// image is the application's image as the chart renders it; "" if there is none.
func (v imageValues) image() string {
	switch {
	case v.repository == "" || v.tag == "":
		return v.repository
	case digestTag.MatchString(v.tag):
		return v.repository + "@" + v.tag
	default:
		return v.repository + ":" + v.tag
	}
}

// text is a scalar as templates print it; "" for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64, bool:
		return fmt.Sprint(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return ""
	}
}
