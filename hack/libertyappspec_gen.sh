#!/usr/bin/env bash
# Generates the Go types of LibertyAppSpec from the values of the chart.
#
# usage: hack/libertyappspec_gen.sh [chart folder | .tgz | URL of a chart repository | oci://...]
#   GO_HELM_OPERATOR  a built go-helm-operator to use; built when not set
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

chart="${1:-$root/helm-charts/ibm-websphere-liberty}"
# A path is meant from where the caller stands.
if [[ "$chart" != /* && "$chart" != *://* ]]; then
  chart="$PWD/$chart"
fi
cd "$root"

command=(go run ./cmd/go-helm-operator)
if [[ -n "${GO_HELM_OPERATOR:-}" ]]; then
  command=("$GO_HELM_OPERATOR")
fi

echo "types: LibertyAppSpec from the values of $chart" >&2
"${command[@]}" generate types --chart "$chart" \
  --group liberty.ibm.com --version v1alpha1 --kind LibertyApp --header hack/boilerplate.go.txt
