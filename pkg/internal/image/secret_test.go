package image

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// password is what must never be seen in anything this package writes.
const password = "s3cr3t-P4ssw0rd"

func basicAuth(user string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

func dockerConfig(auths string) map[string][]byte {
	return map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":` + auths + `}`)}
}

// shown is an entry's content as the tests compare it.
type shown struct{ Key, User, Password, Identity, Registry string }

func show(entries []Entry) []shown {
	var all []shown
	for _, e := range entries {
		c := e.Credential.config()
		all = append(all, shown{Key: e.Key, User: c.Username, Password: c.Password, Identity: c.IdentityToken, Registry: c.RegistryToken})
	}
	return all
}

func TestParseSecretReadsEveryWayToWriteCredentials(t *testing.T) {
	padded := base64.StdEncoding.EncodeToString([]byte("u:" + password + "x"))
	for name, tt := range map[string]struct {
		auths string
		want  shown
	}{
		"user and password":      {`{"r.io":{"username":"u","password":"p","email":"e"}}`, shown{Key: "r.io", User: "u", Password: "p"}},
		"auth":                   {`{"r.io":{"auth":"` + basicAuth("u") + `"}}`, shown{Key: "r.io", User: "u", Password: password}},
		"auth without padding":   {`{"r.io":{"auth":"` + strings.TrimRight(padded, "=") + `"}}`, shown{Key: "r.io", User: "u", Password: password + "x"}},
		"auth with a line break": {`{"r.io":{"auth":"` + basicAuth("u") + `\n"}}`, shown{Key: "r.io", User: "u", Password: password}},
		"auth wins":              {`{"r.io":{"auth":"` + basicAuth("u") + `","username":"v","password":"w"}}`, shown{Key: "r.io", User: "u", Password: password}},
		"a colon in the password": {`{"r.io":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("u:a:b")) + `"}}`,
			shown{Key: "r.io", User: "u", Password: "a:b"}},
		"identity token": {`{"r.io":{"auth":"MDAwMDo=","identitytoken":"i"}}`, shown{Key: "r.io", User: "0000", Identity: "i"}},
		"registry token": {`{"r.io":{"registrytoken":"r"}}`, shown{Key: "r.io", Registry: "r"}},
		"scheme and api": {`{"https://r.io:5000/v2/":{"username":"u","password":"p"}}`, shown{Key: "r.io:5000", User: "u", Password: "p"}},
		"api and path":   {`{"r.io/v1/team":{"username":"u","password":"p"}}`, shown{Key: "r.io/team", User: "u", Password: "p"}},
	} {
		t.Run(name, func(t *testing.T) {
			entries, problems := ParseSecret("pull", corev1.SecretTypeDockerConfigJson, dockerConfig(tt.auths))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if diff := cmp.Diff([]shown{tt.want}, show(entries)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := entries[0].Credential.Secret; got != "pull" {
				t.Errorf("from secret %q", got)
			}
		})
	}
}

func TestParseSecretReadsDockercfg(t *testing.T) {
	entries, problems := ParseSecret("old", corev1.SecretTypeDockercfg, map[string][]byte{
		corev1.DockerConfigKey: []byte(`{"r.io":{"username":"u","password":"p"}}`)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if diff := cmp.Diff([]shown{{Key: "r.io", User: "u", Password: "p"}}, show(entries)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseSecretGoesOnAfterBrokenEntries(t *testing.T) {
	good := `"good.io":{"username":"u","password":"` + password + `"}`
	for name, tt := range map[string]struct{ entry, want string }{
		"bad base64":        {`"bad.io":{"auth":"%%%` + password + `"}`, "pull secret pull, key .dockerconfigjson, entry bad.io: auth is not valid base64"},
		"no colon":          {`"bad.io":{"auth":"cGFzc3dvcmQ="}`, "entry bad.io: auth is not the base64 of user:password"},
		"not a URL":         {`"bad host.io":{"username":"u","password":"p"}`, "entry number 1: the entry's key is not the address of a registry"},
		"user info in key":  {`"https://u:` + password + `@bad.io":{"username":"u","password":"p"}`, "entry number 2: the entry's key is not"},
		"bad glob":          {`"r[.bad.io":{"username":"u","password":"p"}`, "entry number 2: the entry's key is not"},
		"empty":             {`"bad.io":{}`, "entry bad.io: the entry holds no password and no token"},
		"null":              {`"bad.io":null`, "entry bad.io: the entry holds no password and no token"},
		"a string":          {`"bad.io":"` + password + `"`, "entry bad.io: a JSON string where struct belongs, at byte"},
		"a number as value": {`"bad.io":{"password":1234567}`, "entry bad.io: a JSON number where string belongs, at byte"},
	} {
		t.Run(name, func(t *testing.T) {
			entries, problems := ParseSecret("pull", corev1.SecretTypeDockerConfigJson, dockerConfig(`{`+tt.entry+`,`+good+`}`))
			if diff := cmp.Diff([]shown{{Key: "good.io", User: "u", Password: password}}, show(entries)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want) {
				t.Errorf("problems %q, want one with %q", problems, tt.want)
			}
			if all := fmt.Sprintf("%v %+v %#v", problems, problems, problems); strings.Contains(all, password) || strings.Contains(all, "1234567") {
				t.Errorf("the password is in %s", all)
			}
		})
	}
}

func TestParseSecretSaysWhyNothingIsUsable(t *testing.T) {
	for name, tt := range map[string]struct {
		secretType corev1.SecretType
		data       map[string][]byte
		want       string
	}{
		"other type":   {corev1.SecretTypeOpaque, dockerConfig(`{}`), `a Secret of type "Opaque" holds no registry credentials`},
		"no key":       {corev1.SecretTypeDockerConfigJson, nil, "key .dockerconfigjson: the key is missing or empty"},
		"empty":        {corev1.SecretTypeDockercfg, map[string][]byte{corev1.DockerConfigKey: {}}, "key .dockercfg: the key is missing or empty"},
		"not JSON":     {corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: []byte(password)}, "not valid JSON at byte 1"},
		"no auths":     {corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"credsStore":"osx"}`)}, `has no "auths"`},
		"auths a list": {corev1.SecretTypeDockerConfigJson, dockerConfig(`["` + password + `"]`), "a JSON array where map belongs"},
	} {
		t.Run(name, func(t *testing.T) {
			entries, problems := ParseSecret("pull", tt.secretType, tt.data)
			if len(entries) != 0 || len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want) {
				t.Errorf("entries %v, problems %q, want one with %q", entries, problems, tt.want)
			}
			if strings.Contains(fmt.Sprintf("%#v", problems), password) {
				t.Errorf("the password is in %#v", problems)
			}
		})
	}
}

func TestCredentialsCannotBePrinted(t *testing.T) {
	entries, _ := ParseSecret("pull", corev1.SecretTypeDockerConfigJson, dockerConfig(
		`{"r.io":{"auth":"`+basicAuth("user-name")+`","identitytoken":"`+password+`-i","registrytoken":"`+password+`-r"}}`))
	keyring := NewKeyring(entries...)
	credential := entries[0].Credential
	hidden := struct {
		credential Credential
		keyring    *Keyring
	}{credential, keyring}
	marshalled, err := json.Marshal(map[string]any{"c": credential, "e": entries, "k": keyring})
	if err != nil {
		t.Fatal(err)
	}
	printed := map[string]string{"JSON": string(marshalled)}
	for _, value := range []any{credential, &credential, entries, entries[0], keyring, *keyring, hidden, &hidden,
		Subscription{Credentials: keyring.Lookup(mustParse(t, "r.io/x"))}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%p", "%T"} {
			printed[fmt.Sprintf("%s of %T", verb, value)] = fmt.Sprintf(verb, value)
		}
	}
	for how, text := range printed {
		for _, secret := range append(credential.secrets(), "user-name", fmt.Sprintf("%x", password)) {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %q", how, secret)
			}
		}
	}
	if got := credential.String(); got != "secret pull" {
		t.Errorf("String() = %q", got)
	}
	if got := fmt.Sprint(Anonymous(), Credential{}); got != "anonymous anonymous" {
		t.Errorf("anonymous is %q", got)
	}
}

func TestFingerprintsTellContentApart(t *testing.T) {
	parse := func(secret, auths string) Credential {
		entries, problems := ParseSecret(secret, corev1.SecretTypeDockerConfigJson, dockerConfig(auths))
		if len(entries) != 1 {
			t.Fatal(problems)
		}
		return entries[0].Credential
	}
	a := parse("one", `{"r.io":{"username":"ab","password":"c"}}`)
	if same := parse("two", `{"x.io":{"auth":"YWI6Yw=="}}`); same.Fingerprint() != a.Fingerprint() {
		t.Error("the same content of two secrets differs")
	}
	for name, other := range map[string]Credential{
		"fields shifted": parse("one", `{"r.io":{"username":"a","password":"bc"}}`),
		"another field":  parse("one", `{"r.io":{"username":"ab","identitytoken":"c"}}`),
		"anonymous":      Anonymous(),
	} {
		if other.Fingerprint() == a.Fingerprint() {
			t.Errorf("%s: same fingerprint", name)
		}
	}
	if (Credential{}).Fingerprint() != Anonymous().Fingerprint() {
		t.Error("the zero credential is not anonymous")
	}
}

func FuzzParseSecret(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"auths":{}}`, `{"auths":{"r.io":{"auth":"dTpw"}}}`, `{"r.io":{"auth":"dTpw"}}`, `{"auths":{"*.r.io:5000/x":{"username":"u","password":"p"}}}`,
		`{"auths":{"":null,"[":{},"https://index.docker.io/v1/":{"registrytoken":"x"}}}`, `[1]`, `{"auths":{"r.io":{"auth":1}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for secretType, key := range map[corev1.SecretType]string{
			corev1.SecretTypeDockerConfigJson: corev1.DockerConfigJsonKey, corev1.SecretTypeDockercfg: corev1.DockerConfigKey} {
			entries, problems := ParseSecret("s", secretType, map[string][]byte{key: content})
			if len(entries)+len(problems) == 0 && key == corev1.DockerConfigJsonKey {
				t.Error("neither an entry nor a problem")
			}
			if got := NewKeyring(entries...).Lookup(mustParse(t, "r.io/app")); got[len(got)-1].Secret != "" {
				t.Error("anonymous access is not the last")
			}
		}
	})
}
