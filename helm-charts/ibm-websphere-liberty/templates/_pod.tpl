{{/* Security settings of any pod of the chart, as Pod Security "restricted" asks for. User 1001 is Liberty's. */}}
{{- define "liberty.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 1001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/*
Security settings of the application's pods: each key of pod.security replaces the chart's. The group of the volumes comes
from persistence.fsGroupGid, where 0 differs from unset, unless the user's security context has one.
*/}}
{{- define "liberty.podSecurity" -}}
{{- $context := include "liberty.podSecurityContext" . | fromYaml -}}
{{- with .Values.pod.security.securityContext }}{{ $context = deepCopy . }}{{ end -}}
{{- $group := .Values.persistence.fsGroupGid -}}
{{- if and (not (kindIs "invalid" $group)) (not (hasKey $context "fsGroup")) -}}
{{- $_ := set $context "fsGroup" (int64 $group) -}}
{{- end -}}
{{- include "liberty.overlay" (dict "base" (dict "securityContext" $context) "over" (omit .Values.pod.security "securityContext")) -}}
{{- end -}}

{{- define "liberty.imagePullSecrets" -}}
{{- with .Values.image.pullSecret }}
imagePullSecrets:
  - name: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "liberty.volumes" -}}
- name: liberty-config
  configMap:
    name: {{ include "liberty.fullname" . | quote }}
{{- with .Values.image.serverOverridesConfigMapName }}
- name: liberty-overrides
  configMap:
    name: {{ . | quote }}
    items:
      - key: server-overrides.xml
        path: server-overrides.xml
{{- end }}
{{- if .Values.ssl.useClusterSSLConfiguration }}
- name: liberty-keystore
  secret:
    secretName: mb-keystore
- name: liberty-truststore
  secret:
    secretName: mb-truststore
{{- end }}
{{- with .Values.pod.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The pod template of the workload. */}}
{{- define "liberty.podTemplate" -}}
metadata:
  labels:
    {{- include "liberty.podLabels" (dict "root" . "app" (include "liberty.fullname" .) "component" "server" "extra" .Values.pod.labels) | nindent 4 }}
  {{- with .Values.pod.annotations }}
  annotations:
    {{- include "liberty.textMap" . | nindent 4 }}
  {{- end }}
spec:
  {{- if .Values.rbac.install }}
  serviceAccountName: {{ include "liberty.fullname" . | quote }}
  {{- end }}
  automountServiceAccountToken: {{ not (empty .Values.rbac.rules) }}
  {{- with include "liberty.imagePullSecrets" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- include "liberty.podSecurity" . | nindent 2 }}
  affinity:
    {{- include "liberty.affinity" . | trim | nindent 4 }}
  {{- with .Values.pod.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: 30
  {{- with .Values.pod.extraInitContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - {{ include "liberty.container" . | indent 6 | trim }}
    {{- with .Values.pod.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "liberty.volumes" . | nindent 4 }}
{{- end -}}
