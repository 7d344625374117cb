#!/usr/bin/env bash
# Proves in a scratch copy of the tracked files that `make vendor` builds offline, so that the tree gets no vendor/ folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git ls-files -z | tar --null --create --files-from=- | tar --extract --directory="$scratch"
make --no-print-directory -C "$scratch" vendor
