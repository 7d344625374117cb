#!/usr/bin/env bash
# Builds the operator's image, pushes it, deploys it into the current kube context and waits until it is available.
#
#   IMAGE             image to build and push, required, such as registry.example.com/me/go-helm-operator:1.0
#   BUILD=false       deploy IMAGE as it is, without building or pushing
#   NAMESPACE         where the operator runs; default: the context's namespace; created when missing
#   SCOPE             namespace (default): it manages the resources of WATCH_NAMESPACE; cluster: those of all namespaces
#   WATCH_NAMESPACE   with SCOPE=namespace: namespaces to watch, with commas; default: NAMESPACE
#   TIMEOUT           how long to wait for it, default 180s
#   and what hack/build_image.sh takes: CONTAINER_TOOL, REGISTRY_TLS_VERIFY, USERNAME, PASSWORD
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=hack/kube_context.sh
source "$root/hack/kube_context.sh"

fail() { echo "deploy_operator: $*" >&2; exit 1; }

# bind FILE: one of deploy/cluster, which name the operator's namespace, for this namespace.
bind() { sed "s/REPLACE_NAMESPACE/$namespace/g" "$root/deploy/cluster/$1"; }

# grant_namespaces: role.yaml and its binding in each watched namespace.
grant_namespaces() {
  local watched
  for watched in ${watch//,/ }; do
    kubectl apply -n "$watched" -f "$root/deploy/role.yaml"
    if [[ $watched == "$namespace" ]]; then
      kubectl apply -n "$watched" -f "$root/deploy/role_binding.yaml"
    else
      # The file's subject has no namespace, which means the binding's own; here it must be the operator's.
      kubectl create rolebinding "$operator" --role="$operator" --serviceaccount="$namespace:$operator" --dry-run=client -o yaml |
        kubectl apply -n "$watched" -f -
    fi
  done
}

# revoke_former FORMER: the rights of a former deployment, watching FORMER, that this one does not need.
revoke_former() {
  local former
  for former in ${1//,/ }; do
    [[ -n $watch && ,$watch, == *",$former,"* ]] || revoke_namespace "$namespace" "$former"
  done
  [[ -z $watch ]] || bind cluster_role_binding.yaml | kubectl delete --ignore-not-found -f -
}

grant_cluster() {
  kubectl apply -f "$root/deploy/cluster/cluster_role.yaml"
  bind cluster_role_binding.yaml | kubectl apply -f -
}

# deployment: operator.yaml with the image and the watched namespaces filled in, on stdout.
deployment() {
  local reference=$1
  local env=()
  # As it stands the file watches the operator's own namespace.
  [[ $watch == "$namespace" ]] || env=("WATCH_NAMESPACE=$watch")
  sed "s|REPLACE_IMAGE|$reference|" "$root/deploy/operator.yaml" |
    if ((${#env[@]})); then kubectl set env --local -f - "${env[@]}" -o yaml; else cat; fi
}

# explain: why the rollout is not done, from the cluster's own words.
explain() {
  kubectl get pods -n "$namespace" -l "app.kubernetes.io/name=$operator" -o wide
  kubectl get events -n "$namespace" --field-selector type=Warning --sort-by=.lastTimestamp | tail -n 10
  kubectl logs -n "$namespace" "deployment/$operator" --tail=20 || true
  fail "the operator is not available after ${TIMEOUT:-180s}; above are its pods, the last warnings and its log"
} >&2

[[ -n ${IMAGE:-} ]] || fail "set IMAGE, such as IMAGE=registry.example.com/me/go-helm-operator:1.0"
require_context
namespace=${NAMESPACE:-$(context_namespace)}
case ${SCOPE:-namespace} in
  namespace) watch=${WATCH_NAMESPACE:-$namespace} ;;
  cluster) watch= ;;
  *) fail "SCOPE is \"$SCOPE\"; it must be namespace or cluster" ;;
esac

reference=$IMAGE
[[ ${BUILD:-true} != true ]] || reference=$(PUSH=true "$root/hack/build_image.sh")

install_crds "$root/deploy/crds"
kubectl get namespace "$namespace" >/dev/null 2>&1 || kubectl create namespace "$namespace"
kubectl apply -n "$namespace" -f "$root/deploy/service_account.yaml" -f "$root/deploy/leader_election_role.yaml" -f "$root/deploy/metrics_service.yaml"
bind metrics_auth_role_binding.yaml | kubectl apply -f -
kubectl apply -f "$root/deploy/cluster/metrics_reader_role.yaml"
former=$(watched_namespaces "$namespace" "$namespace")
if [[ -n $watch ]]; then grant_namespaces; else grant_cluster; fi
deployment "$reference" | kubectl apply -n "$namespace" -f -
kubectl rollout status "deployment/$operator" -n "$namespace" --timeout="${TIMEOUT:-180s}" || explain
# Only now does no Pod of the former deployment need them.
revoke_former "$former"
echo "deployed $reference into namespace $namespace, watching ${watch:-all namespaces}"
echo "try it: kubectl apply${watch:+ -n ${watch%%,*}} -f deploy/samples"
