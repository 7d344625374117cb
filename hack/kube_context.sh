# Sourced by the scripts that talk to a cluster. Sets nothing; needs only kubectl.
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
