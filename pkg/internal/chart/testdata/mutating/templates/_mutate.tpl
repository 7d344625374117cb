{{- define "mutate" -}}
{{- $_ := set .Values "added" .Release.Name -}}
{{- $_ := set .Values.nested.table "x" (add .Values.nested.table.x 1) -}}
{{- $_ := set .Values "count" (add .Values.count 1) -}}
{{- $_ := unset .Values.nested "list" -}}
{{- $_ := set .Chart "Name" "renamed" -}}
{{- $found := lookup "v1" "ConfigMap" .Release.Namespace "shared" -}}
{{- if $found }}{{ $_ := set $found "data" (dict "n" .Release.Name) }}{{ end -}}
{{- end -}}
