package libertyapp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultAccount is the ServiceAccount of pods that name none.
const defaultAccount = "default"

// AnnotationPullSecretsAdded on a ServiceAccount lists the pull secrets that
// the operator added to it, separated by commas. It changes in the same request
// as the list itself, so that whoever removes the last user of a pull secret
// knows, after any crash, whether the operator had added it.
const AnnotationPullSecretsAdded = "liberty.ibm.com/pull-secrets-added"

// conflicts is how often a ServiceAccount that others change at the same time
// is tried again before the pass fails, to be retried later.
const conflicts = 8

// accounts reads ServiceAccounts and adds pull secrets to their lists. The list
// is atomic (+listType=atomic): server-side apply would take it from its other
// writers as a whole. So it is changed by JSON patches that hold only for the
// version they were made from.
type accounts struct {
	reader client.Reader
	writer client.Client
	known  *versioned[*corev1.ServiceAccount]
}

func newAccounts(reader client.Reader, writer client.Client) *accounts {
	return &accounts{reader: reader, writer: writer, known: newVersioned[*corev1.ServiceAccount]()}
}

// get reads a ServiceAccount at the version that a watch told. It is shared: do
// not change it.
func (a *accounts) get(ctx context.Context, key types.NamespacedName, version string) (*corev1.ServiceAccount, error) {
	account, _, err := a.known.get(key, version, func() (*corev1.ServiceAccount, string, error) {
		account, err := a.read(ctx, key)
		if err != nil {
			return nil, "", err
		}
		return account, account.ResourceVersion, nil
	})
	return account, err
}

func (a *accounts) read(ctx context.Context, key types.NamespacedName) (*corev1.ServiceAccount, error) {
	account := &corev1.ServiceAccount{}
	if err := a.reader.Get(ctx, key, account); err != nil {
		return nil, fmt.Errorf("reading ServiceAccount %s: %w", key, err)
	}
	account.ManagedFields = nil
	return account, nil
}

// add makes sure that the ServiceAccount lists a pull secret. ours says whether
// the operator added it, now or earlier; patched whether it did now.
func (a *accounts) add(ctx context.Context, key types.NamespacedName, version, name string) (ours, patched bool, err error) {
	account, err := a.get(ctx, key, version)
	if err != nil {
		return false, false, err
	}
	patched, account, err = a.change(ctx, account, func(account *corev1.ServiceAccount) []operation { return addition(account, name) })
	if err != nil {
		return false, false, fmt.Errorf("adding pull secret %s to ServiceAccount %s: %w", name, key, err)
	}
	return slices.Contains(added(account), name), patched, nil
}

// remove takes a pull secret off the ServiceAccount's list if the operator
// added it.
func (a *accounts) remove(ctx context.Context, key types.NamespacedName, name string) (patched bool, err error) {
	account, err := a.read(ctx, key)
	if err == nil {
		patched, _, err = a.change(ctx, account, func(account *corev1.ServiceAccount) []operation { return removal(account, name) })
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("removing pull secret %s from ServiceAccount %s: %w", name, key, err)
	}
	return patched, nil
}

// change patches a ServiceAccount as plan says, planning again whenever somebody
// else was faster. It returns the ServiceAccount as it is then.
func (a *accounts) change(ctx context.Context, account *corev1.ServiceAccount, plan func(*corev1.ServiceAccount) []operation) (bool, *corev1.ServiceAccount, error) {
	key := client.ObjectKeyFromObject(account)
	for attempt := 1; ; attempt++ {
		operations := plan(account)
		if len(operations) == 0 {
			return false, account, nil
		}
		patch, err := json.Marshal(append([]operation{{Op: "test", Path: "/metadata/resourceVersion", Value: account.ResourceVersion}}, operations...))
		if err != nil {
			return false, account, err
		}
		patched := account.DeepCopy()
		err = a.writer.Patch(ctx, patched, client.RawPatch(types.JSONPatchType, patch))
		if err == nil {
			patched.ManagedFields = nil
			a.known.put(key, patched.ResourceVersion, patched)
			return true, patched, nil
		}
		// A test that fails is an Invalid error.
		if attempt == conflicts || !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
			return false, account, err
		}
		if account, err = a.read(ctx, key); err != nil {
			return false, account, err
		}
	}
}

// operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// addition is what adds a pull secret to the list; nothing if it is there.
func addition(account *corev1.ServiceAccount, name string) []operation {
	if listed(account, name) >= 0 {
		return nil
	}
	reference := corev1.LocalObjectReference{Name: name}
	add := operation{Op: "add", Path: "/imagePullSecrets/-", Value: reference}
	if len(account.ImagePullSecrets) == 0 {
		add = operation{Op: "add", Path: "/imagePullSecrets", Value: []corev1.LocalObjectReference{reference}}
	}
	names := added(account)
	if slices.Contains(names, name) {
		return []operation{add} // somebody took it off
	}
	return []operation{add, annotation(account, append(names, name))}
}

// removal is what takes a pull secret off the list; nothing unless the operator
// added it.
func removal(account *corev1.ServiceAccount, name string) []operation {
	names := added(account)
	if !slices.Contains(names, name) {
		return nil
	}
	left := slices.DeleteFunc(names, func(n string) bool { return n == name })
	operations := []operation{annotation(account, left)}
	if at := listed(account, name); at >= 0 {
		operations = append(operations, operation{Op: "remove", Path: fmt.Sprintf("/imagePullSecrets/%d", at)})
	}
	return operations
}

// annotation is what makes the ServiceAccount say which names the operator added.
func annotation(account *corev1.ServiceAccount, names []string) operation {
	slices.Sort(names)
	path := "/metadata/annotations/" + strings.ReplaceAll(AnnotationPullSecretsAdded, "/", "~1")
	switch {
	case len(names) == 0:
		return operation{Op: "remove", Path: path}
	case len(account.Annotations) == 0:
		return operation{Op: "add", Path: "/metadata/annotations", Value: map[string]string{AnnotationPullSecretsAdded: strings.Join(names, ",")}}
	default:
		return operation{Op: "add", Path: path, Value: strings.Join(names, ",")}
	}
}

// listed is the place of a name in the list, -1 if it is not there.
func listed(account *corev1.ServiceAccount, name string) int {
	return slices.IndexFunc(account.ImagePullSecrets, func(r corev1.LocalObjectReference) bool { return r.Name == name })
}

// added are the names that the operator added, as the annotation says.
func added(account *corev1.ServiceAccount) []string {
	value := account.Annotations[AnnotationPullSecretsAdded]
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}
