// Package cluster runs a real Kubernetes control plane on this machine, out of Go modules alone: etcd, kube-apiserver with
// RBAC, kube-controller-manager, kube-scheduler, and kwok, which plays one node and the life of the Pods on it.
//
// Tests start one per package through clustertest; people start one with `go run ./test/cluster/cmd up`.
//
// What is not real: no container runs. A Pod becomes Running and Ready, or finishes when it may (restartPolicy other
// than Always), a moment after it is scheduled; see [OutcomeAnnotation] for the ways to make one misbehave. There are no
// logs, no Service routing and no cluster DNS. Volume claims of the default StorageClass are bound to volumes without storage.
package cluster
