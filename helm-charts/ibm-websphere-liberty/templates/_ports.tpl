{{/* A port as YAML: a number, also when it was written as text, or a quoted name. */}}
{{- define "liberty.port" -}}
{{- $text := include "liberty.text" . -}}
{{- if regexMatch "^[0-9]+$" $text }}{{ $text }}{{ else }}{{ $text | quote }}{{ end -}}
{{- end -}}

{{/* The number behind a target port; a name stands for the given standard port of the server. Takes: port, standard. */}}
{{- define "liberty.portNumber" -}}
{{- $text := include "liberty.text" .port -}}
{{- if regexMatch "^[0-9]+$" $text }}{{ $text }}{{ else }}{{ index (dict "http" 9080 "https" 9443) $text | default .standard }}{{ end -}}
{{- end -}}

{{- define "liberty.httpPortNumber" -}}
{{- include "liberty.portNumber" (dict "port" .Values.service.targetPort "standard" (ternary 9443 9080 .Values.ssl.enabled)) -}}
{{- end -}}

{{/*
The endpoints of the server that are switched on, as a JSON list of: name, port (of the Service), target, number (of the
container), env (the variable that tells the image the number).
*/}}
{{- define "liberty.endpoints" -}}
{{- $ssl := .Values.ssl.enabled -}}
{{- $all := list -}}
{{- with .Values.service }}{{ if .enabled -}}
{{- $all = append $all (dict "name" (ternary "https" "http" $ssl) "port" .port "target" .targetPort
      "number" (include "liberty.httpPortNumber" $) "env" (ternary "HTTPS_PORT" "HTTP_PORT" $ssl)) -}}
{{- end }}{{ end -}}
{{- with .Values.iiopService }}{{ if .enabled -}}
{{- $all = append $all (dict "name" "iiop" "port" .nonSecurePort "target" .nonSecureTargetPort
      "number" (include "liberty.portNumber" (dict "port" .nonSecureTargetPort "standard" 2809)) "env" "IIOP_PORT") -}}
{{- if $ssl -}}
{{- $all = append $all (dict "name" "iiops" "port" .securePort "target" .secureTargetPort
      "number" (include "liberty.portNumber" (dict "port" .secureTargetPort "standard" 9402)) "env" "IIOPS_PORT") -}}
{{- end -}}
{{- end }}{{ end -}}
{{- with .Values.jmsService }}{{ if .enabled -}}
{{- $all = append $all (dict "name" (ternary "jmss" "jms" $ssl) "port" .port "target" .targetPort
      "number" (include "liberty.portNumber" (dict "port" .targetPort "standard" 7286)) "env" (ternary "JMSS_PORT" "JMS_PORT" $ssl)) -}}
{{- end }}{{ end -}}
{{- toJson $all -}}
{{- end -}}

{{/* Ports of a Service for all endpoints. */}}
{{- define "liberty.servicePorts" -}}
{{- range include "liberty.endpoints" . | fromJsonArray }}
- name: {{ .name | quote }}
  port: {{ include "liberty.port" .port }}
  targetPort: {{ include "liberty.port" .target }}
  protocol: TCP
{{- end }}
{{- end -}}

{{/* "true" when metrics are scraped over plain HTTP beside the TLS endpoint; else empty. */}}
{{- define "liberty.metricsService" -}}
{{- if and .Values.monitoring.enabled .Values.service.enabled .Values.ssl.enabled }}true{{ end -}}
{{- end -}}

{{/*
Ports of the container. A target port given by name is declared under that name, so that Services and probes find it.
The API server refuses to apply a port number twice; the first endpoint with a number declares it.
*/}}
{{- define "liberty.containerPorts" -}}
{{- $seen := dict -}}
{{- range include "liberty.endpoints" . | fromJsonArray }}
{{- if not (hasKey $seen .number) }}
{{- $_ := set $seen .number true }}
{{- $target := include "liberty.text" .target }}
- name: {{ ternary .name $target (regexMatch "^[0-9]+$" $target) | quote }}
  containerPort: {{ .number }}
  protocol: TCP
{{- end }}
{{- end }}
{{- if and (include "liberty.metricsService" .) (not (hasKey $seen "9080")) }}
- name: metrics
  containerPort: 9080
  protocol: TCP
{{- end }}
{{- end -}}
