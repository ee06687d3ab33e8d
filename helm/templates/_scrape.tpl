{{/* What a ServiceMonitor and a PodMonitor have in common. */}}

{{/* The endpoint. Takes (root, monitor). */}}
{{- define "asyncrl.scrapeEndpoint" -}}
{{- $root := index . 0 -}}
{{- $monitor := index . 1 -}}
port: metrics
path: /metrics
scheme: {{ include "asyncrl.scheme" $root }}
honorLabels: {{ $monitor.honorLabels | default false }}
{{- range $key := list "interval" "scrapeTimeout" "relabelings" "metricRelabelings" "basicAuth" "authorization" }}
{{- with get $monitor $key }}
{{ toYaml (dict $key .) }}
{{- end }}
{{- end }}
{{- if $monitor.tlsConfig }}
tlsConfig:
  {{- toYaml $monitor.tlsConfig | nindent 2 }}
{{- else if include "asyncrl.tlsSecret" $root }}
{{- if and $monitor.namespace (ne $monitor.namespace $root.Release.Namespace) }}
{{- fail "a monitor in another namespace cannot read the Secret of the certificate: give it a tlsConfig" }}
{{- end }}
tlsConfig:
  serverName: {{ include "asyncrl.fullname" $root }}.{{ $root.Release.Namespace }}.svc
  ca:
    secret:
      name: {{ include "asyncrl.tlsSecret" $root | quote }}
      key: ca.crt
{{- end }}
{{- end }}

{{/* The rest of the spec. Takes (root, monitor). */}}
{{- define "asyncrl.scrapeSpec" -}}
{{- $root := index . 0 -}}
{{- $monitor := index . 1 -}}
jobLabel: app.kubernetes.io/name
namespaceSelector:
  matchNames: [{{ $root.Release.Namespace | quote }}]
selector:
  matchLabels:
    {{- include "asyncrl.selector" (list $root "exporter") | nindent 4 }}
{{- with $monitor.attachMetadata }}
attachMetadata:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $monitor.limits }}
{{ toYaml . }}
{{- end }}
{{- end }}
