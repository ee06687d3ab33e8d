{{/* Names, labels, selectors and addresses: what more than one file has to agree on. */}}

{{/* At most 52 characters: a StatefulSet's hash has to fit behind it into a label of its pods. A release may have dots in
     its name or begin with a digit, a Service may not. A release speaks for the chart only under the chart's own name:
     two aliases of it in one chart above, both part of the release's name, would else be called the same. */}}
{{- define "asyncrl.fullname" -}}
{{- $speaks := and (eq .Chart.Name "asyncrl-exporter") (contains .Chart.Name .Release.Name) -}}
{{- $release := $speaks | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{- $name := .Values.fullnameOverride | default (replace "." "-" $release) | trunc 52 | trimAll "-" -}}
{{- if not (regexMatch "^[a-z][a-z0-9-]*$" $name) -}}
{{- fail (printf "a Service cannot be named %q: set fullnameOverride to small letters, digits and dashes, a letter first" $name) -}}
{{- end -}}
{{ $name }}
{{- end }}

{{/* What never changes between versions of the chart: a StatefulSet's selector cannot. Takes (root, component). */}}
{{- define "asyncrl.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Of every object, but of no pod: the version of the chart would roll it. Takes (root, component). */}}
{{- define "asyncrl.labels" -}}
{{- $root := index . 0 -}}
{{ include "asyncrl.selector" . }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Name, namespace and labels of an object. Takes (root, component, name, and optionally a namespace and labels of the
     user, which win). In a namespace that releases of several teams share, the name says whose it is; a dot is in neither
     part, so no two are the same. */}}
{{- define "asyncrl.metadata" -}}
{{- $root := index . 0 -}}
{{- $given := concat . (list nil nil) -}}
{{- $home := $root.Release.Namespace -}}
{{- $namespace := index $given 3 | default $home -}}
name: {{ eq $namespace $home | ternary (index . 2) (printf "%s.%s" (index . 2) $home) | quote }}
namespace: {{ $namespace | quote }}
labels:
  {{- $ours := include "asyncrl.labels" (list $root (index . 1)) | fromYaml }}
  {{- merge (include "asyncrl.texts" (index $given 4) | fromYaml) $ours | toYaml | nindent 2 }}
{{- end }}

{{/* Labels or annotations of the user as YAML, without those that a file of values further back had and null takes away. */}}
{{- define "asyncrl.texts" -}}
{{- $texts := dict -}}
{{- range $name, $text := . -}}
{{- if not (kindIs "invalid" $text) -}}
{{- $_ := set $texts $name $text -}}
{{- end -}}
{{- end -}}
{{- with $texts -}}
{{ toYaml . }}
{{- end -}}
{{- end }}

{{/* Volumes of the user as YAML. Takes (values they come from, volumes, names of the chart's own). */}}
{{- define "asyncrl.extraVolumes" -}}
{{- $path := index . 0 -}}
{{- $own := index . 2 -}}
{{- range index . 1 -}}
{{- if has .name $own -}}
{{- fail (printf "%s: a volume must not be named like one of the chart's (%s), got %q: give it another name" $path (join ", " $own) .name) -}}
{{- end -}}
{{- end -}}
{{ toYaml (index . 1) }}
{{- end }}

{{- define "asyncrl.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "asyncrl.serviceAccountName" -}}
{{- $account := .Values.serviceAccount | default dict -}}
{{- $account.name | default ($account.create | default false | ternary (include "asyncrl.fullname" .) "default") -}}
{{- end }}

{{/* The Service that gives each pod an address. */}}
{{- define "asyncrl.podsService" -}}
{{ include "asyncrl.fullname" . }}-pods
{{- end }}

{{/* The Secret of the web config files and the token; empty where there is none. */}}
{{- define "asyncrl.webConfigSecret" -}}
{{- $auth := .Values.auth | default dict -}}
{{- if $auth.existingSecret -}}
{{ $auth.existingSecret }}
{{- else if or (not $auth.insecure) (include "asyncrl.tlsSecret" .) -}}
{{ include "asyncrl.fullname" . }}-web-config
{{- end }}
{{- end }}

{{/* The Secret of the certificate; empty without TLS. */}}
{{- define "asyncrl.tlsSecret" -}}
{{- $tls := .Values.tls | default dict -}}
{{- if $tls.existingSecret -}}
{{ $tls.existingSecret }}
{{- else if ($tls.certManager).enabled -}}
{{ include "asyncrl.fullname" . }}-tls
{{- end }}
{{- end }}

{{- define "asyncrl.scheme" -}}
{{ include "asyncrl.tlsSecret" . | empty | ternary "http" "https" }}
{{- end }}

{{/* Hosts by which all of the release is reached, separated by commas: the Service, or with replicas each pod, as each
     has to get everything. */}}
{{- define "asyncrl.hosts" -}}
{{- $namespace := .Release.Namespace -}}
{{- $name := include "asyncrl.fullname" . -}}
{{- if eq (int .Values.replicas) 1 -}}
{{ $name }}.{{ $namespace }}.svc
{{- else -}}
{{- $hosts := list -}}
{{- range until (int .Values.replicas) -}}
{{- $hosts = append $hosts (printf "%s-%d.%s-pods.%s.svc" $name . $name $namespace) -}}
{{- end -}}
{{ join "," $hosts }}
{{- end }}
{{- end }}

{{/* Where to send telemetry, separated by commas: for a sender's list of endpoints. */}}
{{- define "asyncrl.ingestUrls" -}}
{{- $urls := list -}}
{{- range splitList "," (include "asyncrl.hosts" .) -}}
{{- $urls = append $urls (printf "%s://%s:%d" (include "asyncrl.scheme" $) . (int $.Values.ports.otlp)) -}}
{{- end -}}
{{ join "," $urls }}
{{- end }}
