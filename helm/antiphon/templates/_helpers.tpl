{{- define "antiphon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "antiphon.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "antiphon.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "antiphon.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select: arguments root, component and, for engines, model. */}}
{{- define "antiphon.selector" -}}
app.kubernetes.io/name: {{ include "antiphon.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .model }}
antiphon/model: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "antiphon.labels" -}}
{{ include "antiphon.selector" . }}
app.kubernetes.io/part-of: antiphon
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An image of ours: arguments root, name, suffix. */}}
{{- define "antiphon.image" -}}
{{- $tag := default .root.Chart.AppVersion .root.Values.image.tag -}}
{{- $name := .name -}}
{{- if .root.Values.image.registry -}}
{{- $name = printf "%s/%s" .root.Values.image.registry .name -}}
{{- end -}}
{{- with get .root.Values.image.digests (printf "%s%s" .name (default "" .suffix)) -}}
{{- printf "%s@%s" $name . -}}
{{- else -}}
{{- printf "%s:%s%s" $name $tag (default "" .suffix) -}}
{{- end -}}
{{- end -}}

{{- define "antiphon.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "antiphon.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "antiphon.busSecret" -}}
{{- default (printf "%s-bus" (include "antiphon.fullname" .)) .Values.busAuth.existingSecret -}}
{{- end -}}

{{/* Kubernetes quantities as bytes: 2Gi, 512Mi or a number. */}}
{{- define "antiphon.bytes" -}}
{{- $text := toString . -}}
{{- if hasSuffix "Gi" $text -}}{{ mul (trimSuffix "Gi" $text | int64) 1073741824 }}
{{- else if hasSuffix "Mi" $text -}}{{ mul (trimSuffix "Mi" $text | int64) 1048576 }}
{{- else -}}{{ int64 . }}
{{- end -}}
{{- end -}}

{{- define "antiphon.busUrls" -}}
{{- if .Values.nats.enabled -}}
{{- $full := include "antiphon.fullname" . -}}
{{- $urls := list -}}
{{- range $i := until (int .Values.nats.replicas) -}}
{{- $urls = append $urls (printf "nats://%s-nats-%d.%s-nats:4222" $full $i $full) -}}
{{- end -}}
{{- join "," $urls -}}
{{- else -}}
{{- required "externalBus.urls is needed when nats.enabled is false" (join "," .Values.externalBus.urls) -}}
{{- end -}}
{{- end -}}

{{/* The environment of a service: arguments root, service (its user on the bus), settings. */}}
{{- define "antiphon.environment" -}}
{{- $values := .root.Values -}}
{{- $secret := include "antiphon.busSecret" .root -}}
- name: ANTIPHON_BUS__URLS
  value: {{ include "antiphon.busUrls" .root | quote }}
- name: ANTIPHON_BUS__PREFIX
  value: {{ $values.busPrefix | quote }}
- name: ANTIPHON_BUS__REPLICAS
  value: {{ ternary $values.nats.replicas $values.externalBus.replicas $values.nats.enabled | quote }}
- name: ANTIPHON_BUS__MAX_LOG_BYTES
  value: {{ include "antiphon.bytes" $values.nats.maxLogBytes | quote }}
{{- if eq $values.busAuth.kind "password" }}
- name: ANTIPHON_BUS__USER
  value: {{ .service }}
- name: ANTIPHON_BUS__PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ .service }}}}
{{- if eq .service "gateway" }}
- name: ANTIPHON_BUS__SYSTEM_USER
  value: system
- name: ANTIPHON_BUS__SYSTEM_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: system}}
{{- end }}
{{- else }}
- name: ANTIPHON_BUS__{{ upper $values.busAuth.kind }}_FILE
  value: /run/antiphon/bus/{{ .service }}
{{- if and (eq .service "gateway") (eq $values.busAuth.kind "creds") }}
- name: ANTIPHON_BUS__SYSTEM_CREDS_FILE
  value: /run/antiphon/bus/system
{{- end }}
{{- end }}
{{- if and (not $values.nats.enabled) $values.externalBus.tls.secret }}
- name: ANTIPHON_BUS__TLS_CA
  value: /run/antiphon/tls/ca.crt
{{- if $values.externalBus.tls.clientCertificate }}
- name: ANTIPHON_BUS__TLS_CERT
  value: /run/antiphon/tls/tls.crt
- name: ANTIPHON_BUS__TLS_KEY
  value: /run/antiphon/tls/tls.key
{{- end }}
{{- with $values.externalBus.tls.hostname }}
- name: ANTIPHON_BUS__TLS_HOSTNAME
  value: {{ . }}
{{- end }}
{{- end }}
# Traces name the pod.
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: k8s.pod.name=$(POD_NAME),k8s.namespace.name={{ .root.Release.Namespace }}
- name: ANTIPHON_DRAIN_S
  value: {{ $values.drainSeconds | quote }}
{{- range $name, $value := .settings }}
{{- /* Every number of a values file is a float to Helm, which writes large ones as 1e+09. */}}
- name: ANTIPHON_{{ $name | upper }}
  value: {{ ternary (int64 $value) $value (and (kindIs "float64" $value) (eq (floor $value) (float64 $value))) | toString | quote }}
{{- end }}
{{- end -}}

{{/* Where a service finds its files for the bus, and what they are: arguments root, service. */}}
{{- define "antiphon.busMounts" -}}
{{- $values := .root.Values -}}
{{- if ne $values.busAuth.kind "password" }}
- {name: bus-identity, mountPath: /run/antiphon/bus, readOnly: true}
{{- end }}
{{- if and (not $values.nats.enabled) $values.externalBus.tls.secret }}
- {name: bus-tls, mountPath: /run/antiphon/tls, readOnly: true}
{{- end }}
{{- end -}}

{{- define "antiphon.busVolumes" -}}
{{- $values := .root.Values -}}
{{- if ne $values.busAuth.kind "password" }}
{{- if or $values.nats.enabled (not $values.busAuth.existingSecret) }}
{{- fail "busAuth.kind nkey and creds are for an external bus, and need busAuth.existingSecret" }}
{{- end }}
- name: bus-identity
  secret:
    secretName: {{ $values.busAuth.existingSecret }}
    defaultMode: 0440
    items:
      {{- range splitList " " .service }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
      {{- if and (eq .service "gateway") (eq $values.busAuth.kind "creds") }}
      - {key: system, path: system}
      {{- end }}
{{- end }}
{{- if and (not $values.nats.enabled) $values.externalBus.tls.secret }}
- name: bus-tls
  secret: {secretName: {{ $values.externalBus.tls.secret }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{/* What every pod of a service has: arguments root, component, model, nodeSelector, tolerations. */}}
{{- define "antiphon.pod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ include "antiphon.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ add $values.drainSeconds $values.preStopSeconds 5 }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- if $values.topologySpread }}
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "antiphon.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "antiphon.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Start-up may take minutes (weights, warm-up); afterwards ten silent seconds are a death. */}}
{{- define "antiphon.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 2
  failureThreshold: 300
livenessProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
lifecycle:
  preStop:
    exec: {command: [sleep, {{ .Values.preStopSeconds | quote }}]}
{{- end -}}

{{/* The engines of every model: a list of {model, stage, name, config}, as JSON. A stage is a talker,
a vocoder, or a pair of both in one process. */}}
{{- define "antiphon.engines" -}}
{{- $root := . -}}
{{- $engines := list -}}
{{- range $model := .Values.models -}}
{{- range $stage := ternary (list "pair") (list "talker" "vocoder") (default false $model.paired) -}}
{{- $config := mergeOverwrite (deepCopy (get $root.Values $stage)) (deepCopy (default dict (get $model $stage))) -}}
{{- $name := printf "%s-%s-%s" (include "antiphon.fullname" $root) $model.name $stage | trunc 63 -}}
{{- $engines = append $engines (dict "model" $model "stage" $stage "name" $name "config" $config) -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "all" $engines) -}}
{{- end -}}

{{/* The models of pods that several share, as ANTIPHON_MODELS says it: arguments model, stage, engine. */}}
{{- define "antiphon.sharing" -}}
{{- $stage := .stage -}}
{{- $engine := .engine -}}
{{- $models := list -}}
{{- range prepend .model.sharing (dict "name" .model.name "path" .model.weights.path "codec" .model.weights.codec) -}}
{{- $own := dict "model" .name -}}
{{- if eq $engine "torch" -}}
{{- $_ := set $own "voice_dir" (printf "/app/voices/%s" .path) -}}
{{- with .codec -}}
{{- $_ := set $own (ternary "codec_dir" "voice_dir" (eq $stage "talker")) (printf "/app/voices/%s" .) -}}
{{- end -}}
{{- end -}}
{{- $models = append $models $own -}}
{{- end -}}
{{- toJson $models -}}
{{- end -}}

{{/* The stages that an engine's process has. */}}
{{- define "antiphon.stages" -}}
{{- ternary "talker vocoder" . (eq . "pair") -}}
{{- end -}}

{{/* A pair is the talker on the bus and, with an identity of its own, the vocoder: argument root. */}}
{{- define "antiphon.secondIdentity" -}}
{{- $values := .root.Values -}}
{{- if eq $values.busAuth.kind "password" }}
- name: ANTIPHON_VOCODER__BUS__USER
  value: vocoder
- name: ANTIPHON_VOCODER__BUS__PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "antiphon.busSecret" .root }}, key: vocoder}}
{{- else }}
- name: ANTIPHON_VOCODER__BUS__{{ upper $values.busAuth.kind }}_FILE
  value: /run/antiphon/bus/vocoder
{{- end }}
{{- end -}}

{{/* Streams that a stage's workers may hold at once, all models together: sizes the queues. */}}
{{- define "antiphon.slots" -}}
{{- $slots := dict "talker" 0 "vocoder" 0 -}}
{{- range $engine := (include "antiphon.engines" . | fromJson).all -}}
{{- $scaling := $engine.config.autoscaling -}}
{{- $workers := ternary $scaling.maxReplicas $engine.config.replicas (ne $scaling.kind "") -}}
{{- $settings := $engine.config.settings -}}
{{- range $stage := include "antiphon.stages" $engine.stage | splitList " " -}}
{{- $common := default 64 $settings.slots -}}
{{- $models := add 1 (len (default list $engine.model.sharing)) -}}
{{- $own := mul $workers $models (default $common (get $settings (printf "%s__slots" $stage))) -}}
{{- $_ := set $slots $stage (add (get $slots $stage) $own) -}}
{{- end -}}
{{- end -}}
{{- max 256 $slots.talker $slots.vocoder -}}
{{- end -}}

{{- define "antiphon.tracing" -}}
{{- with .Values.tracing }}
{{- if .endpoint }}
- name: ANTIPHON_TRACING__ENDPOINT
  value: {{ .endpoint | quote }}
- name: ANTIPHON_TRACING__SAMPLE_RATIO
  value: {{ .sampleRatio | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What the broker is told, but for its accounts. */}}
{{- define "antiphon.natsConfig" -}}
{{- $config := printf "%s-nats" (include "antiphon.fullname" .) -}}
server_name: $POD_NAME
http: 8222
# One message of ttscommon is at most 1 MiB; headers come on top.
max_payload: 2MB
max_pending: 64MB
ping_interval: "5s"
# Clients are told to go elsewhere within this time, before the broker stops.
lame_duck_grace_period: "5s"
lame_duck_duration: "30s"
jetstream {
  store_dir: /data
  max_memory_store: {{ .Values.nats.maxMemoryStore }}
  max_file_store: {{ include "antiphon.bytes" .Values.nats.storage.size }}
}
{{- if gt (int .Values.nats.replicas) 1 }}
cluster {
  name: {{ $config }}
  listen: "0.0.0.0:6222"
  routes: [
    {{- range $i := until (int .Values.nats.replicas) }}
    "nats://{{ $config }}-{{ $i }}.{{ $config }}:6222"
    {{- end }}
  ]
  # A member that hangs swallows what is meant for all: direct reads, and live chunks.
  ping_interval: "1s"
  ping_max: 3
  {{- if .Values.nats.routes.tlsSecret }}
  tls {
    cert_file: /etc/nats-routes/tls.crt
    key_file: /etc/nats-routes/tls.key
    ca_file: /etc/nats-routes/ca.crt
    verify: true
    timeout: 5
  }
  {{- end }}
}
{{- end }}
include accounts.conf
{{- end -}}

{{/* What an operator adds to the pods of a kind: arguments of merge, at the pod and its container. */}}
{{- define "antiphon.podMetadata" -}}
{{- with .podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Values that would make objects that no cluster accepts, or a deployment that cannot work. */}}
{{- define "antiphon.validate" -}}
{{- $root := . -}}
{{- $names := list -}}
{{- range .Values.models -}}
{{- if has .name $names -}}{{- fail (printf "models: '%s' is there twice" .name) -}}{{- end -}}
{{- $names = append $names .name -}}
{{- range .sharing -}}
{{- if has .name $names -}}{{- fail (printf "models: '%s' is there twice" .name) -}}{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if and .sharing .paired -}}{{- fail (printf "models: '%s' shares its pods with others, and cannot be paired" .name) -}}{{- end -}}
{{- end -}}
{{- range (include "antiphon.engines" . | fromJson).all -}}
{{- if and .model.sharing .config.autoscaling.kind -}}{{- fail (printf "models: '%s' shares its pods with others, whose load no scaler counts" .model.name) -}}{{- end -}}
{{- if and .model.sharing (gt (int .config.gpu.count) 0) -}}{{- fail (printf "models: '%s' shares its pods with others, on a CPU alone" .model.name) -}}{{- end -}}
{{- $name := printf "%s-%s-%s" (include "antiphon.fullname" $root) .model.name .stage -}}
{{- if gt (len $name) 63 -}}{{- fail (printf "'%s' is longer than 63 characters: shorten the release's or the model's name" $name) -}}{{- end -}}
{{- $limit := get (default dict .config.resources.limits) "memory" -}}
{{- $cache := default (default 0 .config.settings.kv_bytes) .config.settings.talker__kv_bytes | int64 -}}
{{- $state := default (default 0 .config.settings.state_mb) .config.settings.vocoder__state_mb | int64 | mul 1048576 -}}
{{- $cpu := eq (int .config.gpu.count) 0 -}}
{{- /* On a CPU the KV cache, and what a codec's streams carry, lie in the pod's memory, beside weights and the process. */ -}}
{{- range $setting, $bytes := dict "kv_bytes" $cache "state_mb" $state -}}
{{- if and $limit $bytes $cpu -}}
{{- $needed := add 805306368 $bytes -}}
{{- if lt (include "antiphon.bytes" $limit | int64) $needed -}}{{- fail (printf "%s: resources.limits.memory is %s: settings.%s and the process need %d Mi" $name $limit $setting (div $needed 1048576)) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with .config.autoscaling -}}
{{- if and .kind (gt (int .minReplicas) (int .maxReplicas)) -}}{{- fail (printf "%s: autoscaling.minReplicas is more than maxReplicas" $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.gateway.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}{{- fail "gateway: autoscaling.minReplicas is more than maxReplicas" -}}{{- end -}}
{{- end -}}
{{- if .Values.nats.enabled -}}
{{- $log := include "antiphon.bytes" .Values.nats.maxLogBytes | int64 -}}
{{- $disk := include "antiphon.bytes" .Values.nats.storage.size | int64 -}}
{{- /* Three logs, one and a half times as much for recordings, once as much for the sound of
       jobs; 64 MiB each for the records of jobs, for sessions and for use, 256 MiB for what is
       derived of passing recordings, and 216 KiB in the queues for a slot. */ -}}
{{- $needed := add (div (mul $log 11) 2) 469762048 (mul 221184 (include "antiphon.slots" . | int64)) -}}
{{- if gt $needed $disk -}}{{- fail (printf "nats.storage.size is %s: logs of nats.maxLogBytes (%s), recordings, jobs and queues need %d Mi" .Values.nats.storage.size .Values.nats.maxLogBytes (div (add $needed 1048575) 1048576)) -}}{{- end -}}
{{- end -}}
{{- $memory := get (default dict .Values.gateway.resources.limits) "memory" -}}
{{- if $memory -}}
{{- $streams := default 1000 .Values.gateway.settings.max_streams | int64 -}}
{{- $jobs := default 64 .Values.gateway.settings.max_job_streams | int64 -}}
{{- /* 2.5 MiB a stream whose listener is slow, 4.5 MiB one of a job, and the process. */ -}}
{{- $needed := add 268435456 (mul $streams 2621440) (mul $jobs 4718592) -}}
{{- if lt (include "antiphon.bytes" $memory | int64) $needed -}}{{- fail (printf "gateway.resources.limits.memory is %s: %d streams to slow listeners and %d of jobs need %d Mi; raise it, or lower gateway.settings.max_streams or max_job_streams" $memory $streams $jobs (div $needed 1048576)) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* At most twice as many in a minute: workers need time to load before they show. */}}
{{- define "antiphon.scalingBehavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  selectPolicy: Max
  policies:
    - {type: Percent, value: 100, periodSeconds: 60}
    - {type: Pods, value: 2, periodSeconds: 60}
scaleDown: {stabilizationWindowSeconds: 300}
{{- end -}}

{{/* Whether an engine scales on recorded series. */}}
{{- define "antiphon.scales" -}}
{{- range (include "antiphon.engines" . | fromJson).all -}}
{{- if .config.autoscaling.kind }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{/* Until the stage behind is new: arguments root, service (who waits). See decision 0098. */}}
{{- define "antiphon.order" -}}
- name: order
  image: {{ include "antiphon.image" (dict "root" .root "name" "antiphon-gateway") }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [python, -m, ttscommon.bus, follow, {{ .service }}, --patience, {{ .root.Values.upgrade.patienceSeconds | quote }}]
  env:
    {{- include "antiphon.environment" (dict "root" .root "service" .service "settings" dict) | nindent 4 }}
  resources:
    requests: {cpu: 50m, memory: 64Mi}
    limits: {memory: 256Mi}
  securityContext:
    {{- include "antiphon.containerSecurity" .root | nindent 4 }}
  volumeMounts:
    - {name: tmp, mountPath: /tmp}
    {{- include "antiphon.busMounts" . | nindent 4 }}
{{- end -}}
