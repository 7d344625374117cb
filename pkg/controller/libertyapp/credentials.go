package libertyapp

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jkwong888/go-helm-operator/pkg/internal/image"
	"github.com/jkwong888/go-helm-operator/pkg/internal/refs"
	"github.com/jkwong888/go-helm-operator/pkg/reconciler"
)

// follow makes the poller follow these images. While a Secret that matters is
// not known yet, the poller goes on as before; its watch brings another pass.
func (i *images) follow(ctx context.Context, p *pinned, names []string) error {
	who := subscriber(p.pass.Key)
	i.noteDenied(p, names)
	keyring, known, err := i.keyring(ctx, p)
	if err != nil {
		return err
	}
	ca, caKnown, err := i.authorities(ctx, p)
	if err != nil || !known || !caKnown {
		return err
	}
	if p.caTrouble != "" {
		// Without the authority a poll could only fail in a misleading way.
		i.poller.Set(who, nil)
		return nil
	}
	subscriptions := make([]image.Subscription, 0, len(names))
	for _, name := range names {
		s := image.Subscription{
			Image: name, Interval: p.wish.interval, Insecure: p.wish.insecure, CAPEM: ca,
			Known: digestOf(p.pass.Status.Images, name),
		}
		if ref, err := image.Parse(name); err == nil {
			s.Credentials = keyring.Lookup(ref)
		}
		subscriptions = append(subscriptions, s)
	}
	i.poller.Set(who, subscriptions)
	return nil
}

// noteDenied starts anew, with the credentials of ServiceAccounts, when a
// registry refused anonymous access. Some say "not found" instead.
func (i *images) noteDenied(p *pinned, names []string) {
	if p.memory.denied || p.wish.pull != "" {
		return
	}
	who := subscriber(p.pass.Key)
	p.memory.denied = slices.ContainsFunc(names, func(name string) bool {
		result, ok := i.poller.Result(who, name)
		return ok && (result.Reason == image.AuthenticationFailed || result.Reason == image.TagNotFound)
	})
	if p.memory.denied {
		i.poller.Set(who, nil) // so that the refusal is not taken for the answer
	}
}

// keyring holds the credentials that the kubelet has for the pods: those of the
// pull secret, which is in every pod template, or else those of the pods'
// ServiceAccount. The latter are read only once anonymous access was refused;
// most images need none. known is false while a watch is about to tell more.
func (i *images) keyring(ctx context.Context, p *pinned) (keyring *image.Keyring, known bool, err error) {
	names := []string{p.wish.pull}
	if p.wish.pull == "" {
		if !p.memory.denied {
			return image.NewKeyring(), true, nil
		}
		if names, known, err = i.accountSecrets(ctx, p.pass); err != nil || !known {
			return nil, false, err
		}
	}
	var entries []image.Entry
	known = true
	for _, name := range names {
		found, there, err := i.secret(ctx, p.pass, name)
		if err != nil {
			return nil, false, err
		}
		known = known && there
		entries = append(entries, found.entries...)
	}
	return image.NewKeyring(entries...), known, nil
}

// accountSecrets are the pull secrets of the ServiceAccounts that the pods may
// have: those of the release, and the default one.
func (i *images) accountSecrets(ctx context.Context, pass *reconciler.Pass) (names []string, known bool, err error) {
	known = true
	for _, account := range accountsOf(pass) {
		version, err := pass.Refer("v1", "ServiceAccount", account)
		switch {
		case apierrors.IsForbidden(err):
			continue
		case err != nil:
			return nil, false, err
		case version == "":
			known = false
			continue
		case version == refs.Absent:
			continue
		}
		found, err := i.accounts.get(ctx, types.NamespacedName{Namespace: pass.Key.Namespace, Name: account}, version)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		for _, reference := range found.ImagePullSecrets {
			if !slices.Contains(names, reference.Name) {
				names = append(names, reference.Name)
			}
		}
	}
	return names, known, nil
}

func accountsOf(pass *reconciler.Pass) []string {
	var names []string
	for _, e := range pass.Status.Inventory {
		if e.Kind == "ServiceAccount" && e.Group == "" && (e.Namespace == "" || e.Namespace == pass.Key.Namespace) {
			names = append(names, e.Name)
		}
	}
	return append(names, defaultAccount)
}

// secret reads a Secret that the resource refers to. there is false while the
// watch has not told of it yet; a Secret that is missing or forbidden is empty,
// as for the kubelet.
func (i *images) secret(ctx context.Context, pass *reconciler.Pass, name string) (found secret, there bool, err error) {
	version, err := pass.Refer("v1", "Secret", name)
	switch {
	case apierrors.IsForbidden(err):
		return secret{}, true, nil
	case err != nil:
		return secret{}, false, err
	case version == "":
		return secret{}, false, nil
	case version == refs.Absent:
		return secret{}, true, nil
	}
	found, fresh, err := i.secrets.get(ctx, types.NamespacedName{Namespace: pass.Key.Namespace, Name: name}, version)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return secret{}, true, nil
	}
	if fresh {
		for _, problem := range found.problems {
			warn(pass, actionPullSecret, ReasonInvalidSecret, problem.String())
		}
	}
	return found, true, err
}

// authorities are the certificates of images.caSecretRef, in PEM.
func (i *images) authorities(ctx context.Context, p *pinned) (pem []byte, known bool, err error) {
	name := p.wish.caSecret
	if name == "" {
		return nil, true, nil
	}
	version, err := p.pass.Refer("v1", "Secret", name)
	switch {
	case apierrors.IsForbidden(err) || err == nil && version == refs.Absent:
		p.caTrouble = fmt.Sprintf("Secret %s, of images.caSecretRef, is not there or the operator may not watch it", name)
		return nil, true, nil
	case err != nil || version == "":
		return nil, false, err
	}
	found, _, err := i.secrets.get(ctx, types.NamespacedName{Namespace: p.pass.Key.Namespace, Name: name}, version)
	if err != nil {
		p.caTrouble = fmt.Sprintf("Secret %s, of images.caSecretRef, cannot be read", name)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return nil, true, nil
		}
		return nil, false, err
	}
	if found.ca == nil {
		p.caTrouble = fmt.Sprintf("Secret %s, of images.caSecretRef, has no certificate in PEM under the key %s", name, caKey)
	}
	return found.ca, true, nil
}
