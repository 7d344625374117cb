#!/usr/bin/env bash
# Generates everything that follows from the Liberty chart, in this order: types -> deep copies -> CRD -> roles -> sample -> clients.
# Running it again changes nothing.
#
# usage: hack/gen_from_liberty_chart.sh [chart folder | .tgz | URL of a chart repository | oci://...]
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

chart="${1:-$root/helm-charts/ibm-websphere-liberty}"
# A path is meant from where the caller stands.
if [[ "$chart" != /* && "$chart" != *://* ]]; then
  chart="$PWD/$chart"
fi
cd "$root"

# One build for all steps; go run would link it each time.
binaries="$(mktemp -d)"
trap 'rm -rf "$binaries"' EXIT
go build -o "$binaries/go-helm-operator" ./cmd/go-helm-operator
export GO_HELM_OPERATOR="$binaries/go-helm-operator"
generate() { "$GO_HELM_OPERATOR" generate "$@"; }
kind=(--group liberty.ibm.com --version v1alpha1 --kind LibertyApp)

hack/libertyappspec_gen.sh "$chart"
hack/deepcopy_gen.sh

echo "crds: deploy/crds from pkg/apis/liberty/v1alpha1" >&2
generate crds --api pkg/apis/liberty/v1alpha1

echo "rbac: deploy/role.yaml and deploy/cluster/cluster_role.yaml from $chart" >&2
generate rbac --chart "$chart" "${kind[@]}"

echo "sample: deploy/samples from $chart" >&2
generate sample --chart "$chart" "${kind[@]}"

hack/clientset_gen.sh
