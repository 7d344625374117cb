#!/usr/bin/env bash
# Removes the operator from the current kube context in the order that leaves nothing behind: first its resources, which the operator
# itself must uninstall, then the operator, its roles, and the CRDs when nobody else uses them. Safe to run again after a failure.
#
#   --yes               do not ask before deleting live resources (without a terminal to ask on, this is required)
#   --keep-crds         leave the CRDs
#   --force-finalizers  when the operator is already gone: give up on uninstalling; what the releases installed stays
#
#   NAMESPACE           where the operator runs; default: the context's namespace
#   WATCH_NAMESPACE     what it watched, if its Deployment is gone: namespaces with commas, empty for all; default: NAMESPACE
#   TIMEOUT             how long each wait may take, default 180s
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=hack/kube_context.sh
source "$root/hack/kube_context.sh"

# The finalizer the operator puts on each resource before it installs anything for it.
readonly finalizer=helm.sdk.operatorframework.io/uninstall-release

say() { echo "undeploy_operator: $*" >&2; }
fail() { say "$@"; exit 1; }

yes=false keep_crds=false force=false
for argument in "$@"; do
  case $argument in
    --yes) yes=true ;;
    --keep-crds) keep_crds=true ;;
    --force-finalizers) force=true ;;
    *) fail "unknown argument $argument; the head of this script lists them" ;;
  esac
done

# kinds: our CRDs that the cluster has, as PLURAL.GROUP.
kinds() {
  kubectl get -f "$root/deploy/crds" --ignore-not-found -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}{.metadata.name}' | sed '/^$/d' | sort -u
}

# resources NAMESPACES: a line "KIND NAMESPACE NAME FINALIZERS" for each resource in them, "" meaning all namespaces.
resources() {
  local kind where
  local line='{range .items[*]}{.metadata.namespace} {.metadata.name} {.metadata.finalizers}{"\n"}{end}'
  for kind in $(kinds); do
    if [[ -z $1 ]]; then
      kubectl get "$kind" --all-namespaces -o "jsonpath=$line" | sed "/./s/^/$kind /"
    else
      for where in ${1//,/ }; do
        kubectl get "$kind" -n "$where" -o "jsonpath=$line" | sed "/./s/^/$kind /"
      done
    fi
  done
}

operator_available() {
  local replicas
  replicas=$(kubectl get deployment "$operator" -n "$namespace" --ignore-not-found -o 'jsonpath={.status.availableReplicas}')
  [[ ${replicas:-0} -gt 0 ]]
}

# confirm LIST: asks before the resources in LIST, and with them what they run, are deleted.
confirm() {
  local answer
  say "these resources and everything installed for them will be deleted:"
  sed 's/^/  /; s/ \[.*//' <<<"$1" >&2
  [[ $yes == false ]] || return 0
  [[ -t 0 ]] || fail "nothing was changed; run again with --yes if that is what you want"
  read -r -p "Delete them? [y/N] " answer
  [[ $answer == [yY]* ]] || fail "nothing was changed"
}

# finish LIST: deletes the resources and waits for the operator to uninstall each.
finish() {
  local kind where name _
  while read -r kind where name _; do
    kubectl delete "$kind" "$name" -n "$where" --wait=false
  done <<<"$1"
  while read -r kind where name _; do
    kubectl wait --for=delete "$kind/$name" -n "$where" --timeout="$timeout" || {
      kubectl describe "$kind" "$name" -n "$where" | tail -n 30 >&2
      fail "$kind $name in namespace $where is not gone after $timeout; its conditions and events are above. The operator still runs; solve that and run this again."
    }
  done <<<"$1"
}

# orphan LIST: takes our finalizer off the resources, so that they go without an operator.
orphan() {
  local kind where name finalizers kept
  while read -r kind where name finalizers; do
    kubectl delete "$kind" "$name" -n "$where" --wait=false
    [[ $finalizers == *"\"$finalizer\""* ]] || continue
    kept=$(kubectl get "$kind" "$name" -n "$where" -o 'jsonpath={range .metadata.finalizers[*]}{@}{"\n"}{end}' |
      grep -vxF "$finalizer" | sed 's/.*/"&"/' | paste -sd, || true)
    kubectl patch "$kind" "$name" -n "$where" --type=merge -p "{\"metadata\":{\"finalizers\":[$kept]}}"
    say "what $name installed in namespace $where stays; \`helm list -n $where\` shows it, \`helm uninstall\` removes it"
  done <<<"$1"
}

# explain_orphans LIST: the operator is gone before its resources; nobody is left to uninstall them, so waiting would be for ever.
explain_orphans() {
  say "the operator does not run in namespace $namespace, but these resources still wait for it to uninstall them:"
  grep -F "\"$finalizer\"" <<<"$1" | sed 's/^/  /; s/ \[.*//' >&2
  cat >&2 <<EOF
Nothing was changed. Either
  - bring it back, so that it can finish:  IMAGE=... NAMESPACE=$namespace hack/deploy_operator.sh, then run this again
    (add BUILD=false to deploy an image that is already pushed)
  - give up on uninstalling:               run this again with --force-finalizers; what those releases installed stays in the cluster
EOF
  exit 1
}

remove_resources() {
  local list
  list=$(resources "$watch")
  [[ -n $list ]] || return 0
  if operator_available; then
    confirm "$list"
    finish "$list"
  elif ! grep -qF "\"$finalizer\"" <<<"$list" || [[ $force == true ]]; then
    confirm "$list"
    orphan "$list"
  else
    explain_orphans "$list"
  fi
}

remove_operator() {
  local where binding
  kubectl delete deployment "$operator" -n "$namespace" --ignore-not-found --cascade=foreground --timeout="$timeout"
  for where in ${watch//,/ }; do
    revoke_namespace "$namespace" "$where"
  done
  for binding in cluster_role_binding metrics_auth_role_binding; do
    sed "s/REPLACE_NAMESPACE/$namespace/g" "$root/deploy/cluster/$binding.yaml" | kubectl delete --ignore-not-found -f -
  done
  kubectl delete -n "$namespace" --ignore-not-found \
    -f "$root/deploy/metrics_service.yaml" -f "$root/deploy/leader_election_role.yaml" -f "$root/deploy/service_account.yaml"
  kubectl delete lease "$operator" -n "$namespace" --ignore-not-found
}

# remove_shared: what all operators in the cluster share, unless one is left that needs it.
remove_shared() {
  local others
  others=$(kubectl get deployments --all-namespaces -l "app.kubernetes.io/name=$operator" -o 'jsonpath={.items[*].metadata.namespace}')
  if [[ -n $others ]]; then
    say "the CRDs and cluster roles stay: an operator also runs in: $others"
    return
  fi
  kubectl delete --ignore-not-found -f "$root/deploy/cluster/cluster_role.yaml" -f "$root/deploy/cluster/metrics_reader_role.yaml"
  [[ $keep_crds == false ]] || return 0
  others=$(resources "")
  if [[ -n $others ]]; then
    say "the CRDs stay, because deleting them would delete these resources in namespaces this operator does not manage:"
    sed 's/^/  /; s/ \[.*//' <<<"$others" >&2
    return
  fi
  kubectl delete --ignore-not-found --timeout="$timeout" -f "$root/deploy/crds"
}

require_context
namespace=${NAMESPACE:-$(context_namespace)}
timeout=${TIMEOUT:-180s}
watch=$(watched_namespaces "$namespace" "${WATCH_NAMESPACE-$namespace}")
remove_resources
remove_operator
remove_shared
say "the operator is gone from namespace $namespace; the namespace itself stays"
