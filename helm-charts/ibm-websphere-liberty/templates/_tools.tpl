{{/* Pod template of the Job that creates the key store and the trust store of the namespace. */}}
{{- define "liberty.clusterSSLPodTemplate" -}}
{{- $name := include "liberty.clusterSSLName" . -}}
metadata:
  labels:
    {{- include "liberty.podLabels" (dict "root" . "app" $name "component" "cluster-ssl") | nindent 4 }}
spec:
  restartPolicy: Never
  {{- if .Values.rbac.install }}
  serviceAccountName: {{ $name | quote }}
  {{- end }}
  automountServiceAccountToken: true
  {{- with include "liberty.imagePullSecrets" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  securityContext:
    {{- include "liberty.podSecurityContext" . | nindent 4 }}
  containers:
    - name: create-cluster-ssl
      image: {{ include "liberty.toolsImage" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy | quote }}
      command:
        - sh
        - -c
        - |
          {{- .Files.Get "files/create-cluster-ssl.sh" | trim | nindent 10 }}
      env:
        - name: NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
      securityContext:
        {{- include "liberty.containerSecurityContext" . | nindent 8 }}
      volumeMounts:
        - name: work
          mountPath: /tmp
  volumes:
    - name: work
      emptyDir:
        medium: Memory
{{- end -}}

{{/* A test pod that asks the Service for a path. Takes: root, name (suffix), path. */}}
{{- define "liberty.testPod" -}}
{{- $name := include "liberty.nameWithSuffix" (dict "root" .root "suffix" (printf "-%s" .name)) -}}
apiVersion: v1
kind: Pod
metadata:
  name: {{ $name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "liberty.podLabels" (dict "root" .root "app" $name "component" "test") | nindent 4 }}
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  {{- with include "liberty.imagePullSecrets" .root | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  securityContext:
    {{- include "liberty.podSecurityContext" .root | nindent 4 }}
  containers:
    - name: request
      image: {{ include "liberty.toolsImage" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy | quote }}
      # The certificate is not checked: it is the server's own unless the image or a Secret brings another.
      command:
        - sh
        - -c
        - exec curl --fail --silent --show-error --insecure --location --max-time 20 --retry 10 --retry-delay 3 --retry-all-errors --output /dev/null "$URL"
      env:
        - name: URL
          value: {{ printf "%s://%s:%s%s" (include "liberty.scheme" .root) (include "liberty.serviceHost" .root) (include "liberty.text" .root.Values.service.port) .path | quote }}
      securityContext:
        {{- include "liberty.containerSecurityContext" .root | nindent 8 }}
{{- end -}}
