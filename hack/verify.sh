#!/usr/bin/env bash
# What `make verify` does: regenerates everything, checks modules, format, lint, scripts and docs, and fails if that changed the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# tree: every tracked or new file that differs from the commit, with its contents' digest; the same before and after if nothing was written.
tree() {
  git diff HEAD | sha256sum
  git ls-files --others --exclude-standard -z | xargs -0 --no-run-if-empty sha256sum
}

# step NAME COMMAND...: runs it and says how long it took.
step() {
  local name=$1 start=$SECONDS
  shift
  echo "== verify: $name"
  "$@"
  echo "== verify: $name took $((SECONDS - start)) s"
}

# tidy: every module's go.mod and go.sum say what its code needs.
tidy() {
  local module
  git ls-files '*go.mod' | while read -r module; do
    (cd "$(dirname "$module")" && go mod tidy -diff) || {
      echo "$module is not tidy: run \`go mod tidy\` in $(dirname "$module")" >&2
      return 1
    }
  done
}

before=$(tree)
step "generate" make --no-print-directory generate
step "modules" tidy
step "lint" make --no-print-directory lint
step "docs" go test ./test/docs/...
if [[ $(tree) != "$before" ]]; then
  git status --short
  git --no-pager diff HEAD --stat
  echo "verify: generating changed the files above; commit what \`make generate\` writes" >&2
  exit 1
fi
