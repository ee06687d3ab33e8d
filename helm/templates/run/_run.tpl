{{/* The training run: its names, its settings, and what its pods have in common. */}}

{{- define "asyncrl.runId" -}}
{{ .Values.run.id | default .Release.Name }}
{{- end }}

{{/* Of the RayJob and its ConfigMap. KubeRay takes 47 characters of a narrower alphabet than a run's name has, so the
     name is in it as a digest: another run is another RayJob, the same run the same. */}}
{{- define "asyncrl.runName" -}}
{{ include "asyncrl.fullname" . | trunc 34 | trimSuffix "-" }}-run-{{ include "asyncrl.runId" . | sha256sum | trunc 8 }}
{{- end }}

{{/* The claim for what runs write. It outlives them. */}}
{{- define "asyncrl.runsClaim" -}}
{{ .Values.run.storage.existingClaim | default (printf "%s-runs" (include "asyncrl.fullname" . | trunc 58)) }}
{{- end }}

{{/* Whether the exporters ask for a token. */}}
{{- define "asyncrl.runToken" -}}
{{ (.Values.auth).insecure | default false | ternary "" "yes" }}
{{- end }}

{{/* The file of --config. As JSON, because toYaml writes a large number as 1e+07. The user's settings win,
     but not over the name, which other objects have, too. */}}
{{- define "asyncrl.runSettings" -}}
{{- $run := .Values.run -}}
{{- $own := include "asyncrl.given" ($run.config | default dict) | fromJson -}}
{{- if hasKey $own "run_id" -}}
{{- fail (printf "run.config must not have run_id, got %v: name the run by run.id, as every object that knows it does" $own.run_id) -}}
{{- end -}}
{{- $telemetry := dict "endpoints" (splitList "," (include "asyncrl.ingestUrls" .)) -}}
{{- if include "asyncrl.runToken" . -}}
{{- $_ := set $telemetry "token_file" "/etc/asyncrl/telemetry/token" -}}
{{- end -}}
{{- if include "asyncrl.tlsSecret" . -}}
{{- $_ := set $telemetry "ca_file" "/etc/asyncrl/telemetry/ca.crt" -}}
{{- end -}}
{{- $resources := dict
  "trainer_gpus" (min 1 (int $run.trainer.gpus))
  "trainer_node" "asyncrl_trainer"
  "rollouter_gpus" (min 1 (int $run.rollouter.gpus))
  "rollouter_node" "asyncrl_rollouter"
-}}
{{- $settings := dict
  "run_id" (include "asyncrl.runId" .)
  "runs_dir" "/runs"
  "rollouters" (mul (int $run.rollouter.maxReplicas) (include "asyncrl.rolloutersPerPod" .))
  "resources" $resources
  "telemetry" $telemetry
-}}
{{- if include "asyncrl.runAutoscales" . -}}
{{- $_ := set $settings "start_timeout_seconds" 1800 -}}{{/* a node with GPUs may first have to be bought */}}
{{- end -}}
{{- mergeOverwrite $settings $own | toPrettyJson -}}
{{- end }}

{{/* A map of settings as JSON, without what is null in it or in a map of it, as null stands for a value not given. */}}
{{- define "asyncrl.given" -}}
{{- $given := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- $_ := set $given $key (include "asyncrl.given" $value | fromJson) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $_ := set $given $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $given -}}
{{- end }}

{{- define "asyncrl.runAutoscales" -}}
{{ lt (int .Values.run.rollouter.minReplicas) (int .Values.run.rollouter.maxReplicas) | ternary "yes" "" }}
{{- end }}

{{/* Rollouters that live in one pod: one on each GPU, or one. */}}
{{- define "asyncrl.rolloutersPerPod" -}}
{{ max 1 (int .Values.run.rollouter.gpus) }}
{{- end }}

{{/* `rayStartParams` of a group whose nodes carry a custom resource. KubeRay puts the value into a shell command.
     Takes (name, amount). */}}
{{- define "asyncrl.runNode" -}}
resources: {{ printf "\"{\\\"%s\\\": %d}\"" (index . 0) (int (index . 1)) | squote }}
{{- end }}

{{/* A pod template. Takes root, group (its values), container, and for workers of what kind: trainer or rollouter. */}}
{{- define "asyncrl.runPod" -}}
{{- $root := .root -}}
{{- $run := .root.Values.run -}}
metadata:
  annotations:
    {{- $checksum := dict "checksum/config" (include "asyncrl.runSettings" $root | sha256sum) }}
    {{- merge $checksum (include "asyncrl.texts" $run.podAnnotations | fromYaml) | toYaml | nindent 4 }}
  labels:
    {{- include "asyncrl.selector" (list $root "run") | nindent 4 }}
spec:
  {{- if or .worker (not (include "asyncrl.runAutoscales" $root)) }}
  automountServiceAccountToken: false  # only the autoscaler, beside the head, talks to Kubernetes
  {{- end }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: 60  # a run that is told to stop is over within 30 s
  {{- with $run.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with include "asyncrl.runSecurity" $root | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: {{ .container }}
      {{- include "asyncrl.runContainer" (dict "root" $root "group" .group) | nindent 6 }}
      {{- if .head }}
      ports:
        - name: gcs-server
          containerPort: 6379
        - name: dashboard
          containerPort: 8265
        - name: client
          containerPort: 10001
      {{- end }}
      # They ask Ray's own processes, never how far training is: the run's watchdog ends a run that is stuck.
      startupProbe:
        {{- include "asyncrl.runProbe" 60 | nindent 8 }}
      livenessProbe:
        {{- include "asyncrl.runProbe" 30 | nindent 8 }}
      readinessProbe:
        {{- include "asyncrl.runProbe" 3 | nindent 8 }}
      volumeMounts:
        - name: tmp
          mountPath: /tmp
        {{- if .worker }}
        - name: config
          mountPath: /etc/asyncrl/run
          readOnly: true
        {{- if include "asyncrl.webConfigSecret" $root }}
        - name: telemetry
          mountPath: /etc/asyncrl/telemetry
          readOnly: true
        {{- end }}
        {{- end }}
        {{- if eq (.worker | default "") "trainer" }}
        - name: runs
          mountPath: /runs
        {{- end }}
        {{- with $run.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if .worker }}
    - name: config
      configMap:
        name: {{ include "asyncrl.runName" $root | quote }}
    {{- if include "asyncrl.webConfigSecret" $root }}
    - name: telemetry
      projected:
        defaultMode: 0440
        sources:
          {{- if include "asyncrl.runToken" $root }}
          - secret:
              name: {{ include "asyncrl.webConfigSecret" $root | quote }}
              items:
                - key: token
                  path: token
          {{- end }}
          {{- with include "asyncrl.tlsSecret" $root }}
          - secret:
              name: {{ . | quote }}
              items:
                - key: ca.crt
                  path: ca.crt
          {{- end }}
    {{- end }}
    {{- end }}
    {{- if eq (.worker | default "") "trainer" }}
    - name: runs
      persistentVolumeClaim:
        claimName: {{ include "asyncrl.runsClaim" $root | quote }}
    {{- end }}
    {{- with $run.extraVolumes }}
    {{- include "asyncrl.extraVolumes" (list "run.extraVolumes" . (list "tmp" "config" "telemetry" "runs")) | nindent 4 }}
    {{- end }}
  {{- with include "asyncrl.runPlace" .group | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Where the pods of a group may run. */}}
{{- define "asyncrl.runPlace" -}}
{{- with include "asyncrl.texts" .nodeSelector }}
nodeSelector:
  {{- . | nindent 2 }}
{{- end }}
{{- range $key := list "tolerations" "affinity" }}
{{- with index $ $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "asyncrl.runSecurity" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Of every container of the run. Takes root and group. */}}
{{- define "asyncrl.runContainer" -}}
{{- $root := .root -}}
{{- $run := .root.Values.run -}}
image: {{ include "asyncrl.image" (dict "Values" (dict "image" $run.image) "Chart" $root.Chart) | quote }}
imagePullPolicy: {{ $run.image.pullPolicy | default "IfNotPresent" }}
env:
  {{- $given := list }}
  {{- range $run.extraEnv }}
  {{- $given = append $given .name }}
  {{- end }}
  {{- if not (has "RAY_USAGE_STATS_ENABLED" $given) }}
  - name: RAY_USAGE_STATS_ENABLED
    value: "0"
  {{- end }}
  {{- if not (has "RAY_JOB_STOP_WAIT_TIME_S" $given) }}
  - name: RAY_JOB_STOP_WAIT_TIME_S  # by default Ray kills a run three seconds after it told it to stop
    value: "60"
  {{- end }}
  {{- with $run.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $run.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $resources := deepCopy (.group.resources | default dict) }}
{{- with int .group.gpus }}
{{- $_ := set $resources "limits" (merge (dict $run.gpuResource .) ($resources.limits | default dict)) }}
{{- end }}
{{- with $resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Raylet, and on the head the global control store. Takes how often it may fail, with ten seconds between. */}}
{{- define "asyncrl.runProbe" -}}
httpGet:
  path: /api/healthz
  port: 52365
periodSeconds: 10
timeoutSeconds: 10
failureThreshold: {{ . }}
{{- end }}
