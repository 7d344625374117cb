#!/usr/bin/env bash
# Generates the Go types of LibertyAppSpec from the values of the chart.
#
# usage: hack/libertyappspec_gen.sh [chart folder | .tgz | URL of a chart repository | oci://...]
set -euo pipefail
caller="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

chart="${1:-helm-charts/ibm-websphere-liberty}"
# A path is meant from where the caller stands.
if [[ $# -gt 0 && "$chart" != /* && "$chart" != *://* ]]; then
  chart="$caller/$chart"
fi

echo "types: LibertyAppSpec from the values of $chart" >&2
go run ./cmd/go-helm-operator generate types --chart "$chart" \
  --group liberty.ibm.com --version v1alpha1 --kind LibertyApp --header hack/boilerplate.go.txt
