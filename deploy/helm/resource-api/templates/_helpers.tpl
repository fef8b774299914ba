{{/* The name of every object: that of the release. */}}
{{- define "resource-api.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "resource-api.selectorLabels" -}}
app.kubernetes.io/name: resource-api
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "resource-api.labels" -}}
{{ include "resource-api.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "resource-api.secretName" -}}
{{- if .Values.secret.existingSecret -}}
{{ .Values.secret.existingSecret }}
{{- else -}}
{{ include "resource-api.name" . }}
{{- end -}}
{{- end -}}

{{- define "resource-api.serviceAccountName" -}}
{{ default (include "resource-api.name" .) .Values.serviceAccount.name }}
{{- end -}}

{{- define "resource-api.image" -}}
{{- $repository := required "image.repository is required: the image that you built from the Dockerfile" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" $repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end -}}
{{- end -}}

{{/* Fails with a message for values with which the pods would not start. */}}
{{- define "resource-api.check" -}}
{{- if not .Values.secret.existingSecret -}}
{{- range $name := list "DATABASE_URL" "APP_SECRET" -}}
{{- if not (get $.Values.secret.values $name) -}}
{{- fail (printf "secret.existingSecret is required: a secret with DATABASE_URL and APP_SECRET (secret.values has no %s)" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.migrations.enabled (not .Values.secret.existingSecret) -}}
{{- fail "migrations.enabled requires secret.existingSecret: the job runs before a secret of this chart exists. With migrations.enabled=false, the first pod applies the migrations" -}}
{{- end -}}
{{- $settings := .Values.settings -}}
{{- if not (or $settings.TRUST_PROXY $settings.TLS_CERT $settings.INSECURE_HTTP) -}}
{{- fail "settings.TRUST_PROXY is required: the addresses of the ingress controller, such as 10.42.0.0/16 (or settings.TLS_CERT and TLS_KEY)" -}}
{{- end -}}
{{- end -}}

{{/* The security context of every container: the image runs as the user node (1000) and writes no file but those of
large imports, in the volume at /data. */}}
{{- define "resource-api.securityContext" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The text of a setting. Helm reads numbers as floating-point numbers, which are printed as 1.048576e+06. */}}
{{- define "resource-api.settingText" -}}
{{- if kindIs "float64" . -}}
{{ int64 . }}
{{- else -}}
{{ . }}
{{- end -}}
{{- end -}}
