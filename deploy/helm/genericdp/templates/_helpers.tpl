{{- define "genericdp.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "genericdp.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- /* What selectors, which cannot be changed, must not have. */ -}}
{{- define "genericdp.versionLabels" -}}
{{- /* A label is shorter than a tag may be, begins and ends otherwise, and has no digest behind it. */ -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag | splitList "@" | first -}}
app.kubernetes.io/version: {{ $tag | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/component: device-plugin
app.kubernetes.io/part-of: genericdp
{{- end -}}

{{- define "genericdp.labels" -}}
{{ include "genericdp.selectorLabels" . }}
{{ include "genericdp.versionLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* Maps given as a list, as one: no key stands there twice, and the first that has it decides. */ -}}
{{- define "genericdp.together" -}}
{{- $all := dict -}}
{{- range . -}}
{{- $all = merge $all (default (dict) .) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{- define "genericdp.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "genericdp.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "genericdp.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* The image of a group, as a context for the two above: its own version, or that of all. */ -}}
{{- define "genericdp.imageOfGroup" -}}
{{- $own := default (dict) .said.image -}}
{{- $version := pick .all "tag" "digest" -}}
{{- if or $own.tag $own.digest -}}
{{- $version = dict "tag" "" "digest" "" -}}
{{- end -}}
{{- toJson (merge (dict) $own $version (pick .all "repository" "pullPolicy")) -}}
{{- end -}}

{{- /* Where the daemon listens; empty: at all addresses of the pod. */ -}}
{{- define "genericdp.address" -}}
{{- $given := .Values.http.address -}}
{{- if and $given (not .Values.hostNetwork) (not (has $given (list "0.0.0.0" "::"))) -}}
{{- fail (printf "http.address: the kubelet's probes ask the pod's own address, so with %q they would fail on every node: leave it empty, or set hostNetwork" $given) -}}
{{- end -}}
{{- $loopback := or (not $given) (hasPrefix "127." $given) (eq $given "::1") -}}
{{- if and .Values.hostNetwork .Values.monitoring.podMonitor.enabled $loopback -}}
{{- fail "monitoring.podMonitor: with hostNetwork the daemon listens on the node's loopback, where Prometheus does not reach it: set http.address to 0.0.0.0, and http.status to false if not everybody who reaches the node may read serial numbers" -}}
{{- end -}}
{{- default (ternary "127.0.0.1" "" .Values.hostNetwork) $given -}}
{{- end -}}

{{- /* The ConfigMap with the policy, or nothing. */ -}}
{{- define "genericdp.policyConfigMap" -}}
{{- if and .Values.policy .Values.existingPolicyConfigMap -}}
{{- fail "policy and existingPolicyConfigMap exclude each other: write the policy here, or name the ConfigMap that has it" -}}
{{- end -}}
{{- if .Values.policy -}}
{{- printf "%s-policy" (include "genericdp.fullname" .) -}}
{{- else -}}
{{- .Values.existingPolicyConfigMap -}}
{{- end -}}
{{- end -}}

{{- /* Fails for a number where a text belongs: what was written, 0403, is only known as 259 here. */ -}}
{{- define "genericdp.refuseNumbers" -}}
{{- $at := .at -}}
{{- $key := .key -}}
{{- if kindIs "map" .value -}}
{{- range $name, $value := .value -}}
{{- $_ := include "genericdp.refuseNumbers" (dict "at" (printf "%s.%s" $at $name) "key" $name "value" $value) -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $index, $value := .value -}}
{{- $_ := include "genericdp.refuseNumbers" (dict "at" (printf "%s[%d]" $at $index) "key" $key "value" $value) -}}
{{- end -}}
{{- else if or (kindIs "float64" .value) (kindIs "int64" .value) (kindIs "int" .value) -}}
{{- $numbers := list "replicas" "expect" "groupNeeds" "min" "max" "failureThreshold" "successThreshold" -}}
{{- if not (or (has $key $numbers) (hasSuffix "Seconds" $key)) -}}
{{- fail (printf "%s is read as the number %v before genericdp sees it: write it in quotes, as in vendor: \"0403\"" $at .value) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The DaemonSets to make, as JSON: {groups: [{suffix, config, nodeSelector, ...}]}. */ -}}
{{- define "genericdp.groups" -}}
{{- $root := . -}}
{{- $groups := list -}}
{{- $config := list "config" "configFiles" "existingConfigMap" -}}
{{- $shared := list "affinity" "tolerations" "resources" "privileged" -}}
{{- if .Values.nodeGroups -}}
{{- range $name, $said := .Values.nodeGroups -}}
{{- $group := dict "name" $name "suffix" (printf "-%s" $name) -}}
{{- $_ := set $group "nodeSelector" (merge (dict) (default (dict) $said.nodeSelector) $root.Values.nodeSelector) -}}
{{- range $shared -}}
{{- $_ := set $group . (ternary (get $said .) (index $root.Values .) (hasKey $said .)) -}}
{{- end -}}
{{- range $config -}}
{{- $_ := set $group . (get $said .) -}}
{{- end -}}
{{- $_ := set $group "image" (include "genericdp.imageOfGroup" (dict "said" $said "all" $root.Values.image) | fromJson) -}}
{{- $groups = append $groups $group -}}
{{- end -}}
{{- else -}}
{{- $group := pick .Values "image" "config" "configFiles" "existingConfigMap" "nodeSelector" "affinity" "tolerations" "resources" "privileged" -}}
{{- $groups = append $groups (merge (dict "name" "" "suffix" "") $group) -}}
{{- end -}}
{{- range $groups -}}
{{- with .config -}}
{{- $_ := include "genericdp.refuseNumbers" (dict "at" "config.resources" "key" "" "value" .resources) -}}
{{- end -}}
{{- if not (or .config .configFiles .existingConfigMap) -}}
{{- fail (printf "%sconfig, configFiles or existingConfigMap must say what the nodes offer" (ternary (printf "nodeGroups.%s: " .name) "" (ne .name ""))) -}}
{{- end -}}
{{- if and .config .configFiles (hasKey .configFiles "genericdp.yaml") -}}
{{- fail "configFiles: genericdp.yaml is the name of the file that config makes: choose another name, or set config to null" -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "groups" $groups) -}}
{{- end -}}
