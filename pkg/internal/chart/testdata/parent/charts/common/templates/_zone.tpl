{{- define "common.zone" -}}
zone: {{ .Values.global.zone }}
{{- end -}}
