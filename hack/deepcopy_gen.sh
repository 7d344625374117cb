#!/usr/bin/env bash
# Generates the deep copies of the API types.
#
# usage: hack/deepcopy_gen.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

echo "deepcopy: pkg/apis/release/v1alpha1, pkg/apis/liberty/v1alpha1" >&2
go tool -modfile=hack/tools/go.mod deepcopy-gen \
  --go-header-file hack/boilerplate.go.txt --output-file zz_generated.deepcopy.go \
  ./pkg/apis/release/v1alpha1 ./pkg/apis/liberty/v1alpha1
