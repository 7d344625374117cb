// Package scenarios plays scenario folders against the operator: each holds a scenario.yaml with steps, and the files that
// the steps apply. README.md says how one is written.
//
// Everything is real: the operator is the built binary, under the rights of the ServiceAccount that deploy/ gives it, in a
// namespace of its own; control plane and registry are those of test/cluster and test/registry. At the end of each
// scenario the runner itself checks what has to hold after every story: nothing churns, no Secret got out, the operator
// logged no error, and nothing is left once the resources are deleted.
package scenarios
