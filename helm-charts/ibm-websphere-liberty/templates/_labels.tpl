{{/* A value as text. A whole number that Helm holds as a float keeps its digits (1234567, not 1.234567e+06). */}}
{{- define "liberty.text" -}}
{{- if kindIs "float64" . -}}
{{- if eq . (floor .) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* A map with its values as text, for labels and annotations, where `true` or `8080` are easily written bare. */}}
{{- define "liberty.textMap" -}}
{{- range $key, $value := . }}
{{ $key | quote }}: {{ include "liberty.text" $value | quote }}
{{- end }}
{{- end -}}

{{/* A map with the keys of `over` in place of those of `base`. Helm's merge functions would change the values they are given. */}}
{{- define "liberty.overlay" -}}
{{- $result := dict -}}
{{- range list .base .over -}}
{{- range $key, $value := . }}{{ $_ := set $result $key $value }}{{ end -}}
{{- end -}}
{{- toYaml $result -}}
{{- end -}}

{{/* The overlay of two maps with all values as text, for labels and annotations. */}}
{{- define "liberty.joinText" -}}
{{- include "liberty.textMap" (include "liberty.overlay" . | fromYaml) | trim -}}
{{- end -}}

{{/*
The label that selects the pods. It never changes for a release, because selectors of workloads cannot, and it is the one
of chart version 1.10.0, so that a workload of that version can be taken over under its name with fullnameOverride.
*/}}
{{- define "liberty.selectorLabels" -}}
app: {{ include "liberty.fullname" . | quote }}
{{- end -}}

{{/* Labels of pods: no version in them, or each new chart would restart the pods. Takes: root, app, component, extra. */}}
{{- define "liberty.podLabels" -}}
{{- $own := dict
  "app" .app
  "release" (include "liberty.releaseLabel" .root)
  "heritage" .root.Release.Service
  "app.kubernetes.io/name" .root.Chart.Name
  "app.kubernetes.io/instance" (include "liberty.releaseLabel" .root)
  "app.kubernetes.io/component" .component
  "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- include "liberty.joinText" (dict "base" .extra "over" $own) -}}
{{- end -}}

{{/* Labels of an object. Takes: root, extra. */}}
{{- define "liberty.labels" -}}
{{- $chart := printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- $own := dict
  "app" (include "liberty.fullname" .root)
  "chart" $chart
  "release" (include "liberty.releaseLabel" .root)
  "heritage" .root.Release.Service
  "helm.sh/chart" $chart
  "app.kubernetes.io/name" .root.Chart.Name
  "app.kubernetes.io/instance" (include "liberty.releaseLabel" .root)
  "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- include "liberty.joinText" (dict "base" .extra "over" $own) -}}
{{- end -}}

{{- define "liberty.releaseLabel" -}}
{{- if le (len .Release.Name) 63 }}{{ .Release.Name }}{{ else }}{{ include "liberty.fit" (dict "name" .Release.Name "max" 63) }}{{ end -}}
{{- end -}}
