package chart

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ObjectKey identifies an object within a release. The version of its API does
// not count: apps/v1 and apps/v1beta1 name the same Deployment.
type ObjectKey struct {
	Group, Kind, Namespace, Name string
}

// KeyOf returns the key of an object as it is written; an empty namespace
// stays empty.
func KeyOf(o *unstructured.Unstructured) ObjectKey {
	gvk := o.GroupVersionKind()
	return ObjectKey{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (k ObjectKey) String() string {
	name := k.Name
	if k.Namespace != "" {
		name = k.Namespace + "/" + name
	}
	return k.Kind + " " + name
}

// parse turns rendered files into objects and hooks.
func (r *Rendered) parse(files map[string]string, namespace string) error {
	seen := map[ObjectKey]string{}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(path.Base(file), "_") {
			continue
		}
		documents, err := parseFile(file, files[file])
		if err != nil {
			return err
		}
		for _, d := range documents {
			if d.hook != "" {
				r.addHook(d)
				continue
			}
			if err := r.addObject(d, seen, namespace); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(r.Objects, func(a, b *unstructured.Unstructured) int {
		return compareKinds(a.GetKind(), b.GetKind())
	})
	slices.SortStableFunc(r.Hooks, func(a, b Hook) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), strings.Compare(a.Name, b.Name), compareKinds(a.Kind, b.Kind))
	})
	return nil
}

// addObject refuses a second object of the same identity: applying both would
// make them overwrite each other for ever.
func (r *Rendered) addObject(d document, seen map[ObjectKey]string, namespace string) error {
	if d.object.GetName() == "" {
		return fmt.Errorf("%s: a %s has no metadata.name", d.file, d.object.GetKind())
	}
	key := KeyOf(d.object)
	r.Objects = append(r.Objects, d.object)
	// An object without namespace goes into the release's.
	if key.Namespace == "" {
		key.Namespace = namespace
	}
	if first, dup := seen[key]; dup {
		return fmt.Errorf("%s is rendered twice, in %s and in %s", key, first, d.file)
	}
	seen[key] = d.file
	return nil
}

// kindRank is the place of each kind in Helm's order of installation.
var kindRank = func() map[string]int {
	rank := map[string]int{}
	for i, kind := range releaseutil.InstallOrder {
		rank[kind] = i
	}
	return rank
}()

// compareKinds orders kinds as Helm installs them; unknown ones come last, by
// name.
func compareKinds(a, b string) int {
	rankA, knownA := kindRank[a]
	rankB, knownB := kindRank[b]
	switch {
	case knownA && knownB:
		return rankA - rankB
	case knownA:
		return -1
	case knownB:
		return 1
	}
	return strings.Compare(a, b)
}
