// Package typegen derives a typed Kubernetes API from a Helm chart's values.
//
// The chart's values.yaml is read into a tree of [Value]. [Resolve] turns that
// tree into a tree of [Field], asking an ordered list of [Source] for the type
// of each value: the first that knows decides. The packages beside this one
// write what follows from the fields: Go types, CRD, roles, sample.
package typegen
