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
// aggregated discovery. A group whose server does not answer is left out, as
// Helm does, so that one broken API service does not stop every release.
func DiscoverCapabilities(dc discovery.DiscoveryInterface) (*Capabilities, error) {
	version, err := dc.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	groups, resources, err := dc.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
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
	return NewCapabilities(version.GitVersion, versions)
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
// the same order. Equal lists mean that these capabilities render the same.
func (c *Capabilities) Answers(asked []string) []string {
	out := make([]string, len(asked))
	for i, a := range asked {
		question := a
		if cut := strings.LastIndexByte(a, '='); cut >= 0 {
			question = a[:cut]
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
