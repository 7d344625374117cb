package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/logs"
	"github.com/google/go-containerregistry/pkg/v1/random"
)

func authConfig(u, p string) authn.AuthConfig { return authn.AuthConfig{Username: u, Password: p} }

// resolve fails the test on an error.
func resolve(t *testing.T, r *Resolver, ref Ref, credentials []Credential, o TransportOptions) Resolution {
	t.Helper()
	got, err := r.Digest(t.Context(), ref, credentials, o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// refuse returns the error, which must have this reason.
func refuse(t *testing.T, r *Resolver, ref Ref, credentials []Credential, o TransportOptions, want Reason) *Error {
	t.Helper()
	got, err := r.Digest(t.Context(), ref, credentials, o)
	var known *Error
	if !errors.As(err, &known) {
		t.Fatalf("resolved as %q, error %v", got.Digest, err)
	}
	if known.Reason != want {
		t.Errorf("reason %s, want %s: %v", known.Reason, want, err)
	}
	return known
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

func TestSecondPollIsOneRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		auth        func(*faultyRegistry) http.HandlerFunc
		credentials []Credential
		first       []string
	}{
		"anonymous": {
			first: []string{"GET /v2/", "HEAD /v2/app/manifests/1"},
		},
		"basic": {
			auth:        func(*faultyRegistry) http.HandlerFunc { return basic },
			credentials: []Credential{login("pull", password)},
			first:       []string{"GET /v2/", "HEAD /v2/app/manifests/1"},
		},
		"bearer, token on the same host": {
			auth:        func(f *faultyRegistry) http.HandlerFunc { return bearer(f.URL + "/token") },
			credentials: []Credential{login("pull", password)},
			first:       []string{"GET /v2/", "GET /token", "HEAD /v2/app/manifests/1"},
		},
		"second credential of three": {
			auth:        func(f *faultyRegistry) http.HandlerFunc { return bearer(f.URL + "/token") },
			credentials: []Credential{login("old", "wrong"), login("pull", password), Anonymous()},
			first:       []string{"GET /v2/", "GET /token", "GET /v2/", "GET /token", "HEAD /v2/app/manifests/1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistry(t)
			want := f.pushRandom("app:1")
			if tt.auth != nil {
				f.breakWith(tt.auth(f))
			}
			r, _ := newTestResolver()
			got := resolve(t, r, f.ref("app:1"), tt.credentials, insecure)
			if got.Digest != want {
				t.Errorf("digest %s, want %s", got.Digest, want)
			}
			if len(tt.credentials) > 0 && got.Credential.Secret != "pull" {
				t.Errorf("accepted %s", got.Credential)
			}
			if diff := cmp.Diff(tt.first, f.taken()); diff != "" {
				t.Errorf("first poll: -want +got:\n%s", diff)
			}
			moved := f.pushRandom("app:1")
			if got := resolve(t, r, f.ref("app:1"), tt.credentials, insecure); got.Digest != moved || moved == want {
				t.Errorf("digest %s after the tag moved to %s", got.Digest, moved)
			}
			if diff := cmp.Diff([]string{"HEAD /v2/app/manifests/1"}, f.taken()); diff != "" {
				t.Errorf("second poll: -want +got:\n%s", diff)
			}
		})
	}
}

func TestRequestsNameTheOperator(t *testing.T) {
	f := newRegistry(t)
	f.pushRandom("app:1")
	r, _ := newTestResolver()
	resolve(t, r, f.ref("app:1"), nil, insecure)
	for _, header := range f.seenHeaders() {
		if got := header.Get("User-Agent"); got != "go-helm-operator/v1.2.3" {
			t.Errorf("User-Agent %q", got)
		}
	}
	if len(f.taken()) == 0 {
		t.Error("no request seen")
	}
}

func TestDigestOfAnIndexIsTheIndex(t *testing.T) {
	f := newRegistry(t)
	index, err := random.Index(64, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := f.push("app:multi", index)
	for name, fault := range map[string]http.HandlerFunc{"HEAD": nil, "GET": headGives(http.StatusMethodNotAllowed)} {
		t.Run(name, func(t *testing.T) {
			f.breakWith(fault)
			r, _ := newTestResolver()
			if got := resolve(t, r, f.ref("app:multi"), nil, insecure); got.Digest != want {
				t.Errorf("digest %s, want the index %s", got.Digest, want)
			}
		})
	}
}

func TestPinnedImageIsNotAskedFor(t *testing.T) {
	f := newRegistry(t)
	r, _ := newTestResolver()
	if got := resolve(t, r, f.ref("app:1@"+digestA), nil, insecure); got.Digest != digestA {
		t.Errorf("digest %s", got.Digest)
	}
	if got := f.taken(); len(got) > 0 {
		t.Errorf("requests %v", got)
	}
}

func headGives(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(status)
		}
	}
}

// tamper changes headers of the registry's answers to some methods.
func tamper(f *faultyRegistry, change func(http.Header), methods ...string) http.HandlerFunc {
	backend := f.Config.Handler
	return manifests(func(w http.ResponseWriter, r *http.Request) {
		f.setQuiet(true)
		defer f.setQuiet(false)
		recorder := httptest.NewRecorder()
		backend.ServeHTTP(recorder, r)
		for key, values := range recorder.Header() {
			w.Header()[key] = values
		}
		if slices.Contains(methods, r.Method) {
			change(w.Header())
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
	})
}

func TestGetWhereHeadIsNotSupported(t *testing.T) {
	drop := func(header string) func(*faultyRegistry) http.HandlerFunc {
		return func(f *faultyRegistry) http.HandlerFunc {
			return tamper(f, func(h http.Header) { h[header] = nil }, http.MethodHead, http.MethodGet)
		}
	}
	for name, fault := range map[string]func(*faultyRegistry) http.HandlerFunc{
		"405":              func(*faultyRegistry) http.HandlerFunc { return headGives(http.StatusMethodNotAllowed) },
		"501":              func(*faultyRegistry) http.HandlerFunc { return headGives(http.StatusNotImplemented) },
		"no digest header": drop("Docker-Content-Digest"),
		"no content type":  drop("Content-Type"),
		"no content length": func(f *faultyRegistry) http.HandlerFunc {
			return tamper(f, func(h http.Header) { h.Del("Content-Length"); h.Set("Transfer-Encoding", "chunked") }, http.MethodHead)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistry(t)
			want := f.pushRandom("app:1")
			f.breakWith(fault(f))
			r, clock := newTestResolver()
			poll := func(requests ...string) {
				t.Helper()
				if got := resolve(t, r, f.ref("app:1"), nil, insecure); got.Digest != want {
					t.Errorf("digest %s, want %s", got.Digest, want)
				}
				if diff := cmp.Diff(requests, f.taken()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
			poll("GET /v2/", "HEAD /v2/app/manifests/1", "GET /v2/app/manifests/1")
			poll("GET /v2/app/manifests/1") // remembered for the host
			clock.SetTime(clock.Now().Add(25 * time.Hour))
			f.breakWith(nil)
			poll("GET /v2/", "HEAD /v2/app/manifests/1") // and asked again after a day
		})
	}
}

func TestDigestHeaderMustBeRight(t *testing.T) {
	set := func(value string) func(http.Header) {
		return func(h http.Header) { h.Set("Docker-Content-Digest", value) }
	}
	head, get := http.MethodHead, http.MethodGet
	for name, tt := range map[string]struct {
		value   string
		methods []string
		onlyGet bool
		want    string
	}{
		"HEAD, no digest":     {password, []string{head}, false, "Docker-Content-Digest header is not a digest"},
		"HEAD, short digest":  {"sha256:abcd", []string{head}, false, "Docker-Content-Digest header is not a digest"},
		"GET, no digest":      {password, []string{get}, true, "Docker-Content-Digest header is not a digest"},
		"GET, another digest": {digestA, []string{get}, true, "Docker-Content-Digest header does not fit the manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistry(t)
			f.pushRandom("app:1")
			wrong := tamper(f, set(tt.value), tt.methods...)
			f.breakWith(func(w http.ResponseWriter, r *http.Request) {
				if tt.onlyGet && r.Method == head {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				wrong(w, r)
			})
			r, _ := newTestResolver()
			err := refuse(t, r, f.ref("app:1"), nil, insecure, Unreachable)
			contains(t, err.Error(), "image "+f.host+"/app:1: registry "+f.host, tt.want)
			if strings.Contains(err.Error(), password) {
				t.Errorf("the header is repeated: %v", err)
			}
		})
	}
}

func TestNextCredentialOnRefusal(t *testing.T) {
	for name, fault := range map[string]func(*faultyRegistry) http.HandlerFunc{
		"401 basic":        func(*faultyRegistry) http.HandlerFunc { return basic },
		"401 of the token": func(f *faultyRegistry) http.HandlerFunc { return bearer(f.URL + "/token") },
		"403 of the manifest": func(*faultyRegistry) http.HandlerFunc {
			return manifests(func(w http.ResponseWriter, r *http.Request) {
				if _, p, _ := r.BasicAuth(); p != password {
					w.WriteHeader(http.StatusForbidden)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistry(t)
			want := f.pushRandom("app:1")
			f.breakWith(fault(f))
			r, _ := newTestResolver()
			credentials := []Credential{login("old", "wrong"), login("pull", password), Anonymous()}
			got := resolve(t, r, f.ref("app:1"), credentials, insecure)
			if got.Digest != want || got.Credential.Secret != "pull" {
				t.Errorf("digest %s by %s, want %s by pull", got.Digest, got.Credential, want)
			}
			err := refuse(t, r, f.ref("app:1"), []Credential{login("old", "wrong"), login("older", "wrong, too"), Anonymous()}, insecure, AuthenticationFailed)
			contains(t, err.Error(), f.host+"/app:1", "registry "+f.host, "tried in this order: secret old, secret older, anonymous")
		})
	}
}

func TestAcceptedCredentialThatIsRefusedLater(t *testing.T) {
	f := newRegistry(t)
	want := f.pushRandom("app:1")
	allow := func(allowed string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if _, p, _ := r.BasicAuth(); p != allowed {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		}
	}
	f.breakWith(allow(password))
	r, _ := newTestResolver()
	credentials := []Credential{login("one", "first"), login("two", password)}
	if got := resolve(t, r, f.ref("app:1"), credentials, insecure); got.Credential.Secret != "two" {
		t.Errorf("accepted %s", got.Credential)
	}
	f.breakWith(allow("first"))
	if got := resolve(t, r, f.ref("app:1"), credentials, insecure); got.Credential.Secret != "one" || got.Digest != want {
		t.Errorf("digest %s by %s", got.Digest, got.Credential)
	}
}

func TestRegistryThatBeginsToDemandATokenIsAskedAgain(t *testing.T) {
	f := newRegistry(t)
	want := f.pushRandom("app:1")
	r, _ := newTestResolver()
	credentials := []Credential{login("pull", password)}
	resolve(t, r, f.ref("app:1"), credentials, insecure)
	f.breakWith(bearer(f.URL + "/token"))
	if got := resolve(t, r, f.ref("app:1"), credentials, insecure); got.Digest != want {
		t.Errorf("digest %s, want %s", got.Digest, want)
	}
}

func TestTagNotFound(t *testing.T) {
	f := newRegistry(t)
	f.pushRandom("app:1")
	r, _ := newTestResolver()
	err := refuse(t, r, f.ref("app:2"), []Credential{login("pull", password), Anonymous()}, insecure, TagNotFound)
	contains(t, err.Error(), "image "+f.host+"/app:2: registry "+f.host+" has no such repository or tag, as far as it shows to secret pull")
	if diff := cmp.Diff([]string{"GET /v2/", "HEAD /v2/app/manifests/2"}, f.taken()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNotFoundAfterARefusalIsARefusal(t *testing.T) {
	f := newRegistry(t)
	f.breakWith(manifests(func(w http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); ok {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	r, _ := newTestResolver()
	err := refuse(t, r, f.ref("app:1"), []Credential{login("pull", password), Anonymous()}, insecure, AuthenticationFailed)
	contains(t, err.Error(), "the credential tried last finds no such image", "tried in this order: secret pull, anonymous")
}

func TestThrottling(t *testing.T) {
	_, clock := newTestResolver()
	for name, tt := range map[string]struct {
		status int
		header http.Header
		want   ThrottledError
	}{
		"seconds":         {429, http.Header{"Retry-After": {"30"}}, ThrottledError{RetryAfter: 30 * time.Second}},
		"date":            {429, http.Header{"Retry-After": {clock.Now().Add(2 * time.Minute).Format(http.TimeFormat)}}, ThrottledError{RetryAfter: 2 * time.Minute}},
		"past date":       {429, http.Header{"Retry-After": {clock.Now().Add(-time.Hour).Format(http.TimeFormat)}}, ThrottledError{RetryAfter: time.Second}},
		"too long":        {429, http.Header{"Retry-After": {"864000"}}, ThrottledError{RetryAfter: 6 * time.Hour}},
		"quota window":    {429, http.Header{"Ratelimit-Remaining": {"0;w=3600"}}, ThrottledError{RetryAfter: time.Hour, Quota: true}},
		"wish and window": {429, http.Header{"Ratelimit-Limit": {"100;w=3600"}, "Retry-After": {"5"}}, ThrottledError{RetryAfter: 5 * time.Second}},
		"nothing said":    {429, nil, ThrottledError{}},
		"nonsense":        {429, http.Header{"Retry-After": {"soon"}, "Ratelimit-Limit": {"100;w=x"}}, ThrottledError{}},
		"503 that says":   {503, http.Header{"Retry-After": {"7"}}, ThrottledError{RetryAfter: 7 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistry(t)
			f.pushRandom("app:1")
			f.breakWith(manifests(func(w http.ResponseWriter, _ *http.Request) {
				for key, values := range tt.header {
					w.Header()[key] = values
				}
				w.WriteHeader(tt.status)
			}))
			r, _ := newTestResolver()
			err := refuse(t, r, f.ref("app:1"), []Credential{login("one", "1"), login("two", "2")}, insecure, Throttled)
			var throttled *ThrottledError
			if !errors.As(err, &throttled) {
				t.Fatalf("no ThrottledError in %v", err)
			}
			tt.want.Host = f.host
			if diff := cmp.Diff(tt.want, *throttled); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			// Neither a retry nor the other credential.
			if diff := cmp.Diff([]string{"GET /v2/", "HEAD /v2/app/manifests/1"}, f.taken()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestThrottledByErrorCode(t *testing.T) {
	f := newRegistry(t)
	f.breakWith(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"errors":[{"code":"TOOMANYREQUESTS"}]}`)
	})
	r, _ := newTestResolver()
	contains(t, refuse(t, r, f.ref("app:1"), nil, insecure, Throttled).Error(), "registry "+f.host+" limits the rate of requests")
}

func TestQuotaLeftIsReported(t *testing.T) {
	f := newRegistry(t)
	f.pushRandom("app:1")
	r, _ := newTestResolver()
	if got := resolve(t, r, f.ref("app:1"), nil, insecure); got.Remaining != -1 {
		t.Errorf("remaining %d where nothing is said", got.Remaining)
	}
	f.breakWith(manifests(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ratelimit-remaining", "76;w=21600") }))
	if got := resolve(t, r, f.ref("app:1"), nil, insecure); got.Remaining != 76 {
		t.Errorf("remaining %d", got.Remaining)
	}
}

func TestUnreachable(t *testing.T) {
	f := newRegistry(t)
	gone := newRegistry(t)
	gone.Close()
	for name, tt := range map[string]struct {
		ref   Ref
		fault http.HandlerFunc
		want  string
	}{
		"503":              {f.ref("app:1"), headGives(http.StatusServiceUnavailable), "503 Service Unavailable"},
		"500 of handshake": {f.ref("app:1"), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "500 Internal"},
		"no registry":      {f.ref("app:1"), http.NotFound, "404 Not Found"},
		"nobody listens":   {gone.ref("app:1"), nil, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			f.breakWith(tt.fault)
			r, _ := newTestResolver()
			err := refuse(t, r, tt.ref, nil, insecure, Unreachable)
			contains(t, err.Error(), "image "+tt.ref.String(), "registry "+tt.ref.Host()+" gave no usable answer", tt.want)
		})
	}
}

func TestCancelledPollSaysSo(t *testing.T) {
	f := newRegistry(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, _ := newTestResolver()
	if _, err := r.Digest(ctx, f.ref("app:1"), nil, insecure); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// everyText collects an error's text and that of all it wraps, in all formats.
func everyText(err error) string {
	var all strings.Builder
	for ; err != nil; err = errors.Unwrap(err) {
		_, _ = fmt.Fprintf(&all, "%v %+v %#v %s %q\n", err, err, err, err, err)
	}
	return all.String()
}

func TestPasswordsAreInNoErrorAndNoLog(t *testing.T) {
	var logged bytes.Buffer
	logs.Warn.SetOutput(&logged)
	logs.Progress.SetOutput(&logged)
	t.Cleanup(func() { logs.Warn.SetOutput(io.Discard); logs.Progress.SetOutput(io.Discard) })
	echo := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			// A registry that repeats whatever it was sent, and then some.
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"errors":[{"code":"%s","message":"%s","detail":"%s"}]}`, password, password, r.Header.Get("Authorization"))
		}
	}
	for name, fault := range map[string]func(*faultyRegistry) http.HandlerFunc{
		"handshake fails": func(*faultyRegistry) http.HandlerFunc { return echo(http.StatusInternalServerError) },
		"manifest fails":  func(*faultyRegistry) http.HandlerFunc { return manifests(echo(http.StatusBadGateway)) },
		"denied":          func(*faultyRegistry) http.HandlerFunc { return manifests(echo(http.StatusForbidden)) },
		"throttled":       func(*faultyRegistry) http.HandlerFunc { return manifests(echo(http.StatusTooManyRequests)) },
		"realm": func(*faultyRegistry) http.HandlerFunc {
			return bearer("ftp://" + password + "@x/" + password + "?p=" + password)
		},
		"token is no JSON": func(f *faultyRegistry) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					_, _ = fmt.Fprint(w, password)
					return
				}
				bearer(f.URL+"/token")(w, r)
			}
		},
		"token is missing": func(f *faultyRegistry) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					_, _ = fmt.Fprintf(w, `{"refresh_token":%q}`, password)
					return
				}
				bearer(f.URL+"/token")(w, r)
			}
		},
		"redirect": func(*faultyRegistry) http.HandlerFunc {
			return manifests(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://user:"+password+"@169.254.169.254/manifests/?token="+password, http.StatusFound)
			})
		},
		"bad redirect": func(*faultyRegistry) http.HandlerFunc {
			return manifests(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://%zz/"+password)
				w.WriteHeader(http.StatusFound)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistry(t)
			f.breakWith(fault(f))
			r, _ := newTestResolver()
			identity := newCredential("token", authn.AuthConfig{IdentityToken: password})
			_, err := r.Digest(t.Context(), f.ref("app:1"), []Credential{login("pull", password), identity, Anonymous()}, insecure)
			if err == nil {
				t.Fatal("no error")
			}
			for _, secret := range []string{password, basicAuth(user)} {
				if text := everyText(err) + logged.String(); strings.Contains(text, secret) {
					t.Errorf("%q is in %s", secret, text)
				}
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("several lines: %q", err)
			}
		})
	}
}

func TestResolverForgetsWhatIsIdle(t *testing.T) {
	f := newRegistry(t)
	f.pushRandom("app:1")
	f.pushRandom("other:1")
	r, clock := newTestResolver()
	resolve(t, r, f.ref("app:1"), []Credential{login("pull", password)}, insecure)
	clock.SetTime(clock.Now().Add(idlePuller + time.Second))
	resolve(t, r, f.ref("other:1"), nil, insecure)
	if got := r.pullers.len(); got != 1 {
		t.Errorf("%d pullers are kept", got)
	}
}

func TestLRUIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	c := newLRU[int, string](3, time.Minute, func() time.Time { return now })
	for i := range 5 {
		c.put(i, fmt.Sprint(i))
		if _, ok := c.get(2); i >= 2 && !ok {
			t.Errorf("lost what was just used, at %d", i)
		}
	}
	if c.len() != 3 {
		t.Errorf("length %d", c.len())
	}
	now = now.Add(time.Minute)
	if _, ok := c.get(2); ok || c.len() != 0 {
		t.Errorf("idle entries are kept: %d", c.len())
	}
}
