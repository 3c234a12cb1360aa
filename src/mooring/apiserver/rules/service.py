"""core/v1 Service: kept for clients that list or apply them. Nothing here routes to them, so the rules look at types
alone, and the server gives out no addresses and no ports.
"""

from __future__ import annotations

from typing import Final

from mooring.api import names
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json, Resource, Status

MESSAGES: Final = META_MESSAGES.extended("""
Service: 1 metadata ObjectMeta!, 2 spec ServiceSpec!, 3 status ServiceStatus!
ServiceSpec: 1 ports *ServicePort@port~port+protocol, 2 selector {s}~=, 3 clusterIP s, 4 type s, 5 externalIPs *s, 7 sessionAffinity s, 8 loadBalancerIP s, 9 loadBalancerSourceRanges *s, 10 externalName s, 11 externalTrafficPolicy s, 12 healthCheckNodePort i32, 13 publishNotReadyAddresses b, 14 sessionAffinityConfig SessionAffinityConfig?, 17 ipFamilyPolicy s?, 18 clusterIPs *s, 19 ipFamilies *s, 20 allocateLoadBalancerNodePorts b?, 21 loadBalancerClass s?, 22 internalTrafficPolicy s?, 23 trafficDistribution s?
ServicePort: 1 name s, 2 protocol s, 3 port i32!, 4 targetPort intstr, 5 nodePort i32, 6 appProtocol s?
SessionAffinityConfig: 1 clientIP ClientIPConfig?
ClientIPConfig: 1 timeoutSeconds i32?
ServiceStatus: 1 loadBalancer LoadBalancerStatus!, 2 conditions *Condition@type
LoadBalancerStatus: 1 ingress *LoadBalancerIngress
LoadBalancerIngress: 1 ip s, 2 hostname s, 3 ipMode s?, 4 ports *PortStatus
PortStatus: 1 port i32!, 2 protocol s!, 3 error s?
""")  # noqa: E501


def _default(new: Json) -> None:
    spec = new["spec"]
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port["port"])


SERVICES: Final = Resource(
    group="",
    kind="Service",
    plural="services",
    namespaced=True,
    short_names=("svc",),
    categories=("all",),
    message=MESSAGES["Service"],
    status=Status.WITH_METADATA,
    name_rule=names.dns_label,
    default=_default,
)
