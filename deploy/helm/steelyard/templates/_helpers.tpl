{{/* Names of the release's objects: at most 63 characters, of which the longest ending below takes 6. */}}
{{- define "steelyard.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 56 | trimSuffix "-" -}}
{{- end -}}

{{- define "steelyard.fullname" -}}
{{- $name := include "steelyard.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 56 | trimSuffix "-" -}}
{{- end -}}

{{/* ClusterRoles have no namespace, so the release's namespace is part of their name. */}}
{{- define "steelyard.clusterRoleName" -}}
{{- printf "%s:%s" .Release.Namespace (include "steelyard.fullname" .) -}}
{{- end -}}

{{- define "steelyard.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "steelyard.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* (dict "root" . "component" "server"): what selects the pods of a component; never changes over upgrades. */}}
{{- define "steelyard.selectorLabels" -}}
app.kubernetes.io/name: {{ include "steelyard.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "steelyard.labels" -}}
{{ include "steelyard.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: steelyard
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "steelyard.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* One value as TOML. JSON's strings, keys and numbers are TOML's too, and its numbers keep whole ones whole, which toToml does not. Nulls are
     left out. */}}
{{- define "steelyard.tomlValue" -}}
{{- if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $pairs = append $pairs (printf "%s = %s" (toJson $key) (include "steelyard.tomlValue" $value)) -}}
{{- end -}}
{{- end -}}
{ {{- join ", " $pairs -}} }
{{- else if kindIs "slice" . -}}
{{- $items := list -}}
{{- range . -}}
{{- $items = append $items (include "steelyard.tomlValue" .) -}}
{{- end -}}
[ {{- join ", " $items -}} ]
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* The settings as steelyard.toml: one line for each key. */}}
{{- define "steelyard.toml" -}}
{{- range $key, $value := .Values.settings -}}
{{- if not (kindIs "invalid" $value) }}
{{ toJson $key }} = {{ include "steelyard.tomlValue" $value }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (dict "peer" (dict "to" ... "ports" ...) "protocols" (list ...)): one egress rule, or nothing where it names nobody: an empty "to" would
     mean everybody. */}}
{{- define "steelyard.egressRule" -}}
{{- if and .peer.to .peer.ports }}
- to: {{- toYaml .peer.to | nindent 4 }}
  ports:
  {{- range $port := .peer.ports }}
  {{- range $.protocols }}
    - {port: {{ int $port }}, protocol: {{ . }}}
  {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* What both kinds of pods may not do. */}}
{{- define "steelyard.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
