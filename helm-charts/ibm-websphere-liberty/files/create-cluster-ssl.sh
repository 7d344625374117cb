#!/bin/sh
# Creates the Secrets mb-keystore-password, mb-keystore, mb-truststore-password and mb-truststore unless they exist.
# Each one is read back before the next is made from it, so that the Jobs of several releases agree on one set.
set -eu
umask 077
account="${SERVICE_ACCOUNT_DIR:-/var/run/secrets/kubernetes.io/serviceaccount}"
secrets="${KUBERNETES_API:-https://kubernetes.default.svc}/api/v1/namespaces/$NAMESPACE/secrets"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# From a file, so that the token is not on a command line.
printf 'Authorization: Bearer %s' "$(cat "$account/token")" > "$work/authorization"

# call [curl options] URL: prints the HTTP status; the answer is in $work/reply.
call() {
  curl --silent --show-error --cacert "$account/ca.crt" --header "@$work/authorization" --max-time 30 \
    --output "$work/reply" --write-out '%{http_code}' "$@"
}

# refused WHAT STATUS: ends with what the API server said, which in these cases holds no secret data.
refused() {
  echo "$1: HTTP status $2" >&2
  cat "$work/reply" >&2
  exit 1
}

# fetch SECRET KEY FILE: writes the value of the key into the file; fails when there is no such Secret.
fetch() {
  status="$(call "$secrets/$1")"
  case "$status" in
    200) ;;
    404) return 1 ;;
    *) refused "cannot read Secret $1" "$status" ;;
  esac
  tr '{,}' '[\n*]' < "$work/reply" | sed -n "s/^[[:space:]]*\"$2\":[[:space:]]*\"\([^\"]*\)\".*/\1/p" | base64 -d > "$3"
  if [ ! -s "$3" ]; then
    echo "Secret $1 has no key $2: add it, or delete the Secret to have a new one made" >&2
    exit 1
  fi
}

# ensure SECRET KEY FILE COMMAND...: has the value of the key in the file, made by the command if there is no such Secret.
ensure() {
  secret="$1" key="$2" file="$3"
  shift 3
  if fetch "$secret" "$key" "$file"; then
    echo "Secret $secret exists and is kept"
    return
  fi
  rm -f "$file"
  "$@"
  printf '{"apiVersion":"v1","kind":"Secret","metadata":{"name":"%s"},"data":{"%s":"%s"}}' \
    "$secret" "$key" "$(base64 < "$file" | tr -d '\n')" > "$work/body"
  status="$(call --request POST --header 'Content-Type: application/json' --data "@$work/body" "$secrets")"
  case "$status" in
    201) echo "Secret $secret created" ;;
    409) echo "Secret $secret was created meanwhile and is kept" ;;
    *) refused "cannot create Secret $secret" "$status" ;;
  esac
  fetch "$secret" "$key" "$file"
}

new_password() {
  head -c 30 /dev/urandom | base64 | tr -d '+/=\n' > "$1"
}

new_key_store() {
  keytool -genkeypair -alias default -keyalg RSA -keysize 3072 -validity 3650 -storetype JKS \
    -keystore "$work/key.jks" -storepass:file "$work/key.pass" -keypass:file "$work/key.pass" \
    -dname "CN=liberty.$NAMESPACE.svc" -ext "SAN=dns:*.$NAMESPACE.svc,dns:*.$NAMESPACE.svc.cluster.local,dns:localhost"
}

new_trust_store() {
  keytool -exportcert -alias default -file "$work/certificate" \
    -keystore "$work/key.jks" -storepass:file "$work/key.pass"
  keytool -importcert -noprompt -alias default -file "$work/certificate" -storetype JKS \
    -keystore "$work/trust.jks" -storepass:file "$work/trust.pass"
}

ensure mb-keystore-password password "$work/key.pass" new_password "$work/key.pass"
ensure mb-keystore key.jks "$work/key.jks" new_key_store
ensure mb-truststore-password password "$work/trust.pass" new_password "$work/trust.pass"
ensure mb-truststore trust.jks "$work/trust.jks" new_trust_store
