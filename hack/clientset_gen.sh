#!/usr/bin/env bash
# Generates the typed clients of the API: clientset with its fake, listers, informers and apply configurations.
#
# usage: hack/clientset_gen.sh
#   GO_HELM_OPERATOR  a built go-helm-operator to use; built when not set
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module="$(go list -m)"
api=pkg/apis/liberty/v1alpha1
out="$api/clientset"
header=hack/boilerplate.go.txt
tool() { go tool -modfile=hack/tools/go.mod "$@"; }

# Everything is generated beside and then put in place as a whole, so that files of kinds that no longer exist do not survive.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
new="$work/clientset"

command=(go run ./cmd/go-helm-operator)
if [[ -n "${GO_HELM_OPERATOR:-}" ]]; then
  command=("$GO_HELM_OPERATOR")
fi

echo "applyconfiguration: $out/applyconfiguration" >&2
"${command[@]}" generate openapi --api "$api" --out "$work"
tool applyconfiguration-gen --go-header-file "$header" \
  --output-dir "$new/applyconfiguration" --output-pkg "$module/$out/applyconfiguration" \
  --openapi-schema "$work/openapi.json" "$module/$api"

echo "clientset: $out/versioned" >&2
tool client-gen --go-header-file "$header" --clientset-name versioned \
  --output-dir "$new" --output-pkg "$module/$out" \
  --apply-configuration-package "$module/$out/applyconfiguration" \
  --input-base "$module/pkg/apis" --input liberty/v1alpha1

echo "listers: $out/listers" >&2
tool lister-gen --go-header-file "$header" \
  --output-dir "$new/listers" --output-pkg "$module/$out/listers" \
  "$module/$api"

echo "informers: $out/informers" >&2
tool informer-gen --go-header-file "$header" \
  --output-dir "$new/informers" --output-pkg "$module/$out/informers" \
  --versioned-clientset-package "$module/$out/versioned" --listers-package "$module/$out/listers" \
  "$module/$api"

rm -rf "$out"
cp -R "$new" "$out"
