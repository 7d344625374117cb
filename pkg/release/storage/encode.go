package storage

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	releasev1alpha1 "github.com/jkwong888/go-helm-operator/pkg/apis/release/v1alpha1"
	"github.com/jkwong888/go-helm-operator/pkg/internal/chart"
)

// maxDecoded bounds a payload once it is unpacked, in bytes.
const maxDecoded = 32 << 20

// record is Helm's release with two fields more, which Helm passes over.
type record struct {
	*helmrelease.Release

	// Config stands in the place of the release's, to keep integers.
	Config       json.RawMessage `json:"config,omitempty"`
	Owner        *Owner          `json:"operatorOwner,omitempty"`
	InputsDigest string          `json:"operatorInputsDigest,omitempty"`
}

// compressors are kept because each takes about 800 kB to set up.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// Encode writes a payload as compressed JSON of Helm's release. It keeps
// everything of the payload.
func Encode(p *Payload) ([]byte, error) {
	r, err := toHelm(p)
	if err != nil {
		return nil, fmt.Errorf("encode revision %d of release %s: %w", p.Revision, p.Name, err)
	}
	var out bytes.Buffer
	w, _ := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&out)
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return nil, fmt.Errorf("encode revision %d of release %s: %w", p.Revision, p.Name, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode revision %d of release %s: %w", p.Revision, p.Name, err)
	}
	return out.Bytes(), nil
}

// Decode reads what Encode or Helm wrote. Every error wraps ErrCorrupt.
func Decode(data []byte) (*Payload, error) {
	plain, err := decompress(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	var r record
	if err := json.Unmarshal(plain, &r); err != nil {
		// The error may quote what it could not read.
		return nil, fmt.Errorf("%w: it is no release in Helm's format", ErrCorrupt)
	}
	p, err := fromHelm(&r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return p, nil
}

func decompress(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxDecoded+1))
	if err != nil {
		return nil, err
	}
	if len(plain) > maxDecoded {
		return nil, fmt.Errorf("it unpacks to more than %d bytes", maxDecoded)
	}
	return plain, nil
}

func toHelm(p *Payload) (*record, error) {
	config, err := json.Marshal(p.Config)
	if err != nil {
		return nil, err
	}
	r := &record{
		Release: &helmrelease.Release{
			Name:      p.Name,
			Namespace: p.Namespace,
			Version:   int(p.Revision),
			Manifest:  p.Manifest,
			Chart:     &helmchart.Chart{Metadata: p.Chart},
			Info: &helmrelease.Info{
				FirstDeployed: p.FirstDeployed,
				LastDeployed:  p.LastDeployed,
				Description:   p.Description,
				Status:        common.Status(p.Status),
				Notes:         p.Notes,
			},
			ApplyMethod: string(helmrelease.ApplyMethodServerSideApply),
		},
		Config:       config,
		InputsDigest: p.InputsDigest,
	}
	if p.Owner != (Owner{}) {
		r.Owner = &p.Owner
	}
	for _, h := range p.Hooks {
		manifest, err := encodeObject(h.Object)
		if err != nil {
			return nil, err
		}
		r.Hooks = append(r.Hooks, &helmrelease.Hook{
			Name: h.Name, Kind: h.Kind, Path: h.Path, Manifest: manifest,
			Events: h.Events, Weight: h.Weight, DeletePolicies: h.DeletePolicies,
		})
	}
	return r, nil
}

func fromHelm(r *record) (*Payload, error) {
	if r.Release == nil || r.Name == "" || r.Version < 1 || r.Info == nil || r.Chart == nil {
		return nil, errors.New("it is no release in Helm's format")
	}
	p := &Payload{
		Name:          r.Name,
		Namespace:     r.Namespace,
		Revision:      int64(r.Version),
		Status:        releasev1alpha1.State(r.Info.Status),
		Chart:         r.Chart.Metadata,
		Manifest:      r.Manifest,
		Notes:         r.Info.Notes,
		FirstDeployed: r.Info.FirstDeployed,
		LastDeployed:  r.Info.LastDeployed,
		Description:   r.Info.Description,
		InputsDigest:  r.InputsDigest,
	}
	if len(r.Config) > 0 {
		if err := utiljson.Unmarshal(r.Config, &p.Config); err != nil {
			return nil, errors.New("its values are no object")
		}
	}
	if r.Owner != nil {
		p.Owner = *r.Owner
	}
	for _, h := range r.Hooks {
		objects, err := DecodeManifest(h.Manifest)
		if err != nil || len(objects) != 1 {
			return nil, fmt.Errorf("its hook %s is no object", h.Path)
		}
		p.Hooks = append(p.Hooks, chart.Hook{
			Name: h.Name, Kind: h.Kind, Path: h.Path, Object: objects[0],
			Events: h.Events, Weight: h.Weight, DeletePolicies: h.DeletePolicies,
		})
	}
	return p, nil
}
