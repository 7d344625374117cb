{{/* Image reference. A digest is joined by an at sign; an empty tag leaves the repository as it is. */}}
{{- define "liberty.image" -}}
{{- $tag := include "liberty.text" .Values.image.tag -}}
{{- if not $tag -}}
{{- .Values.image.repository -}}
{{- else -}}
{{- printf "%s%s%s" .Values.image.repository (ternary "@" ":" (regexMatch "^[a-z0-9]+:[0-9a-fA-F]{32,}$" $tag)) $tag -}}
{{- end -}}
{{- end -}}

{{- define "liberty.toolsImage" -}}
{{- .Values.toolsImage | default (include "liberty.image" .) -}}
{{- end -}}

{{/* A variable from a Secret. Takes: name, secret, key. */}}
{{- define "liberty.secretVariable" -}}
{{- dict "name" .name "valueFrom" (dict "secretKeyRef" (dict "name" .secret "key" .key)) | toJson -}}
{{- end -}}

{{/* The variables the chart sets, as a JSON list. */}}
{{- define "liberty.chartEnv" -}}
{{- $env := list -}}
{{- with .Values.image.license }}{{ $env = append $env (dict "name" "LICENSE" "value" (toString .)) }}{{ end -}}
{{- with .Values.env.jvmArgs }}{{ $env = append $env (dict "name" "JVM_ARGS" "value" (toString .)) }}{{ end -}}
{{- with .Values.logs -}}
{{- $env = append $env (dict "name" "WLP_LOGGING_CONSOLE_FORMAT" "value" (toString .consoleFormat)) -}}
{{- $env = append $env (dict "name" "WLP_LOGGING_CONSOLE_LOGLEVEL" "value" (toString .consoleLogLevel)) -}}
{{- $env = append $env (dict "name" "WLP_LOGGING_CONSOLE_SOURCE" "value" (toString .consoleSource)) -}}
{{- end -}}
{{- $env = append $env (dict "name" "KUBERNETES_NAMESPACE" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.namespace"))) -}}
{{- if .Values.iiopService.enabled -}}
{{- $env = append $env (dict "name" "IIOP_ENDPOINT_HOST" "valueFrom" (dict "fieldRef" (dict "fieldPath" "status.podIP"))) -}}
{{- end -}}
{{- range include "liberty.endpoints" . | fromJsonArray -}}
{{- $env = append $env (dict "name" .env "value" .number) -}}
{{- end -}}
{{- if .Values.ssl.useClusterSSLConfiguration -}}
{{- $env = append $env (include "liberty.secretVariable" (dict "name" "MB_KEYSTORE_PASSWORD" "secret" "mb-keystore-password" "key" "password") | fromJson) -}}
{{- $env = append $env (include "liberty.secretVariable" (dict "name" "MB_TRUSTSTORE_PASSWORD" "secret" "mb-truststore-password" "key" "password") | fromJson) -}}
{{- end -}}
{{- with .Values.oidcClient }}{{ if .enabled -}}
{{- $secret := required "oidcClient.clientSecretName: the name of a Secret with the key clientSecret is needed when oidcClient.enabled is true" .clientSecretName -}}
{{- $env = append $env (dict "name" "OIDC_CLIENT_ID" "value" (toString .clientId)) -}}
{{- $env = append $env (include "liberty.secretVariable" (dict "name" "OIDC_CLIENT_SECRET" "secret" $secret "key" "clientSecret") | fromJson) -}}
{{- $env = append $env (dict "name" "OIDC_DISCOVERY_URL" "value" (toString .discoveryURL)) -}}
{{- end }}{{ end -}}
{{- toJson $env -}}
{{- end -}}

{{/*
Joins a user's list with the chart's, by a key that the API server lets no two items share. The user's items come first and
win; of equal ones among them the last wins, as it would in a pod. Takes: user, chart, key.
*/}}
{{- define "liberty.joinByKey" -}}
{{- $key := .key -}}
{{- $seen := dict -}}
{{- $result := list -}}
{{- range reverse (.user | default list) -}}
{{- $id := toString (index . $key) -}}
{{- if not (hasKey $seen $id) }}{{ $_ := set $seen $id true }}{{ $result = prepend $result . }}{{ end -}}
{{- end -}}
{{- range .chart -}}
{{- if not (hasKey $seen (index . $key)) }}{{ $result = append $result . }}{{ end -}}
{{- end -}}
{{- toYaml $result -}}
{{- end -}}

{{- define "liberty.env" -}}
{{- include "liberty.joinByKey" (dict "user" .Values.image.extraEnvs "chart" (include "liberty.chartEnv" . | fromJsonArray) "key" "name") -}}
{{- end -}}

{{/*
Mounts of the chart, as a JSON list. The file include-configmap.xml is mounted alone (subPath), because a mount over the
whole overrides directory would hide what the image's start script writes there. What it includes lies in a directory
mount, which follows changes of the ConfigMap.
*/}}
{{- define "liberty.chartVolumeMounts" -}}
{{- $overrides := "/config/configDropins/overrides" -}}
{{- $mounts := list
  (dict "name" "liberty-config" "mountPath" (printf "%s/include-configmap.xml" $overrides) "subPath" "include-configmap.xml" "readOnly" true)
  (dict "name" "liberty-config" "mountPath" "/etc/wlp/configmap" "readOnly" true) -}}
{{- if .Values.image.serverOverridesConfigMapName -}}
{{- $mounts = append $mounts (dict "name" "liberty-overrides" "mountPath" (printf "%s/server-overrides.xml" $overrides) "subPath" "server-overrides.xml" "readOnly" true) -}}
{{- end -}}
{{- if .Values.ssl.useClusterSSLConfiguration -}}
{{- $mounts = append $mounts (dict "name" "liberty-keystore" "mountPath" "/etc/wlp/config/keystore" "readOnly" true) -}}
{{- $mounts = append $mounts (dict "name" "liberty-truststore" "mountPath" "/etc/wlp/config/truststore" "readOnly" true) -}}
{{- end -}}
{{- if .Values.logs.persistLogs -}}
{{- $mounts = append $mounts (dict "name" .Values.persistence.name "mountPath" "/logs" "subPath" "logs") -}}
{{- end -}}
{{- if .Values.logs.persistTransactionLogs -}}
{{- $mounts = append $mounts (dict "name" .Values.persistence.name "mountPath" "/output/tranlog" "subPath" "tranlog") -}}
{{- end -}}
{{- toJson $mounts -}}
{{- end -}}

{{- define "liberty.volumeMounts" -}}
{{- include "liberty.joinByKey" (dict "user" .Values.image.extraVolumeMounts "chart" (include "liberty.chartVolumeMounts" . | fromJsonArray) "key" "mountPath") -}}
{{- end -}}

{{/*
Requests and limits. An autoscaler measures utilisation against the requests, so it brings them, and the CPU must be there.
*/}}
{{- define "liberty.resources" -}}
{{- $resources := dict -}}
{{- $constrained := .Values.resources.constraints.enabled -}}
{{- if or $constrained .Values.autoscaling.enabled -}}
{{- with .Values.resources.requests }}{{ $_ := set $resources "requests" . }}{{ end -}}
{{- end -}}
{{- if $constrained -}}
{{- with .Values.resources.limits }}{{ $_ := set $resources "limits" . }}{{ end -}}
{{- end -}}
{{- with $resources }}
resources:
  {{- range $kind, $amounts := . }}
  {{ $kind }}:
    {{- include "liberty.textMap" $amounts | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* One probe: the user's as it is, else the default one when there is an HTTP endpoint. Takes: root, kind, path, timing. */}}
{{- define "liberty.probe" -}}
{{- $custom := index .root.Values.image .kind -}}
{{- if $custom }}
{{ .kind }}:
  {{- toYaml $custom | nindent 2 }}
{{- else if .root.Values.service.enabled }}
{{ .kind }}:
  httpGet:
    path: {{ ternary .path "/" .root.Values.microprofile.health.enabled }}
    port: {{ include "liberty.port" .root.Values.service.targetPort }}
    scheme: {{ include "liberty.scheme" .root | upper }}
  {{- toYaml .timing | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The startup probe waits up to 300 s; only then the others begin, so that a slow start is not taken for a hang. */}}
{{- define "liberty.probes" -}}
{{- include "liberty.probe" (dict "root" . "kind" "startupProbe" "path" "/health/started"
  "timing" (dict "periodSeconds" 5 "timeoutSeconds" 5 "failureThreshold" 60)) -}}
{{- include "liberty.probe" (dict "root" . "kind" "readinessProbe" "path" "/health/ready"
  "timing" (dict "periodSeconds" 5 "timeoutSeconds" 5 "failureThreshold" 12)) -}}
{{- include "liberty.probe" (dict "root" . "kind" "livenessProbe" "path" "/health/live"
  "timing" (dict "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 3)) -}}
{{- end -}}

{{/* Security settings of any container of the chart, as Pod Security "restricted" asks for. */}}
{{- define "liberty.containerSecurityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop:
    - ALL
privileged: false
readOnlyRootFilesystem: false
{{- end -}}

{{/* The application's container. */}}
{{- define "liberty.container" -}}
name: {{ .Chart.Name | quote }}
image: {{ include "liberty.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy | quote }}
{{- with include "liberty.containerPorts" . | trim }}
ports:
  {{- . | nindent 2 }}
{{- end }}
env:
  {{- include "liberty.env" . | nindent 2 }}
{{- include "liberty.resources" . }}
{{- include "liberty.probes" . }}
{{- with .Values.image.lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $own := dict "securityContext" (include "liberty.containerSecurityContext" . | fromYaml) }}
{{ include "liberty.overlay" (dict "base" $own "over" .Values.image.security) }}
volumeMounts:
  {{- include "liberty.volumeMounts" . | nindent 2 }}
{{- end -}}
