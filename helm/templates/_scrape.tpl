{{/* What a ServiceMonitor and a PodMonitor have in common. */}}

{{/* The endpoint. `job` is the name of the objects, by either monitor: neither two releases in a namespace nor two aliases
     in a release share it, as they would the chart's name or the release's. Takes (root, monitor). */}}
{{- define "asyncrl.scrapeEndpoint" -}}
{{- $root := index . 0 -}}
{{- $monitor := index . 1 -}}
port: metrics
path: /metrics
scheme: {{ include "asyncrl.scheme" $root }}
honorLabels: {{ $monitor.honorLabels | default false }}
relabelings:
  - targetLabel: job
    replacement: {{ include "asyncrl.fullname" $root | quote }}
  {{- with $monitor.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if and $monitor.interval $monitor.scrapeTimeout }}
{{- if gt (include "asyncrl.milliseconds" $monitor.scrapeTimeout | atoi) (include "asyncrl.milliseconds" $monitor.interval | atoi) }}
{{- fail (printf "scrapeTimeout must not be above interval, got %s and %s: Prometheus would not load the target" $monitor.scrapeTimeout $monitor.interval) }}
{{- end }}
{{- end }}
{{- range $key := list "interval" "scrapeTimeout" "metricRelabelings" "basicAuth" "authorization" }}
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

{{/* How long a duration of Prometheus is, such as 1m30s. */}}
{{- define "asyncrl.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 "y" 31536000000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 -}}
{{- $sum = add $sum (mul (regexFind "[0-9]+" . | atoi) (regexFind "[a-z]+" . | get $units)) -}}
{{- end -}}
{{ $sum }}
{{- end }}
