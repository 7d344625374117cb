// Package chartref loads a chart from wherever a reference points to.
package chartref

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/downloader"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/repo/v1"
)

// Ref points to a chart.
type Ref struct {
	// Location of the chart: a folder, a .tgz file or its URL, the URL of a chart
	// repository, or oci://registry/repository/chart.
	Location string
	// Name of the chart in a repository; needed when it holds several.
	Name string
	// Version of the chart in a repository or registry; the newest when empty.
	Version string
}

// Load loads the chart that a reference points to. Remote charts are fetched
// with Helm's own settings: its registry logins, certificates and proxies.
func Load(ref Ref) (*chart.Chart, error) {
	switch {
	case registry.IsOCI(ref.Location):
		return download(ref.Location, ref.Version)
	case isWeb(ref.Location) && isArchive(ref.Location):
		return download(ref.Location, "")
	case isWeb(ref.Location):
		location, err := findInRepository(ref)
		if err != nil {
			return nil, err
		}
		return download(location, "")
	}
	if _, err := os.Stat(ref.Location); err != nil {
		return nil, fmt.Errorf("the chart %s is no folder or file here, nor an https:// or oci:// address: %w", ref.Location, err)
	}
	c, err := loader.Load(ref.Location)
	if err != nil {
		return nil, fmt.Errorf("loading the chart %s: %w", ref.Location, err)
	}
	return c, nil
}

func isWeb(location string) bool {
	return strings.HasPrefix(location, "https://") || strings.HasPrefix(location, "http://")
}

func isArchive(location string) bool {
	u, err := url.Parse(location)
	return err == nil && (strings.HasSuffix(u.Path, ".tgz") || strings.HasSuffix(u.Path, ".tar.gz"))
}

// download fetches one archive into a temporary folder and loads it.
func download(location, version string) (*chart.Chart, error) {
	dir, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return nil, fmt.Errorf("fetching the chart %s: %w", location, err)
	}
	defer os.RemoveAll(dir)
	settings := cli.New()
	client, err := registry.NewClient(registry.ClientOptCredentialsFile(settings.RegistryConfig), registry.ClientOptWriter(io.Discard))
	if err != nil {
		return nil, fmt.Errorf("fetching the chart %s: %w", location, err)
	}
	d := downloader.ChartDownloader{
		Out:              io.Discard,
		Verify:           downloader.VerifyNever,
		Getters:          getter.All(settings),
		RegistryClient:   client,
		RepositoryConfig: settings.RepositoryConfig,
		RepositoryCache:  settings.RepositoryCache,
		ContentCache:     settings.ContentCache,
	}
	if registry.IsOCI(location) {
		d.Options = []getter.Option{getter.WithRegistryClient(client)}
	}
	file, _, err := d.DownloadTo(location, version, dir)
	if err != nil {
		return nil, fmt.Errorf("fetching the chart %s: %w", location, err)
	}
	c, err := loader.LoadFile(file)
	if err != nil {
		return nil, fmt.Errorf("loading the chart %s: %w", location, err)
	}
	return c, nil
}

// findInRepository reads the index of a chart repository and picks a chart.
func findInRepository(ref Ref) (string, error) {
	index, err := readIndex(ref.Location)
	if err != nil {
		return "", fmt.Errorf("reading the chart repository %s: %w", ref.Location, err)
	}
	name := ref.Name
	if name == "" {
		var names []string
		for n := range index.Entries {
			names = append(names, n)
		}
		if len(names) != 1 {
			slices.Sort(names)
			return "", fmt.Errorf("the chart repository %s holds %d charts; name one with --chart-name: %s",
				ref.Location, len(names), strings.Join(names, ", "))
		}
		name = names[0]
	}
	version, err := index.Get(name, ref.Version)
	if err != nil {
		return "", fmt.Errorf("the chart repository %s has no chart %s %s: %w", ref.Location, name, ref.Version, err)
	}
	if len(version.URLs) == 0 {
		return "", fmt.Errorf("the chart repository %s gives no address for the chart %s %s", ref.Location, name, version.Version)
	}
	return repo.ResolveReferenceURL(ref.Location, version.URLs[0])
}

func readIndex(location string) (*repo.IndexFile, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, err
	}
	u.Path = path.Join(u.Path, "index.yaml")
	g, err := getter.All(cli.New()).ByScheme(u.Scheme)
	if err != nil {
		return nil, err
	}
	data, err := g.Get(u.String(), getter.WithURL(location))
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "index-*.yaml")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	if _, err := data.WriteTo(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	return repo.LoadIndexFile(file.Name())
}
