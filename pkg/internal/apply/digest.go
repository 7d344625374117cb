package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// digestRecipe is the version of the recipes below and part of each digest.
// Digests of two recipes are never equal: after a change of recipe every object
// counts as changed and is applied once more. That changes nothing in the
// cluster, for what is applied is the same, but costs a request for each.
const digestRecipe = "1:"

// digestBytes of the SHA-256 are kept: 128 bits tell objects apart, and an
// inventory of many objects stays small.
const digestBytes = 16

// ObjectDigest returns the digest of an object as it is wanted, after Mark:
// "1:" and 16 bytes of the SHA-256 of its canonical JSON, in hex.
func ObjectDigest(obj *unstructured.Unstructured) string {
	return digestJSON(obj.Object)
}

// ManagedDigest returns the digest of the set of fields that our last apply
// owns, or "" when the object has no entry of ours. It depends on nothing else:
// not on time, not on other managers, not on the order of keys.
//
// Whoever changes the value of one of our fields takes it out of our entry, on
// every kind, so a digest other than the recorded one means drift.
func ManagedDigest(entries []metav1.ManagedFieldsEntry) string {
	for i := range entries {
		entry := &entries[i]
		if !ours(entry.Manager, string(entry.Operation), entry.Subresource) || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return ""
		}
		return digestJSON(fields)
	}
	return ""
}

// unstructuredManagedDigest is ManagedDigest of an object that is decoded
// already: going through ManagedFieldsEntry would encode the fields again.
func unstructuredManagedDigest(obj *unstructured.Unstructured) string {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for i := range entries {
		entry, _ := entries[i].(map[string]any)
		manager, _ := entry["manager"].(string)
		operation, _ := entry["operation"].(string)
		subresource, _ := entry["subresource"].(string)
		fields, ok := entry["fieldsV1"].(map[string]any)
		if ok && ours(manager, operation, subresource) {
			return digestJSON(fields)
		}
	}
	return ""
}

func ours(manager, operation, subresource string) bool {
	return manager == FieldManager && operation == string(metav1.ManagedFieldsOperationApply) && subresource == ""
}

// digestJSON relies on encoding/json writing the keys of maps in order.
func digestJSON(content map[string]any) string {
	data, err := json.Marshal(content)
	if err != nil {
		// A decoded JSON or YAML document always encodes; "" makes the object
		// look changed, which is the safe side.
		return ""
	}
	sum := sha256.Sum256(data)
	return digestRecipe + hex.EncodeToString(sum[:digestBytes])
}
