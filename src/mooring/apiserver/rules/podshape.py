"""core/v1 Pod: its shape, from its volumes to its status."""

from __future__ import annotations

from typing import Final

from mooring.apiserver.rules import claimspec, selectors, volumesources

_VOLUMES: Final = (volumesources.MESSAGES | claimspec.MESSAGES).extended("""
Volume: 1 name s!, 2 <> VolumeSource
VolumeSource: 1 hostPath HostPathVolumeSource?, 2 emptyDir EmptyDirVolumeSource?, 3 gcePersistentDisk GCEPersistentDiskVolumeSource?, 4 awsElasticBlockStore AWSElasticBlockStoreVolumeSource?, 5 gitRepo GitRepoVolumeSource?, 6 secret SecretVolumeSource?, 7 nfs NFSVolumeSource?, 8 iscsi ISCSIVolumeSource?, 9 glusterfs GlusterfsVolumeSource?, 10 persistentVolumeClaim PersistentVolumeClaimVolumeSource?, 11 rbd RBDVolumeSource?, 12 flexVolume FlexVolumeSource?, 13 cinder CinderVolumeSource?, 14 cephfs CephFSVolumeSource?, 15 flocker FlockerVolumeSource?, 16 downwardAPI DownwardAPIVolumeSource?, 17 fc FCVolumeSource?, 18 azureFile AzureFileVolumeSource?, 19 configMap ConfigMapVolumeSource?, 20 vsphereVolume VsphereVirtualDiskVolumeSource?, 21 quobyte QuobyteVolumeSource?, 22 azureDisk AzureDiskVolumeSource?, 23 photonPersistentDisk PhotonPersistentDiskVolumeSource?, 24 portworxVolume PortworxVolumeSource?, 25 scaleIO ScaleIOVolumeSource?, 26 projected ProjectedVolumeSource?, 27 storageos StorageOSVolumeSource?, 28 csi CSIVolumeSource?, 29 ephemeral EphemeralVolumeSource?, 30 image ImageVolumeSource?
EmptyDirVolumeSource: 1 medium s, 2 sizeLimit q?
GitRepoVolumeSource: 1 repository s!, 2 revision s, 3 directory s
SecretVolumeSource: 1 secretName s, 2 items *KeyToPath, 3 defaultMode i32?, 4 optional b?
KeyToPath: 1 key s!, 2 path s!, 3 mode i32?
ISCSIVolumeSource: 1 targetPortal s!, 2 iqn s!, 3 lun i32!, 4 iscsiInterface s, 5 fsType s, 6 readOnly b, 7 portals *s, 8 chapAuthDiscovery b, 10 secretRef LocalObjectReference?, 11 chapAuthSession b, 12 initiatorName s?
GlusterfsVolumeSource: 1 endpoints s!, 2 path s!, 3 readOnly b
PersistentVolumeClaimVolumeSource: 1 claimName s!, 2 readOnly b
RBDVolumeSource: 1 monitors *s!, 2 image s!, 3 fsType s, 4 pool s, 5 user s, 6 keyring s, 7 secretRef LocalObjectReference?, 8 readOnly b
FlexVolumeSource: 1 driver s!, 2 fsType s, 3 secretRef LocalObjectReference?, 4 readOnly b, 5 options {s}
CinderVolumeSource: 1 volumeID s!, 2 fsType s, 3 readOnly b, 4 secretRef LocalObjectReference?
CephFSVolumeSource: 1 monitors *s!, 2 path s, 3 user s, 4 secretFile s, 5 secretRef LocalObjectReference?, 6 readOnly b
DownwardAPIVolumeSource: 1 items *DownwardAPIVolumeFile, 2 defaultMode i32?
DownwardAPIVolumeFile: 1 path s!, 2 fieldRef ObjectFieldSelector?, 3 resourceFieldRef ResourceFieldSelector?, 4 mode i32?
ObjectFieldSelector=: 1 apiVersion s, 2 fieldPath s!
ResourceFieldSelector=: 1 containerName s, 2 resource s!, 3 divisor q!-
AzureFileVolumeSource: 1 secretName s!, 2 shareName s!, 3 readOnly b
ConfigMapVolumeSource: 1 <> LocalObjectReference, 2 items *KeyToPath, 3 defaultMode i32?, 4 optional b?
ScaleIOVolumeSource: 1 gateway s!, 2 system s!, 3 secretRef LocalObjectReference!?+, 4 sslEnabled b, 5 protectionDomain s, 6 storagePool s, 7 storageMode s, 8 volumeName s, 9 fsType s, 10 readOnly b
ProjectedVolumeSource: 1 sources *VolumeProjection!-, 2 defaultMode i32?
VolumeProjection: 1 secret SecretProjection?, 2 downwardAPI DownwardAPIProjection?, 3 configMap ConfigMapProjection?, 4 serviceAccountToken ServiceAccountTokenProjection?, 5 clusterTrustBundle ClusterTrustBundleProjection?, 6 podCertificate PodCertificateProjection?
SecretProjection: 1 <> LocalObjectReference, 2 items *KeyToPath, 4 optional b?
DownwardAPIProjection: 1 items *DownwardAPIVolumeFile
ConfigMapProjection: 1 <> LocalObjectReference, 2 items *KeyToPath, 4 optional b?
ServiceAccountTokenProjection: 1 audience s, 2 expirationSeconds i64?, 3 path s!
ClusterTrustBundleProjection: 1 name s?, 2 signerName s?, 3 labelSelector LabelSelector?, 4 path s!, 5 optional b?
PodCertificateProjection: 1 signerName s+, 2 keyType s+, 3 maxExpirationSeconds i32?, 4 credentialBundlePath s, 5 keyPath s, 6 certificateChainPath s, 7 userAnnotations {s}
StorageOSVolumeSource: 1 volumeName s, 2 volumeNamespace s, 3 fsType s, 4 readOnly b, 5 secretRef LocalObjectReference?
CSIVolumeSource: 1 driver s!, 2 readOnly b?, 3 fsType s?, 4 volumeAttributes {s}, 5 nodePublishSecretRef LocalObjectReference?
EphemeralVolumeSource: 1 volumeClaimTemplate PersistentVolumeClaimTemplate?
ImageVolumeSource: 1 reference s, 2 pullPolicy s
LocalObjectReference=: 1 name s
""")  # noqa: E501

_CONTAINERS: Final = _VOLUMES.extended("""
Container: 1 name s!, 2 image s, 3 command *s, 4 args *s, 5 workingDir s, 6 ports *ContainerPort@containerPort~containerPort+protocol, 7 env *EnvVar@name, 8 resources ResourceRequirements!, 9 volumeMounts *VolumeMount@mountPath, 10 livenessProbe Probe?, 11 readinessProbe Probe?, 12 lifecycle Lifecycle?, 13 terminationMessagePath s, 14 imagePullPolicy s, 15 securityContext SecurityContext?, 16 stdin b, 17 stdinOnce b, 18 tty b, 19 envFrom *EnvFromSource, 20 terminationMessagePolicy s, 21 volumeDevices *VolumeDevice@devicePath, 22 startupProbe Probe?, 23 resizePolicy *ContainerResizePolicy, 24 restartPolicy s?, 25 restartPolicyRules *ContainerRestartRule
EphemeralContainer: 1 <> EphemeralContainerCommon, 2 targetContainerName s
EphemeralContainerCommon: 1 name s!, 2 image s, 3 command *s, 4 args *s, 5 workingDir s, 6 ports *ContainerPort@containerPort~containerPort+protocol, 7 env *EnvVar@name, 8 resources ResourceRequirements!, 9 volumeMounts *VolumeMount@mountPath, 10 livenessProbe Probe?, 11 readinessProbe Probe?, 12 lifecycle Lifecycle?, 13 terminationMessagePath s, 14 imagePullPolicy s, 15 securityContext SecurityContext?, 16 stdin b, 17 stdinOnce b, 18 tty b, 19 envFrom *EnvFromSource, 20 terminationMessagePolicy s, 21 volumeDevices *VolumeDevice@devicePath, 22 startupProbe Probe?, 23 resizePolicy *ContainerResizePolicy, 24 restartPolicy s?, 25 restartPolicyRules *ContainerRestartRule
ContainerPort: 1 name s, 2 hostPort i32, 3 containerPort i32!, 4 protocol s, 5 hostIP s
EnvVar: 1 name s!, 2 value s, 3 valueFrom EnvVarSource?
EnvVarSource: 1 fieldRef ObjectFieldSelector?, 2 resourceFieldRef ResourceFieldSelector?, 3 configMapKeyRef ConfigMapKeySelector?, 4 secretKeyRef SecretKeySelector?, 5 fileKeyRef FileKeySelector?
ConfigMapKeySelector=: 1 <> LocalObjectReference, 2 key s!, 3 optional b?
SecretKeySelector=: 1 <> LocalObjectReference, 2 key s!, 3 optional b?
FileKeySelector=: 1 volumeName s!, 2 path s!, 3 key s!, 4 optional b?
EnvFromSource: 1 prefix s, 2 configMapRef ConfigMapEnvSource?, 3 secretRef SecretEnvSource?
ConfigMapEnvSource: 1 <> LocalObjectReference, 2 optional b?
SecretEnvSource: 1 <> LocalObjectReference, 2 optional b?
ResourceRequirements: 1 limits {q}, 2 requests {q}, 3 claims *ResourceClaim~name
ResourceClaim: 1 name s!, 2 request s
VolumeMount: 1 name s!, 2 readOnly b, 3 mountPath s!, 4 subPath s, 5 mountPropagation s?, 6 subPathExpr s, 7 recursiveReadOnly s?
VolumeDevice: 1 name s!, 2 devicePath s!
Probe: 1 <> ProbeHandler, 2 initialDelaySeconds i32, 3 timeoutSeconds i32, 4 periodSeconds i32, 5 successThreshold i32, 6 failureThreshold i32, 7 terminationGracePeriodSeconds i64?
ProbeHandler: 1 exec ExecAction?, 2 httpGet HTTPGetAction?, 3 tcpSocket TCPSocketAction?, 4 grpc GRPCAction?
ExecAction: 1 command *s
HTTPGetAction: 1 path s, 2 port intstr!, 3 host s, 4 scheme s, 5 httpHeaders *HTTPHeader
HTTPHeader: 1 name s!, 2 value s!
TCPSocketAction: 1 port intstr!, 2 host s
GRPCAction: 1 port i32!, 2 service s!?
Lifecycle: 1 postStart LifecycleHandler?, 2 preStop LifecycleHandler?, 3 stopSignal s?
LifecycleHandler: 1 exec ExecAction?, 2 httpGet HTTPGetAction?, 3 tcpSocket TCPSocketAction?, 4 sleep SleepAction?
SleepAction: 1 seconds i64!
SecurityContext: 1 capabilities Capabilities?, 2 privileged b?, 3 seLinuxOptions SELinuxOptions?, 4 runAsUser i64?, 5 runAsNonRoot b?, 6 readOnlyRootFilesystem b?, 7 allowPrivilegeEscalation b?, 8 runAsGroup i64?, 9 procMount s?, 10 windowsOptions WindowsSecurityContextOptions?, 11 seccompProfile SeccompProfile?, 12 appArmorProfile AppArmorProfile?
Capabilities: 1 add *s, 2 drop *s
SELinuxOptions: 1 user s, 2 role s, 3 type s, 4 level s
WindowsSecurityContextOptions: 1 gmsaCredentialSpecName s?, 2 gmsaCredentialSpec s?, 3 runAsUserName s?, 4 hostProcess b?
SeccompProfile: 1 type s!, 2 localhostProfile s?
AppArmorProfile: 1 type s!, 2 localhostProfile s?
ContainerResizePolicy: 1 resourceName s!, 2 restartPolicy s!
ContainerRestartRule: 1 action s+, 2 exitCodes ContainerRestartRuleOnExitCodes?
ContainerRestartRuleOnExitCodes: 1 operator s+, 2 values *i32~
""")  # noqa: E501

_STATUS: Final = _CONTAINERS.extended("""
PodStatus: 1 phase s, 2 conditions *PodCondition@type, 3 message s, 4 reason s, 5 hostIP s, 6 podIP s, 7 startTime time?, 8 containerStatuses *ContainerStatus, 9 qosClass s, 10 initContainerStatuses *ContainerStatus, 11 nominatedNodeName s, 12 podIPs *PodIP@ip, 13 ephemeralContainerStatuses *ContainerStatus, 14 resize s, 15 resourceClaimStatuses *PodResourceClaimStatus@name, 16 hostIPs *HostIP@ip~=, 17 observedGeneration i64, 18 extendedResourceClaimStatus PodExtendedResourceClaimStatus?, 19 allocatedResources {q}, 20 resources ResourceRequirements?, 21 nodeAllocatableResourceClaimStatuses *NodeAllocatableResourceClaimStatus
PodCondition: 1 type s!, 2 status s!, 3 lastProbeTime time!, 4 lastTransitionTime time!, 5 reason s, 6 message s, 7 observedGeneration i64
PodIP: 1 ip s!
HostIP: 1 ip s!
ContainerStatus: 1 name s!, 2 state ContainerState!, 3 lastState ContainerState!, 4 ready b!, 5 restartCount i32!, 6 image s!, 7 imageID s!, 8 containerID s, 9 started b?, 10 allocatedResources {q}, 11 resources ResourceRequirements?, 12 volumeMounts *VolumeMountStatus@mountPath, 13 user ContainerUser?, 14 allocatedResourcesStatus *ResourceStatus@name, 15 stopSignal s?
ContainerState: 1 waiting ContainerStateWaiting?, 2 running ContainerStateRunning?, 3 terminated ContainerStateTerminated?
ContainerStateWaiting: 1 reason s, 2 message s
ContainerStateRunning: 1 startedAt time!
ContainerStateTerminated: 1 exitCode i32!, 2 signal i32, 3 reason s, 4 message s, 5 startedAt time!, 6 finishedAt time!, 7 containerID s
VolumeMountStatus: 1 name s!, 2 mountPath s!, 3 readOnly b, 4 recursiveReadOnly s?, 5 volumeStatus VolumeStatus?
VolumeStatus: 1 image ImageVolumeStatus?
ImageVolumeStatus: 1 imageRef s+
ContainerUser: 1 linux LinuxContainerUser?
LinuxContainerUser: 1 uid i64!, 2 gid i64!, 3 supplementalGroups *i64
ResourceStatus: 1 name s!, 2 resources *ResourceHealth~resourceID
ResourceHealth: 1 resourceID s!, 2 health s, 6 message s?
PodResourceClaimStatus: 1 name s!, 2 resourceClaimName s?
PodExtendedResourceClaimStatus: 1 requestMappings *ContainerExtendedResourceRequest!, 2 resourceClaimName s!
ContainerExtendedResourceRequest: 1 containerName s!, 2 resourceName s!, 3 requestName s!
NodeAllocatableResourceClaimStatus: 1 resourceClaimName s!, 2 containers *s~, 3 resources {q}!
""")  # noqa: E501

MESSAGES: Final = (_STATUS | selectors.NODE_MESSAGES).extended("""
Pod: 1 metadata ObjectMeta!, 2 spec PodSpec!, 3 status PodStatus!
PodSpec: 1 volumes *Volume@name, 2 containers *Container!@name, 3 restartPolicy s, 4 terminationGracePeriodSeconds i64?, 5 activeDeadlineSeconds i64?, 6 dnsPolicy s, 7 nodeSelector {s}~=, 8 serviceAccountName s, 9 serviceAccount s, 10 nodeName s, 11 hostNetwork b, 12 hostPID b, 13 hostIPC b, 14 securityContext PodSecurityContext?, 15 imagePullSecrets *LocalObjectReference@name, 16 hostname s, 17 subdomain s, 18 affinity Affinity?, 19 schedulerName s, 20 initContainers *Container@name, 21 automountServiceAccountToken b?, 22 tolerations *Toleration, 23 hostAliases *HostAlias@ip, 24 priorityClassName s, 25 priority i32?, 26 dnsConfig PodDNSConfig?, 27 shareProcessNamespace b?, 28 readinessGates *PodReadinessGate, 29 runtimeClassName s?, 30 enableServiceLinks b?, 31 preemptionPolicy s?, 32 overhead {q}, 33 topologySpreadConstraints *TopologySpreadConstraint@topologyKey~topologyKey+whenUnsatisfiable, 34 ephemeralContainers *EphemeralContainer@name, 35 setHostnameAsFQDN b?, 36 os PodOS?, 37 hostUsers b?, 38 schedulingGates *PodSchedulingGate@name, 39 resourceClaims *PodResourceClaim@name, 40 resources ResourceRequirements?, 41 hostnameOverride s?, 43 schedulingGroup PodSchedulingGroup?
PodSecurityContext: 1 seLinuxOptions SELinuxOptions?, 2 runAsUser i64?, 3 runAsNonRoot b?, 4 supplementalGroups *i64, 5 fsGroup i64?, 6 runAsGroup i64?, 7 sysctls *Sysctl, 8 windowsOptions WindowsSecurityContextOptions?, 9 fsGroupChangePolicy s?, 10 seccompProfile SeccompProfile?, 11 appArmorProfile AppArmorProfile?, 12 supplementalGroupsPolicy s?, 13 seLinuxChangePolicy s?
Sysctl: 1 name s!, 2 value s!
Affinity: 1 nodeAffinity NodeAffinity?, 2 podAffinity PodAffinity?, 3 podAntiAffinity PodAntiAffinity?
NodeAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution NodeSelector?, 2 preferredDuringSchedulingIgnoredDuringExecution *PreferredSchedulingTerm
PreferredSchedulingTerm: 1 weight i32!, 2 preference NodeSelectorTerm!+
PodAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution *PodAffinityTerm, 2 preferredDuringSchedulingIgnoredDuringExecution *WeightedPodAffinityTerm
PodAntiAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution *PodAffinityTerm, 2 preferredDuringSchedulingIgnoredDuringExecution *WeightedPodAffinityTerm
PodAffinityTerm: 1 labelSelector LabelSelector?, 2 namespaces *s, 3 topologyKey s!, 4 namespaceSelector LabelSelector?, 5 matchLabelKeys *s, 6 mismatchLabelKeys *s
WeightedPodAffinityTerm: 1 weight i32!, 2 podAffinityTerm PodAffinityTerm!+
Toleration: 1 key s, 2 operator s, 3 value s, 4 effect s, 5 tolerationSeconds i64?
HostAlias: 1 ip s!, 2 hostnames *s
PodDNSConfig: 1 nameservers *s, 2 searches *s, 3 options *PodDNSConfigOption
PodDNSConfigOption: 1 name s, 2 value s?
PodReadinessGate: 1 conditionType s!
TopologySpreadConstraint: 1 maxSkew i32!, 2 topologyKey s!, 3 whenUnsatisfiable s!, 4 labelSelector LabelSelector?, 5 minDomains i32?, 6 nodeAffinityPolicy s?, 7 nodeTaintsPolicy s?, 8 matchLabelKeys *s
PodOS: 1 name s!
PodSchedulingGate: 1 name s!
PodResourceClaim: 1 name s!, 3 resourceClaimName s?, 4 resourceClaimTemplateName s?
PodSchedulingGroup: 1 podGroupName s?
""")  # noqa: E501
