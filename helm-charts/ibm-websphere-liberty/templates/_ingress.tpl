{{/*
Annotations for ingress-nginx. Rewriting a path to itself is left out: as a prefix rule it would send every URL to that path.
*/}}
{{- define "liberty.nginxAnnotations" -}}
nginx.ingress.kubernetes.io/affinity: cookie
nginx.ingress.kubernetes.io/session-cookie-name: route
{{- if .Values.ssl.enabled }}
nginx.ingress.kubernetes.io/backend-protocol: HTTPS
{{- end }}
{{- with .Values.ingress }}
{{- if and .rewriteTarget (ne .rewriteTarget .path) }}
nginx.ingress.kubernetes.io/rewrite-target: {{ .rewriteTarget | quote }}
{{- end }}
{{- end }}
{{- end -}}
