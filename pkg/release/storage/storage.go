// Package storage keeps the payload of each revision of a release: what was
// rendered, so that heal, rollback and uninstall never render again. Payloads
// are in Helm's own release format, so that `helm list, status, get, history`
// and `rollback` work on them.
package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
)

var (
	// ErrExists says that the revision is stored already.
	ErrExists = errors.New("the revision is stored already")
	// ErrNotFound says that the revision is not stored.
	ErrNotFound = errors.New("the revision is not stored")
	// ErrCorrupt says that what is stored cannot be read as a payload.
	ErrCorrupt = errors.New("the stored payload cannot be read")
	// ErrTooLarge says that the payload is larger than the store can hold.
	ErrTooLarge = errors.New("the payload is too large")
	// ErrSecretsInStatus says that the release renders Secrets, whose content
	// would stand in the status for everybody who may read the resource.
	ErrSecretsInStatus = errors.New("the release renders Secrets, which --release-storage=status would copy into the status of the resource; " +
		"store releases in Secrets, or allow it")
)

// Driver stores payloads. Each method makes at most one API request. Drivers
// are safe for concurrent use on different releases.
type Driver interface {
	// Create stores a new revision; ErrExists if there is one.
	Create(ctx context.Context, p *Payload) error
	// Get reads a revision; ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, namespace, name string, revision int64) (*Payload, error)
	// Update writes over a stored revision, whatever it holds; ErrNotFound.
	Update(ctx context.Context, p *Payload) error
	// Delete removes a revision; ErrNotFound.
	Delete(ctx context.Context, namespace, name string, revision int64) error
	// Revisions lists the stored revisions of a release in ascending order,
	// those included that Helm itself added. Not for the normal path: it lists.
	Revisions(ctx context.Context, namespace, name string) ([]int64, error)
}

// Payload is one revision of a release.
type Payload struct {
	// Name of the release.
	Name string
	// Namespace of the release.
	Namespace string
	// Revision counts from 1.
	Revision int64
	// Status of the revision.
	Status releasev1alpha1.State
	// Chart that was rendered; only its Chart.yaml is kept.
	Chart *helmchart.Metadata
	// Config is the user's values. Integers are int64.
	Config map[string]any
	// Manifest holds the objects in the order they are applied, as
	// EncodeManifest writes them.
	Manifest string
	// Hooks of the chart.
	Hooks []chart.Hook
	// Notes for the user.
	Notes string
	// FirstDeployed is when revision 1 was deployed.
	FirstDeployed time.Time
	// LastDeployed is when this revision was.
	LastDeployed time.Time
	// Description in a few words, for helm history.
	Description string
	// Owner is the resource that the release belongs to. Of a revision that
	// Helm itself wrote over, only the UID is left; of one that Helm added,
	// nothing.
	Owner Owner
	// InputsDigest tells what the revision was made from. Helm drops it when it
	// writes over a revision.
	InputsDigest string
}

// Owner is the custom resource that a release belongs to.
type Owner struct {
	// GroupKind of the resource.
	GroupKind schema.GroupKind `json:"groupKind,omitzero"`
	// Namespace of the resource; empty for cluster-scoped ones.
	Namespace string `json:"namespace,omitempty"`
	// Name of the resource.
	Name string `json:"name,omitempty"`
	// UID of the resource.
	UID types.UID `json:"uid,omitempty"`
}

// String names the owner for messages.
func (o Owner) String() string {
	switch {
	case o.Name != "":
		return o.GroupKind.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
	case o.UID != "":
		return fmt.Sprintf("the resource with UID %s", o.UID)
	}
	return "Helm"
}

// Digest of what heal, rollback and uninstall act upon, as "1:<hex>". Status,
// description and times do not count, so that marking a revision as superseded
// leaves it as it is.
func Digest(p *Payload) string {
	type hook struct {
		Path           string
		Object         map[string]any
		Events         []chart.HookEvent        `json:",omitempty"`
		Weight         int                      `json:",omitempty"`
		DeletePolicies []chart.HookDeletePolicy `json:",omitempty"`
	}
	content := struct {
		Name, Namespace string
		Revision        int64
		Chart           *helmchart.Metadata
		Config          map[string]any `json:",omitempty"`
		Manifest        string
		Hooks           []hook `json:",omitempty"`
		Notes           string
	}{p.Name, p.Namespace, p.Revision, p.Chart, p.Config, p.Manifest, nil, p.Notes}
	for _, h := range p.Hooks {
		content.Hooks = append(content.Hooks, hook{h.Path, h.Object.Object, h.Events, h.Weight, h.DeletePolicies})
	}
	return chart.Digest(content)
}
