package storage

import (
	"context"
	"fmt"
)

// maxStatus bounds a payload in a status, in bytes: etcd holds 1.5 MiB per
// object, and the payload is stored in base64 beside the rest of the resource.
const maxStatus = 768 << 10

// Slots finds the place for the payload in the status of the resource that a
// release belongs to (Status.Release.Payload). The caller writes the status.
type Slots func(ctx context.Context, namespace, name string) (*[]byte, error)

type statusDriver struct {
	slots        Slots
	allowSecrets bool
}

// NewStatus returns the driver that keeps the payload in the status of the
// resource, for clusters where the operator may not write Secrets. There is
// room for one revision: a new one takes the place of the one before. Unless
// allowSecrets, releases that render Secrets are refused by ErrSecretsInStatus.
func NewStatus(slots Slots, allowSecrets bool) Driver {
	return &statusDriver{slots: slots, allowSecrets: allowSecrets}
}

func (d *statusDriver) Create(ctx context.Context, p *Payload) error {
	slot, held, err := d.open(ctx, p.Namespace, p.Name)
	if err != nil {
		return err
	}
	if held != nil && held.Revision == p.Revision {
		return fmt.Errorf("store revision %d of release %s in the status: %w", p.Revision, p.Name, ErrExists)
	}
	return d.put(slot, p)
}

func (d *statusDriver) Get(ctx context.Context, namespace, name string, revision int64) (*Payload, error) {
	slot, err := d.slots(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if len(*slot) == 0 {
		return nil, fmt.Errorf("read revision %d of release %s from the status: %w", revision, name, ErrNotFound)
	}
	p, err := Decode(*slot)
	if err == nil && p.Revision != revision {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read revision %d of release %s from the status: %w", revision, name, err)
	}
	return p, nil
}

func (d *statusDriver) Update(ctx context.Context, p *Payload) error {
	slot, held, err := d.open(ctx, p.Namespace, p.Name)
	if err != nil {
		return err
	}
	// What cannot be read is written over, as there is only one place.
	if len(*slot) == 0 || held != nil && held.Revision != p.Revision {
		return fmt.Errorf("update revision %d of release %s in the status: %w", p.Revision, p.Name, ErrNotFound)
	}
	return d.put(slot, p)
}

func (d *statusDriver) Delete(ctx context.Context, namespace, name string, revision int64) error {
	slot, held, err := d.open(ctx, namespace, name)
	if err != nil {
		return err
	}
	if len(*slot) == 0 || held != nil && held.Revision != revision {
		return fmt.Errorf("remove revision %d of release %s from the status: %w", revision, name, ErrNotFound)
	}
	*slot = nil
	return nil
}

func (d *statusDriver) Revisions(ctx context.Context, namespace, name string) ([]int64, error) {
	_, held, err := d.open(ctx, namespace, name)
	if err != nil || held == nil {
		return nil, err
	}
	return []int64{held.Revision}, nil
}

// open returns the slot and what it holds; nil when that is nothing or cannot
// be read.
func (d *statusDriver) open(ctx context.Context, namespace, name string) (*[]byte, *Payload, error) {
	slot, err := d.slots(ctx, namespace, name)
	if err != nil {
		return nil, nil, err
	}
	held, err := Decode(*slot)
	if err != nil {
		return slot, nil, nil //nolint:nilerr // whoever needs the content asks Get, which tells
	}
	return slot, held, nil
}

func (d *statusDriver) put(slot *[]byte, p *Payload) error {
	if !d.allowSecrets {
		secrets, err := rendersSecrets(p)
		if err != nil {
			return err
		}
		if secrets {
			return fmt.Errorf("store revision %d of release %s: %w", p.Revision, p.Name, ErrSecretsInStatus)
		}
	}
	data, err := Encode(p)
	if err != nil {
		return err
	}
	if len(data) > maxStatus {
		return fmt.Errorf("revision %d of release %s takes %d bytes, and a status holds %d: %w; store releases in Secrets",
			p.Revision, p.Name, len(data), maxStatus, ErrTooLarge)
	}
	*slot = data
	return nil
}

func rendersSecrets(p *Payload) (bool, error) {
	for _, h := range p.Hooks {
		if h.Object.GetKind() == "Secret" {
			return true, nil
		}
	}
	objects, err := DecodeManifest(p.Manifest)
	if err != nil {
		return false, fmt.Errorf("look for Secrets in revision %d of release %s: %w", p.Revision, p.Name, err)
	}
	for _, o := range objects {
		if o.GetKind() == "Secret" && o.GroupVersionKind().Group == "" {
			return true, nil
		}
	}
	return false, nil
}
