#!/usr/bin/env bash
# Runs the operator on this machine against the current kube context, with your own rights there. Ctrl-C ends it.
#
#   WATCH_NAMESPACE   namespaces to watch: one, several with commas, empty for all; default: the context's namespace
#
# Further arguments go to bin/manager, for instance: hack/run_local.sh --zap-log-level=debug
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=hack/kube_context.sh
source "$root/hack/kube_context.sh"

require_context
export WATCH_NAMESPACE=${WATCH_NAMESPACE-$(context_namespace)}

# Two operators over the same resources would both act on each of them.
running=$(kubectl get deployments --all-namespaces -l "app.kubernetes.io/name=$operator" \
  -o 'jsonpath={range .items[?(@.spec.replicas>0)]}{.metadata.namespace}{" "}{end}')
for namespace in $running; do
  if [[ -z $WATCH_NAMESPACE || ",$WATCH_NAMESPACE," == *",$namespace,"* ]]; then
    echo "An operator is already deployed in namespace $namespace. Stop it while you run one here:" >&2
    echo "  kubectl scale deployment $operator -n $namespace --replicas=0" >&2
    exit 1
  fi
done

cd "$root"
make --no-print-directory build
install_crds deploy/crds
echo "watching ${WATCH_NAMESPACE:-all namespaces}" >&2
exec bin/manager --leader-elect=false --metrics-bind-address=0 "$@"
