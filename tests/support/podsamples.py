"""What it takes to set each field of a pod on a server that looks closely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

OMIT: Final = object()
"""A field that is left out."""

EVERY: Final = object()
"""A list with one item for each field of its message, in which that field alone is set."""

_THING: Final = {"example.com/thing": "1"}
_QUANTITIES: Final = {
    "limits": {"cpu": "3", "memory": "4Gi", **_THING},
    "requests": {"cpu": "2", "memory": "3Gi", **_THING},
}
_ITEM: Final = [{"key": "a-key", "path": "a/path", "mode": 7}]

POD_ONE_OF: Final = (
    "VolumeSource",
    "VolumeProjection",
    "EnvVarSource",
    "ProbeHandler",
    "LifecycleHandler",
    "ContainerState",
)

POD_RULES: Final[Mapping[str, Any]] = {
    # not for everybody: other objects would have to be there first, or a gate is closed
    **{
        f"PodSpec.{field}": OMIT
        for field in ("ephemeralContainers", "priority", "priorityClassName", "runtimeClassName", "overhead")
    },
    **{
        f"PodSpec.{field}": OMIT
        for field in ("schedulingGroup", "os", "hostnameOverride", "setHostnameAsFQDN", "hostUsers")
    },
    "PodSpec.volumes": EVERY,
    "PodSpec.restartPolicy": "OnFailure",
    "PodSpec.dnsPolicy": "Default",
    "PodSpec.serviceAccount": "serviceaccountname-8",
    "PodSpec.preemptionPolicy": "PreemptLowerPriority",
    "PodSpec.subdomain": "a-subdomain",
    "PodSpec.resources": {"limits": {"cpu": "30"}, "requests": {"cpu": "20"}},
    "PodSpec.tolerations": [
        {"key": "a", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5}
    ],
    "PodSpec.resourceClaims": [
        {"name": "claim", "resourceClaimName": "x"},
        {"name": "other", "resourceClaimTemplateName": "y"},
    ],
    "PodSpec.initContainers": [{"name": "i", "image": "j"}],
    "PodSpec.nodeName": OMIT,
    "PodSpec.hostNetwork": False,
    "PodSpec.hostPID": False,
    "PodSecurityContext.fsGroupChangePolicy": "OnRootMismatch",
    "PodSecurityContext.supplementalGroupsPolicy": "Strict",
    "PodSecurityContext.seLinuxChangePolicy": "Recursive",
    "PodSecurityContext.windowsOptions": OMIT,
    "PodSecurityContext.supplementalGroups": [5, 6],
    "Sysctl.name": "net.ipv4.tcp_syncookies",
    "Sysctl.value": "1",
    "HostAlias.ip": "10.0.0.7",
    "PodDNSConfig.nameservers": ["10.0.0.8"],
    "PodReadinessGate.conditionType": "example.com/gate",
    "TopologySpreadConstraint.whenUnsatisfiable": "DoNotSchedule",
    "TopologySpreadConstraint.nodeAffinityPolicy": "Ignore",
    "TopologySpreadConstraint.nodeTaintsPolicy": "Honor",
    "PodAffinityTerm.namespaces": ["a-namespace"],
    "NodeSelectorRequirement.values": ["1"],
    # containers
    "Container.name": "c",
    "Container.env": EVERY,
    "Container.volumeMounts": [
        {
            "name": "v1",
            "readOnly": True,
            "mountPath": "/m",
            "subPath": "s",
            "mountPropagation": "None",
            "recursiveReadOnly": "IfPossible",
        },
        {"name": "v1", "mountPath": "/n", "subPathExpr": "t"},
    ],
    "Container.volumeDevices": [{"name": "v9", "devicePath": "/dev/x"}],
    "Container.resources": {**_QUANTITIES, "claims": [{"name": "claim", "request": "r"}]},
    "Container.imagePullPolicy": "IfNotPresent",
    "Container.terminationMessagePolicy": "FallbackToLogsOnError",
    "Container.restartPolicy": "Never",
    "Container.resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    "ContainerRestartRule.action": "Restart",
    "ContainerRestartRuleOnExitCodes.operator": "In",
    "ContainerRestartRuleOnExitCodes.values": [4, 5],
    "ContainerPort.protocol": "UDP",
    "ContainerPort.hostPort": 8,
    "ContainerPort.containerPort": 9,
    "ContainerPort.hostIP": "10.0.0.9",
    "ContainerPort.name": "port",
    "EnvVar.value": OMIT,
    "Container.envFrom": [
        {"prefix": "A", "configMapRef": {"name": "m", "optional": True}},
        {"prefix": "B", "secretRef": {"name": "s", "optional": True}},
    ],
    "FileKeySelector.volumeName": "v1",
    "FileKeySelector.key": "AKEY",
    "FileKeySelector.path": "a/path",
    "ObjectFieldSelector.fieldPath": "metadata.name",
    "ObjectFieldSelector.apiVersion": "v1",
    "ResourceFieldSelector.containerName": "c",
    "ResourceFieldSelector.resource": "limits.cpu",
    "ResourceFieldSelector.divisor": "1",
    "HTTPGetAction.scheme": "HTTPS",
    "HTTPGetAction.port": "port",
    "TCPSocketAction.port": 81,
    "HTTPHeader.name": "X-Header",
    "Probe.successThreshold": 1,
    "Probe.terminationGracePeriodSeconds": OMIT,
    "Lifecycle.stopSignal": OMIT,
    "SecurityContext.privileged": True,
    "SecurityContext.procMount": "Default",
    "SecurityContext.windowsOptions": OMIT,
    "SecurityContext.seccompProfile": {"type": "Localhost", "localhostProfile": "a/profile"},
    "SecurityContext.appArmorProfile": {"type": "Localhost", "localhostProfile": "profile"},
    "PodSecurityContext.seccompProfile": {"type": "Localhost", "localhostProfile": "b/profile"},
    "PodSecurityContext.appArmorProfile": {"type": "Localhost", "localhostProfile": "other"},
    "SELinuxOptions.user": "user-1",
    # volumes
    "EmptyDirVolumeSource.medium": "Memory",
    "KeyToPath.path": "a/path",
    "GitRepoVolumeSource.directory": "dir",
    "DownwardAPIVolumeSource.items": [
        {"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}, "mode": 5}
    ],
    "DownwardAPIProjection.items": [
        {"path": "b", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1"}}
    ],
    "ProjectedVolumeSource.sources": EVERY,
    "SecretProjection.items": [{"key": "k", "path": "c", "mode": 6}],
    "ConfigMapProjection.items": [{"key": "k", "path": "d", "mode": 6}],
    "ServiceAccountTokenProjection.path": "e",
    "ServiceAccountTokenProjection.expirationSeconds": 700,
    "ClusterTrustBundleProjection.path": "f",
    "ClusterTrustBundleProjection.name": OMIT,
    "ClusterTrustBundleProjection.signerName": "example.com/signer",
    "PodCertificateProjection.signerName": "example.com/signer",
    "PodCertificateProjection.keyType": "ED25519",
    "PodCertificateProjection.maxExpirationSeconds": 3601,
    "PodCertificateProjection.credentialBundlePath": OMIT,
    "PodCertificateProjection.keyPath": "g",
    "PodCertificateProjection.certificateChainPath": "h",
    "ISCSIVolumeSource.iqn": "iqn.2001-04.com.example:storage.a",
    "ISCSIVolumeSource.initiatorName": "iqn.2001-04.com.example:storage.b",
    "ImageVolumeSource.pullPolicy": "Always",
    "PersistentVolumeClaimTemplate.metadata": {"labels": {"a": "b"}},
    # status
    "PodStatus.phase": "Running",
    "PodStatus.qosClass": "Burstable",
    "PodStatus.resourceClaimStatuses": [{"name": "claim", "resourceClaimName": "x"}],
    "PodStatus.ephemeralContainerStatuses": OMIT,
    "PodStatus.containerStatuses": EVERY,
    "ContainerStatus.name": "c",
    "ContainerExtendedResourceRequest.containerName": "c",
    "ContainerExtendedResourceRequest.resourceName": "example.com/thing",
    "ResourceHealth.health": "Unhealthy",
    "PodIP.ip": "10.0.0.1",
    "HostIP.ip": "10.0.0.2",
    "PodStatus.podIP": "10.0.0.1",
    "PodStatus.hostIP": "10.0.0.2",
    "PodCondition.type": "example.com/condition",
    "PodCondition.status": "True",
}
