// Package chartref brings a chart from wherever a reference points to onto the
// disk.
package chartref

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

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
	// PlainHTTP talks to a registry without TLS.
	PlainHTTP bool
}

// Local is a chart on disk.
type Local struct {
	// Path of the chart's folder or archive.
	Path string
	// temporary is the folder to remove when the chart is no longer needed.
	temporary string
}

// Close removes what was fetched.
func (l *Local) Close() error {
	if l.temporary == "" {
		return nil
	}
	return os.RemoveAll(l.temporary)
}

// Fetch brings the chart that a reference points to onto the disk, unless it is
// there. Remote charts are fetched with Helm's own settings: its registry
// logins, certificates and proxies. The caller closes the result.
func Fetch(ref Ref) (*Local, error) {
	switch {
	case registry.IsOCI(ref.Location):
		return download(ref, ref.Location)
	case isWeb(ref.Location) && isArchive(ref.Location):
		return download(ref, ref.Location)
	case isWeb(ref.Location):
		location, err := findInRepository(ref)
		if err != nil {
			return nil, err
		}
		return download(ref, location)
	}
	if _, err := os.Stat(ref.Location); err != nil {
		return nil, fmt.Errorf("the chart %s is no folder or file here, nor an https:// or oci:// address: %w", ref.Location, err)
	}
	return &Local{Path: ref.Location}, nil
}

func isWeb(location string) bool {
	return strings.HasPrefix(location, "https://") || strings.HasPrefix(location, "http://")
}

func isArchive(location string) bool {
	u, err := url.Parse(location)
	return err == nil && (strings.HasSuffix(u.Path, ".tgz") || strings.HasSuffix(u.Path, ".tar.gz"))
}

// download fetches one archive into a temporary folder.
func download(ref Ref, location string) (*Local, error) {
	dir, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return nil, fmt.Errorf("fetching the chart %s: %w", location, err)
	}
	local := &Local{temporary: dir}
	if local.Path, err = downloadTo(dir, ref, location); err != nil {
		return nil, errors.Join(fmt.Errorf("fetching the chart %s: %w", location, err), local.Close())
	}
	return local, nil
}

func downloadTo(dir string, ref Ref, location string) (string, error) {
	settings := cli.New()
	options := []registry.ClientOption{registry.ClientOptCredentialsFile(settings.RegistryConfig), registry.ClientOptWriter(io.Discard)}
	if ref.PlainHTTP {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return "", err
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
	version := ""
	if registry.IsOCI(location) {
		d.Options = []getter.Option{getter.WithRegistryClient(client), getter.WithPlainHTTP(ref.PlainHTTP)}
		version = ref.Version
	}
	file, _, err := d.DownloadTo(location, version, dir)
	return file, err
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
	// Helm reads an index from a file only.
	dir, err := os.MkdirTemp("", "index-")
	if err != nil {
		return nil, err
	}
	index, err := loadIndex(filepath.Join(dir, "index.yaml"), data.Bytes())
	return index, errors.Join(err, os.RemoveAll(dir))
}

func loadIndex(file string, data []byte) (*repo.IndexFile, error) {
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, err
	}
	return repo.LoadIndexFile(file)
}
