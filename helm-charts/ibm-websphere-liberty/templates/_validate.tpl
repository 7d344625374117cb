{{/* What a schema cannot say, because it concerns more than one key. */}}
{{- define "liberty.validate" -}}
{{- with .Values.autoscaling }}{{ if .enabled -}}
{{- if gt (int64 .minReplicas) (int64 .maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas: %d is more than autoscaling.maxReplicas, %d" (int64 .minReplicas) (int64 .maxReplicas)) -}}
{{- end -}}
{{- if not ($.Values.resources.requests | default dict).cpu -}}
{{- fail "resources.requests.cpu: needed when autoscaling.enabled is true, because utilisation is measured against it" -}}
{{- end -}}
{{- end }}{{ end -}}
{{- if and .Values.rbac.rules (not .Values.rbac.install) -}}
{{- fail "rbac.rules: needs rbac.install, because the rights are given to the release's own ServiceAccount" -}}
{{- end -}}
{{- end -}}
