{{- define "butler.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Labels of everything. Called with a dict of the root context and the part's name. */}}
{{- define "butler.labels" -}}
{{ include "butler.selector" . }}
app.kubernetes.io/part-of: butler
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "butler.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* One part: a Deployment, a Service for its metrics and a budget. The namespace and the service account are those
that the generated permissions speak about. */}}
{{- define "butler.part" -}}
{{- $root := .root -}}
{{- $part := .part -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
spec:
  replicas: {{ $part.replicas }}
  selector:
    matchLabels:
      {{- include "butler.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "butler.labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ .name }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: {{ .name }}
          image: {{ include "butler.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            {{- toYaml .args | nindent 12 }}
            {{- with $part.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          env:
            - {name: BUTLER_LOG, value: {{ $root.Values.logLevel | quote }}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
          ports:
            - {name: http, containerPort: 8080}
          livenessProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 10
          readinessProbe:
            httpGet: {path: /readyz, port: http}
            periodSeconds: 1
          resources:
            {{- toYaml $part.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          {{- with .work }}
          volumeMounts:
            - {name: work, mountPath: /var/lib/butler}
          {{- end }}
          terminationMessagePolicy: FallbackToLogsOnError
      {{- with .work }}
      volumes:
        - name: work
          emptyDir: {sizeLimit: {{ . }}}
      {{- end }}
      {{- with $part.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $part.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $part.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}-metrics
  namespace: {{ .namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "butler.selector" . | nindent 4 }}
  ports:
    - {name: http, port: 8080, targetPort: http}
{{- if $root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
spec:
  # One that is alone may be moved: its work waits for it.
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "butler.selector" . | nindent 6 }}
{{- end }}
{{- if $root.Values.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
    {{- with $root.Values.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "butler.selector" . | nindent 6 }}
  endpoints:
    - {port: http, interval: {{ $root.Values.serviceMonitor.interval }}}
{{- end }}
{{- end }}
