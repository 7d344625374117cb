package image

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// keyring makes a Keyring of one secret for each argument, named by its place,
// with an entry for each of its blank-separated keys.
func keyring(t testing.TB, secrets ...string) *Keyring {
	t.Helper()
	var all []Entry
	for i, keys := range secrets {
		var entries []string
		for _, key := range strings.Fields(keys) {
			entries = append(entries, fmt.Sprintf(`%q:{"username":"u","password":"%d-%s"}`, key, i, key))
		}
		parsed, problems := ParseSecret(fmt.Sprintf("s%d", i), corev1.SecretTypeDockerConfigJson, dockerConfig("{"+strings.Join(entries, ",")+"}"))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		all = append(all, parsed...)
	}
	return NewKeyring(all...)
}

func passwords(credentials []Credential) []string {
	var all []string
	for _, c := range credentials {
		if c.Secret == "" {
			all = append(all, anonymousName)
			continue
		}
		all = append(all, c.config().Password)
	}
	return all
}

func TestLookupFollowsTheKubelet(t *testing.T) {
	for name, tt := range map[string]struct {
		secrets []string
		image   string
		want    string
	}{
		"nothing":                          {nil, "r.io/x", ""},
		"host":                             {[]string{"r.io"}, "r.io/x", "0-r.io"},
		"another host":                     {[]string{"r.io"}, "q.io/x", ""},
		"hub by its v1 address":            {[]string{"https://index.docker.io/v1/"}, "nginx", "0-https://index.docker.io/v1/"},
		"hub without the last slash":       {[]string{"https://index.docker.io/v1"}, "nginx", "0-https://index.docker.io/v1"},
		"hub by v2":                        {[]string{"https://index.docker.io/v2/"}, "nginx", "0-https://index.docker.io/v2/"},
		"hub by index":                     {[]string{"index.docker.io"}, "nginx", "0-index.docker.io"},
		"hub by its name":                  {[]string{"docker.io"}, "nginx", "0-docker.io"},
		"hub by its name with a scheme":    {[]string{"https://docker.io"}, "team/app:1", "0-https://docker.io"},
		"hub by its registry":              {[]string{"registry-1.docker.io"}, "docker.io/team/app", "0-registry-1.docker.io"},
		"hub is not another registry":      {[]string{"docker.io"}, "r.io/nginx", ""},
		"hub's official images":            {[]string{"docker.io/library"}, "nginx", "0-docker.io/library"},
		"hub's other images":               {[]string{"docker.io/library"}, "team/app", ""},
		"port equal":                       {[]string{"r.io:5000"}, "r.io:5000/x", "0-r.io:5000"},
		"port in the key only":             {[]string{"r.io:443"}, "r.io/x", ""},
		"port in the image only":           {[]string{"r.io"}, "r.io:5000/x", ""},
		"port differs":                     {[]string{"r.io:5000"}, "r.io:6000/x", ""},
		"port of an IPv6 address":          {[]string{"[::1]:5000"}, "[::1]:5000/x", "0-[::1]:5000"},
		"path":                             {[]string{"r.io/a"}, "r.io/a/x", "0-r.io/a"},
		"path as a mere prefix":            {[]string{"r.io/a"}, "r.io/ab/x", "0-r.io/a"},
		"path of another":                  {[]string{"r.io/a"}, "r.io/b/x", ""},
		"glob for a label":                 {[]string{"*.r.io"}, "eu.r.io/x", "0-*.r.io"},
		"glob is one label":                {[]string{"*.r.io"}, "a.eu.r.io/x", ""},
		"glob needs a label":               {[]string{"*.r.io"}, "r.io/x", ""},
		"glob in a label":                  {[]string{"eu-*.r.io"}, "eu-1.r.io/x", "0-eu-*.r.io"},
		"globs for all labels":             {[]string{"*.*"}, "r.io/x", "0-*.*"},
		"globs and port":                   {[]string{"*.io:5000"}, "r.io/x", ""},
		"name before glob":                 {[]string{"*.r.io", "eu.r.io"}, "eu.r.io/x", "1-eu.r.io 0-*.r.io"},
		"longer path first":                {[]string{"r.io r.io/a/b r.io/a"}, "r.io/a/b/x", "0-r.io/a/b 0-r.io/a 0-r.io"},
		"all secrets in order":             {[]string{"r.io", "q.io", "r.io"}, "r.io/x", "0-r.io 2-r.io"},
		"specific before secrets' order":   {[]string{"r.io", "r.io/a"}, "r.io/a/x", "1-r.io/a 0-r.io"},
		"a tag and a digest do not matter": {[]string{"r.io/x"}, "r.io/x:1@" + digestA, "0-r.io/x"},
	} {
		t.Run(name, func(t *testing.T) {
			want := append(strings.Fields(tt.want), anonymousName)
			if diff := cmp.Diff(want, passwords(keyring(t, tt.secrets...).Lookup(mustParse(t, tt.image)))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLookupNamesEqualCredentialsOnce(t *testing.T) {
	var all []Entry
	for _, secret := range []string{"first", "second"} {
		entries, _ := ParseSecret(secret, corev1.SecretTypeDockerConfigJson, dockerConfig(`{"r.io":{"auth":"dTpw"}}`))
		all = append(all, entries...)
	}
	found := NewKeyring(all...).Lookup(mustParse(t, "r.io/x"))
	if len(found) != 2 || found[0].Secret != "first" {
		t.Errorf("found %v", found)
	}
}

func TestLookupInNoKeyring(t *testing.T) {
	var none *Keyring
	if got := none.Lookup(mustParse(t, "r.io/x")); len(got) != 1 || got[0].Secret != "" {
		t.Errorf("found %v", got)
	}
}
