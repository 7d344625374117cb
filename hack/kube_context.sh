# Sourced by the scripts that talk to a cluster. Needs only kubectl.
# shellcheck shell=bash

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
  # Not --for=condition=Established: that gives up on a CRD so new that it has no conditions yet.
  kubectl wait '--for=jsonpath={.status.conditions[?(@.type=="Established")].status}=True' --timeout=60s -f "$1"
}
