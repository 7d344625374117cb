{{/* Annotations by which Prometheus finds what to scrape, for the plain HTTP port given as text. */}}
{{- define "liberty.scrapeAnnotations" -}}
prometheus.io/scrape: "true"
prometheus.io/scheme: http
prometheus.io/path: /metrics
prometheus.io/port: {{ . | quote }}
{{- end -}}
