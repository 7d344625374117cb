# Sourced by the scripts that talk to a cluster: what they share about the context and the operator in it. Needs only kubectl.
# shellcheck shell=bash

# The name of the Deployment, ServiceAccount, Role, RoleBinding, ClusterRole and Lease in deploy/.
readonly operator=go-helm-operator

# require_context: ends the script with advice unless kubectl has a current context whose API server answers.
require_context() {
  local name
  command -v kubectl >/dev/null || {
    echo "kubectl is not installed: see https://kubernetes.io/docs/tasks/tools/; \`make cluster-up\` prints the path of one it built" >&2
    exit 1
  }
  if ! name=$(kubectl config current-context 2>/dev/null); then
    cat >&2 <<'EOF'
There is no current kube context. Either
  - choose one you have:      kubectl config get-contexts; kubectl config use-context NAME
  - name another kubeconfig:  export KUBECONFIG=/path/to/kubeconfig
  - start a local cluster:    make cluster-up, and export the KUBECONFIG it prints
EOF
    exit 1
  fi
  kubectl get --raw /readyz --request-timeout=10s >/dev/null || {
    echo "The API server of kube context \"$name\" does not answer (above is what it said). Is the cluster up, is the login still valid?" >&2
    exit 1
  }
  echo "kube context: $name" >&2
}

# context_namespace: the namespace of the current context.
context_namespace() {
  local name
  name=$(kubectl config view --minify -o 'jsonpath={..namespace}')
  echo "${name:-default}"
}

# install_crds FOLDER: applies it and waits until the API server serves the kinds.
install_crds() {
  kubectl apply -f "$1"
  # A CRD so new that it has no conditions yet makes the wait fail at once instead of waiting; ask again.
  local attempts=20
  until kubectl wait --for=condition=Established --timeout=60s -f "$1"; do
    ((--attempts > 0)) || return 1
    sleep 0.25
  done
}

# watched_namespaces NAMESPACE DEFAULT: what the operator deployed in NAMESPACE watches, with commas, "" for all; DEFAULT if there is none.
watched_namespaces() {
  local source='{.spec.template.spec.containers[0].env[?(@.name=="WATCH_NAMESPACE")]'
  if ! kubectl get deployment "$operator" -n "$1" >/dev/null 2>&1; then
    echo "$2"
  elif [[ -n $(kubectl get deployment "$operator" -n "$1" -o "jsonpath=$source.valueFrom}") ]]; then
    echo "$1"
  else
    kubectl get deployment "$operator" -n "$1" -o "jsonpath=$source.value}"
  fi
}

# revoke_namespace NAMESPACE WATCHED: takes from the operator of NAMESPACE its rights in namespace WATCHED; those of another operator stay.
revoke_namespace() {
  local holder
  holder=$(kubectl get rolebinding "$operator" -n "$2" --ignore-not-found -o 'jsonpath={.subjects[0].namespace}')
  if [[ ${holder:-$2} == "$1" ]]; then
    kubectl delete rolebinding,role "$operator" -n "$2" --ignore-not-found
  fi
}
