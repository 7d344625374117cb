#!/usr/bin/env bash
# Builds the operator's image from build/Dockerfile with whichever of docker, podman and buildah works here, and pushes it if asked.
# Prints the reference to deploy on stdout (pinned by digest once pushed), progress on stderr.
#
#   IMAGE                 name to build, required            CONTAINER_TOOL       docker, podman or buildah; default: the first that works
#   PUSH=true             push after building                REGISTRY_TLS_VERIFY  false: accept plain HTTP or an unknown certificate
#   USERNAME, PASSWORD    registry login for this push only  VERSION              label of the image and version of the binary
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=${VERSION:-$(git -C "$root" describe --tags --always --dirty 2>/dev/null || echo dev)}
context=$root/build/_output/image

fail() { echo "build_image: $*" >&2; exit 1; }

# works TOOL: installed, and able to work (a docker client may have no daemon, buildah no usable storage driver).
works() { command -v "$1" >/dev/null && "$1" info >/dev/null 2>&1; }

find_tool() {
  local candidate
  for candidate in ${CONTAINER_TOOL:-docker podman buildah}; do
    works "$candidate" && { echo "$candidate"; return; }
  done
  # The overlay driver is buildah's default and needs a file system that supports it; vfs copies files and works everywhere.
  if [[ ${CONTAINER_TOOL:-buildah} == buildah ]] && STORAGE_DRIVER=vfs works buildah; then
    echo buildah-vfs
    return
  fi
  fail "none of ${CONTAINER_TOOL:-docker, podman, buildah} works here. Start docker, or install one: apt-get install buildah"
}

gather() {
  rm -rf "$context"
  mkdir -p "$context/certs"
  make --no-print-directory -C "$root" image-binary "VERSION=$version" >&2
  cp -R "$root/helm-charts" "$root/watches.yaml" "$context/"
  local bundle
  for bundle in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    if [[ -n $bundle && -r $bundle ]]; then
      cp -L "$bundle" "$context/certs/ca-certificates.crt"
      return
    fi
  done
  echo "build_image: no CA bundle found on this host: the image will trust no public registry (set SSL_CERT_FILE to one)" >&2
}

# login_file: registry credentials in docker's format, which all three tools read; never on a command line, gone when we end.
login_file() {
  local registry=${IMAGE%%/*} auth
  # A first part without a dot, a colon or "localhost" is a Docker Hub user, not a host.
  [[ $registry == *[.:]* || $registry == localhost ]] || registry=https://index.docker.io/v1/
  auth=$(printf '%s:%s' "$USERNAME" "$PASSWORD" | base64 | tr -d '\n')
  (umask 077; printf '{"auths":{"%s":{"auth":"%s"}}}\n' "$registry" "$auth" >"$scratch/config.json")
}

# repository: IMAGE without its tag; only a colon after the last slash starts one.
repository() {
  if [[ ${IMAGE##*/} == *:* ]]; then echo "${IMAGE%:*}"; else echo "$IMAGE"; fi
}

push_docker() {
  local login=()
  [[ -f $scratch/config.json ]] && login=(--config "$scratch")
  [[ ${REGISTRY_TLS_VERIFY:-true} == true ]] ||
    echo "build_image: docker takes insecure registries from its daemon's configuration, not from REGISTRY_TLS_VERIFY" >&2
  docker ${login[@]+"${login[@]}"} push "$IMAGE" >&2
  # The same image may have been pushed under other names too; docker leaves its own hub's host out of names.
  docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$IMAGE" | grep -F "$(repository | sed 's|^docker.io/||')@"
}

# push_podman TOOL: podman and buildah share their flags.
push_podman() {
  local flags=(--digestfile "$scratch/digest" "--tls-verify=${REGISTRY_TLS_VERIFY:-true}")
  [[ -f $scratch/config.json ]] && flags+=(--authfile "$scratch/config.json")
  "$1" push "${flags[@]}" "$IMAGE" "docker://$IMAGE" >&2
  echo "$(repository)@$(<"$scratch/digest")"
}

[[ -n ${IMAGE:-} ]] || fail "set IMAGE to the image's name, such as registry.example.com/me/go-helm-operator:1.0"
# Desktops set USERNAME for reasons of their own, so only PASSWORD says that a login is wanted.
[[ -z ${PASSWORD:-} || -n ${USERNAME:-} ]] || fail "PASSWORD is set but USERNAME is not"
tool=$(find_tool)
if [[ $tool == buildah-vfs ]]; then
  tool=buildah
  export STORAGE_DRIVER=vfs
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

gather
echo "build_image: building $IMAGE with $tool" >&2
# The Dockerfile runs nothing, so chroot isolation is enough, and it works without the privileges runc needs.
[[ $tool != buildah ]] || export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
"$tool" build -f "$root/build/Dockerfile" --build-arg "VERSION=$version" -t "$IMAGE" "$context" >&2
if [[ ${PUSH:-false} != true ]]; then
  echo "$IMAGE"
  exit
fi
[[ -z ${PASSWORD:-} ]] || login_file
echo "build_image: pushing $IMAGE" >&2
if [[ $tool == docker ]]; then push_docker; else push_podman "$tool"; fi
