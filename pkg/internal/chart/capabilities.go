package chart

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"k8s.io/client-go/discovery"
)

// Capabilities is a snapshot of what a cluster serves. It is immutable.
type Capabilities struct {
	kube     common.KubeVersion
	versions common.VersionSet // sorted
	// failed are the API versions ("metrics.k8s.io/v1beta1") whose server did
	// not answer, sorted; of unknown ones, no earlier answer is known either.
	failed, unknown []string
}

// NewCapabilities makes a snapshot of a cluster of the given version
// ("v1.37.2") that serves the given API versions and kinds ("apps/v1",
// "apps/v1/Deployment").
func NewCapabilities(kubeVersion string, apiVersions []string) (*Capabilities, error) {
	kube, err := common.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, fmt.Errorf("kubernetes version %q: %w", kubeVersion, err)
	}
	versions := slices.Compact(slices.Sorted(slices.Values(apiVersions)))
	return &Capabilities{kube: *kube, versions: versions}, nil
}

// defaultCapabilities are those that Helm assumes when there is no cluster.
func defaultCapabilities() *Capabilities {
	helm := common.DefaultCapabilities
	return &Capabilities{kube: helm.KubeVersion, versions: slices.Compact(slices.Sorted(slices.Values(helm.APIVersions)))}
}

// DiscoverCapabilities asks a cluster: three requests where it serves
// aggregated discovery. One broken API service must neither stop every release
// nor look as if its kinds were removed: what its server does not tell is taken
// from before, the last snapshot, which may be nil.
func DiscoverCapabilities(dc discovery.DiscoveryInterface, before *Capabilities) (*Capabilities, error) {
	version, err := dc.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	groups, resources, err := dc.ServerGroupsAndResources()
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return nil, fmt.Errorf("ask the API server for its API versions: %w", err)
	}
	var versions []string
	for _, g := range groups {
		for _, v := range g.Versions {
			versions = append(versions, v.GroupVersion)
		}
	}
	for _, list := range resources {
		for i := range list.APIResources {
			versions = append(versions, path.Join(list.GroupVersion, list.APIResources[i].Kind))
		}
	}
	c, err := NewCapabilities(version.GitVersion, versions)
	if err != nil {
		return nil, err
	}
	for gv := range failed {
		c.failed = append(c.failed, gv.String())
	}
	slices.Sort(c.failed)
	c.keep(before)
	return c, nil
}

// keep takes over what before knows of the API versions that failed.
func (c *Capabilities) keep(before *Capabilities) {
	for _, gv := range c.failed {
		if before == nil || slices.Contains(before.unknown, gv) {
			c.unknown = append(c.unknown, gv)
			continue
		}
		for _, v := range before.versions {
			if within(v, gv) {
				c.versions = append(c.versions, v)
			}
		}
	}
	slices.Sort(c.versions)
	c.versions = slices.Compact(c.versions)
}

// within says whether a question is about an API version or a kind of it.
func within(question, gv string) bool {
	return question == gv || strings.HasPrefix(question, gv+"/")
}

// Failed names the API versions whose server did not answer.
func (c *Capabilities) Failed() []string { return slices.Clone(c.failed) }

// Equal says whether two snapshots answer everything alike.
func (c *Capabilities) Equal(other *Capabilities) bool {
	return other != nil && c.kube.String() == other.kube.String() &&
		slices.Equal(c.versions, other.versions) && slices.Equal(c.unknown, other.unknown)
}

// Remembering returns the snapshot with the answers of an earlier render
// (Rendered.Asked) where nothing is known: an API server that is down when the
// operator starts takes nothing from a release.
func (c *Capabilities) Remembering(asked []string) *Capabilities {
	if len(c.unknown) == 0 {
		return c
	}
	out := *c
	out.versions = slices.Clone(c.versions)
	for _, a := range asked {
		question, yes := strings.CutSuffix(a, "=true")
		if yes && slices.ContainsFunc(c.unknown, func(gv string) bool { return within(question, gv) }) {
			out.versions = append(out.versions, question)
		}
	}
	slices.Sort(out.versions)
	out.versions = slices.Compact(out.versions)
	return &out
}

// KubeVersion of the cluster, such as v1.37.2.
func (c *Capabilities) KubeVersion() string { return c.kube.Version }

// Has reports whether the cluster serves an API version ("apps/v1") or a kind
// ("apps/v1/Deployment").
func (c *Capabilities) Has(apiVersion string) bool {
	_, found := slices.BinarySearch(c.versions, apiVersion)
	return found
}

// Questions that a render can ask besides API versions, which are asked by
// their own name. No API version looks like these.
const (
	askKubeVersion   = "kubeVersion"
	askAllVersions   = "apiVersions"
	askHelmVersion   = "helmVersion"
	askConstraintPre = "kubeVersion("
)

// answer to one question, as text.
func (c *Capabilities) answer(question string) string {
	switch {
	case question == askKubeVersion:
		return c.kube.Version
	case question == askAllVersions:
		return Digest([]string(c.versions))
	case question == askHelmVersion:
		return common.DefaultCapabilities.HelmVersion.Version
	case strings.HasPrefix(question, askConstraintPre):
		constraint := strings.TrimSuffix(strings.TrimPrefix(question, askConstraintPre), ")")
		return fmt.Sprint(c.fits(constraint))
	default:
		return fmt.Sprint(c.Has(question))
	}
}

// fits reports whether the cluster's version meets a kubeVersion constraint.
func (c *Capabilities) fits(constraint string) bool {
	return chartutil.IsCompatibleRange(constraint, c.kube.String())
}

// Answers asks the questions of an earlier render (Rendered.Asked, each
// "question=answer") of this snapshot and returns them with its answers, in
// the same order. Equal lists mean that these capabilities render the same, as
// far as is known: all API versions together are as they were while some of them
// are unknown.
func (c *Capabilities) Answers(asked []string) []string {
	out := make([]string, len(asked))
	for i, a := range asked {
		question := a
		if cut := strings.LastIndexByte(a, '='); cut >= 0 {
			question = a[:cut]
		}
		if question == askAllVersions && len(c.unknown) > 0 {
			out[i] = a
			continue
		}
		out[i] = c.answered(question)
	}
	return out
}

// answered is a question with its answer, as it stands in Rendered.Asked.
func (c *Capabilities) answered(question string) string {
	return question + "=" + c.answer(question)
}

// AskedDigest is the digest of caps.Answers(asked): what a render that asks
// the same questions depends on, without rendering.
func (c *Chart) AskedDigest(caps *Capabilities, asked []string) string {
	return Digest(caps.Answers(asked))
}
