{{/*
Makes a name of at most `max` characters that is a DNS label, followed by an optional `suffix` that counts too.
A name that has to be changed for that gets a hash of the original, so that different names stay different.
Takes: name, max, suffix.
*/}}
{{- define "liberty.fit" -}}
{{- $suffix := .suffix | default "" -}}
{{- $room := sub .max (len $suffix) | int -}}
{{- $safe := regexReplaceAll "[^a-z0-9-]+" (lower .name) "-" | trimAll "-" -}}
{{- if and (eq $safe .name) (le (len $safe) $room) -}}
{{- printf "%s%s" $safe $suffix -}}
{{- else -}}
{{- $hash := sha256sum .name | trunc 8 -}}
{{- printf "%s-%s%s" (trunc (int (sub $room 9)) $safe | trimSuffix "-") $hash $suffix -}}
{{- end -}}
{{- end -}}

{{/* Name of the release's objects: 63 characters is the limit for Services and for the values of labels. */}}
{{- define "liberty.fullname" -}}
{{- $name := printf "%s-%s" .Release.Name (toString (.Values.resourceNameOverride | default .Chart.Name)) -}}
{{- include "liberty.fit" (dict "name" (toString (.Values.fullnameOverride | default $name)) "max" 63) -}}
{{- end -}}

{{/* "true" when logs are persisted, which needs a StatefulSet; else empty. */}}
{{- define "liberty.stateful" -}}
{{- if or .Values.logs.persistLogs .Values.logs.persistTransactionLogs }}true{{ end -}}
{{- end -}}

{{- define "liberty.workloadKind" -}}
{{- if include "liberty.stateful" . }}StatefulSet{{ else }}Deployment{{ end -}}
{{- end -}}

{{/* A StatefulSet puts its name and an 11 character revision into a label of its pods, which leaves 52 of the 63. */}}
{{- define "liberty.workloadName" -}}
{{- $max := ternary 52 63 (eq (include "liberty.stateful" .) "true") -}}
{{- include "liberty.fit" (dict "name" (include "liberty.fullname" .) "max" $max) -}}
{{- end -}}

{{/* Services must begin with a letter (DNS-1035), other names need not. */}}
{{- define "liberty.serviceName" -}}
{{- $name := include "liberty.fullname" . -}}
{{- with .Values.service.name -}}
{{- $name = lower (toString .) -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "service.name: %q cannot name a Service: use letters, digits and '-', beginning with a letter and not ending with '-'" (toString .)) -}}
{{- end -}}
{{- else -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "svc-%s" $name }}{{ end -}}
{{- end -}}
{{- include "liberty.fit" (dict "name" $name "max" 63) -}}
{{- end -}}

{{- define "liberty.headlessServiceName" -}}
{{- include "liberty.fit" (dict "name" (include "liberty.serviceName" .) "max" 63 "suffix" "-sts") -}}
{{- end -}}

{{- define "liberty.metricsServiceName" -}}
{{- include "liberty.fit" (dict "name" (include "liberty.serviceName" .) "max" 63 "suffix" "-http-clusterip") -}}
{{- end -}}

{{/* Name of an object that belongs to the release's main ones. Takes: root, suffix. */}}
{{- define "liberty.nameWithSuffix" -}}
{{- include "liberty.fit" (dict "name" (include "liberty.fullname" .root) "max" 63 "suffix" .suffix) -}}
{{- end -}}

{{- define "liberty.clusterSSLName" -}}
{{- include "liberty.nameWithSuffix" (dict "root" . "suffix" "-cluster-ssl") -}}
{{- end -}}

{{/* The Service's host name within the cluster. */}}
{{- define "liberty.serviceHost" -}}
{{- printf "%s.%s.svc" (include "liberty.serviceName" .) .Release.Namespace -}}
{{- end -}}

{{- define "liberty.scheme" -}}
{{- if .Values.ssl.enabled }}https{{ else }}http{{ end -}}
{{- end -}}
