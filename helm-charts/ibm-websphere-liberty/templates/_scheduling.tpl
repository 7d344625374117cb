{{/*
Node and pod affinity. Of each architecture in `arch` only the first digit counts: 0 excludes it, 1 to 3 rank it. With all
excluded there is no restriction, because a term without values is invalid and the pods could run nowhere.
*/}}
{{- define "liberty.affinity" -}}
{{- $allowed := list -}}
{{- $ranks := dict -}}
{{- range $arch, $preference := .Values.arch -}}
{{- $rank := regexFind "^[0-3]" (include "liberty.text" $preference) -}}
{{- if not $rank }}{{ fail (printf "arch.%s: %q does not begin with a digit from 0 to 3" $arch (toString $preference)) }}{{ end -}}
{{- if ne $rank "0" }}{{ $allowed = append $allowed $arch }}{{ $_ := set $ranks $rank (append (index $ranks $rank | default list) $arch) }}{{ end -}}
{{- end -}}
{{- $required := .Values.pod.extraNodeSelectorRequirements | default list -}}
{{- if $allowed -}}
{{- $required = prepend $required (dict "key" "kubernetes.io/arch" "operator" "In" "values" $allowed) -}}
{{- end -}}
{{- $preferred := list -}}
{{- if gt (len $ranks) 1 -}}
{{- range $rank := list "3" "2" "1" -}}
{{- range $arch := index $ranks $rank | default list -}}
{{- $term := dict "key" "kubernetes.io/arch" "operator" "In" "values" (list $arch) -}}
{{- $weight := index (dict "3" 100 "2" 50 "1" 1) $rank -}}
{{- $preferred = append $preferred (dict "weight" $weight "preference" (dict "matchExpressions" (list $term))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $preferred = concat $preferred (.Values.pod.extraNodeSelectorPreferences | default list) -}}
{{- if or $required $preferred }}
nodeAffinity:
  {{- if $required }}
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          {{- toYaml $required | nindent 10 }}
  {{- end }}
  {{- if $preferred }}
  preferredDuringSchedulingIgnoredDuringExecution:
    {{- toYaml $preferred | nindent 4 }}
  {{- end }}
{{- end }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "liberty.selectorLabels" . | nindent 12 }}
{{- end -}}
