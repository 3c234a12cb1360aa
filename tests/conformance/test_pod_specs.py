"""What is valid in the spec of a pod beside its containers and volumes: the same verdict from both servers."""

from __future__ import annotations

import pytest

from tests.support.builders import CONTAINER, Json
from tests.support.pod_specs import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, Row, check, container, pod
from tests.support.rest import Rest

JUDGED: dict[str, Row] = {
    "no_containers": (pod(containers=[]), [(REQUIRED, "spec.containers")]),
    "no_name": (container(name=""), [(REQUIRED, "spec.containers[0].name")]),
    "bad_name": (container(name="A_b"), [(INVALID, "spec.containers[0].name")]),
    "dup_name": (pod(containers=[CONTAINER, CONTAINER]), [(DUPLICATE, "spec.containers[1].name")]),
    "dup_init": (pod(initContainers=[CONTAINER]), [(DUPLICATE, "spec.initContainers[0].name")]),
    "long_name": (container(name="a" * 64), [(INVALID, "spec.containers[0].name")]),
    "dotted_name": (container(name="a.b"), [(INVALID, "spec.containers[0].name")]),
    "no_image": (container(image=""), [(REQUIRED, "spec.containers[0].image")]),
    "image_space": (container(image=" x "), [(INVALID, "spec.containers[0].image")]),
    "pull": (container(imagePullPolicy="Sometimes"), [(UNSUPPORTED, "spec.containers[0].imagePullPolicy")]),
    "term": (container(terminationMessagePolicy="x"), [(UNSUPPORTED, "spec.containers[0].terminationMessagePolicy")]),
    "restart": (pod(restartPolicy="Maybe"), [(UNSUPPORTED, "spec.restartPolicy")]),
    "dns": (pod(dnsPolicy="x"), [(UNSUPPORTED, "spec.dnsPolicy")]),
    "dnsnone": (pod(dnsPolicy="None"), [(REQUIRED, "spec.dnsConfig")]),
    "nodename": (pod(nodeName="A_b"), [(INVALID, "spec.nodeName")]),
    "nodesel": (pod(nodeSelector={"a b": "c"}), [(INVALID, "spec.nodeSelector")]),
    "nodesel2": (pod(nodeSelector={"a": "c d"}), [(INVALID, "spec.nodeSelector")]),
    "sa": (pod(serviceAccountName="A_b"), [(INVALID, "spec.serviceAccountName")]),
    "deadline": (pod(activeDeadlineSeconds=0), [(INVALID, "spec.activeDeadlineSeconds")]),
    "deadline2": (pod(activeDeadlineSeconds=2**31), [(INVALID, "spec.activeDeadlineSeconds")]),
    "hostname": (pod(hostname="A_b"), [(INVALID, "spec.hostname")]),
    "subdomain": (pod(subdomain="a.b"), [(INVALID, "spec.subdomain")]),
    "hostalias": (
        pod(hostAliases=[{"ip": "x", "hostnames": ["A_b"]}]),
        [(INVALID, "spec.hostAliases[0].ip"), (INVALID, "spec.hostAliases[0].hostnames[0]")],
    ),
    "readgate": (pod(readinessGates=[{"conditionType": "a b"}]), [(INVALID, "spec.readinessGates[0].conditionType")]),
    "gate": (pod(schedulingGates=[{"name": "A b"}]), [(INVALID, "spec.schedulingGates[0]")]),
    "gatedup": (pod(schedulingGates=[{"name": "a"}, {"name": "a"}]), [(DUPLICATE, "spec.schedulingGates[1]")]),
    "gatenode": (pod(schedulingGates=[{"name": "a"}], nodeName="n"), [(FORBIDDEN, "spec.nodeName")]),
    "os": (pod(os={"name": "mac"}), [(UNSUPPORTED, "spec.os")]),
    "tol_key": (pod(tolerations=[{"key": "a b", "operator": "Exists"}]), [(INVALID, "spec.tolerations[0].key")]),
    "tol_op": (pod(tolerations=[{"key": "a", "operator": "x"}]), [(UNSUPPORTED, "spec.tolerations[0].operator")]),
    "tol_nokey": (pod(tolerations=[{"operator": "Equal", "value": "x"}]), [(INVALID, "spec.tolerations[0].operator")]),
    "tol_val": (
        pod(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}]),
        [(INVALID, "spec.tolerations[0].operator")],
    ),
    "tol_eff": (pod(tolerations=[{"key": "a", "effect": "x"}]), [(UNSUPPORTED, "spec.tolerations[0].effect")]),
    "tol_sec": (
        pod(tolerations=[{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]),
        [(INVALID, "spec.tolerations[0].effect")],
    ),
    "tol_value": (pod(tolerations=[{"key": "a", "value": "a b"}]), [(INVALID, "spec.tolerations[0].operator")]),
    "fsgroup": (pod(securityContext={"fsGroup": -1}), [(INVALID, "spec.securityContext.fsGroup")]),
    "user": (pod(securityContext={"runAsUser": -1}), [(INVALID, "spec.securityContext.runAsUser")]),
    "group": (pod(securityContext={"runAsGroup": 2**31}), [(INVALID, "spec.securityContext.runAsGroup")]),
    "sgroups": (
        pod(securityContext={"supplementalGroups": [-1]}),
        [(INVALID, "spec.securityContext.supplementalGroups[0]")],
    ),
    "fspolicy": (
        pod(securityContext={"fsGroupChangePolicy": "x"}),
        [(UNSUPPORTED, "spec.securityContext.fsGroupChangePolicy")],
    ),
    "sysctl": (
        pod(securityContext={"sysctls": [{"name": "A B", "value": "1"}]}),
        [(INVALID, "spec.securityContext.sysctls[0].name")],
    ),
    "secprof": (
        pod(securityContext={"seccompProfile": {"type": "x"}}),
        [(UNSUPPORTED, "spec.securityContext.seccompProfile.type")],
    ),
    "sechange": (
        pod(securityContext={"seLinuxChangePolicy": "x"}),
        [(UNSUPPORTED, "spec.securityContext.seLinuxChangePolicy")],
    ),
    "sgpol": (
        pod(securityContext={"supplementalGroupsPolicy": "x"}),
        [(UNSUPPORTED, "spec.securityContext.supplementalGroupsPolicy")],
    ),
    "seclocal": (
        pod(securityContext={"seccompProfile": {"type": "Localhost"}}),
        [(REQUIRED, "spec.securityContext.seccompProfile.localhostProfile")],
    ),
    "seclocalpath": (
        pod(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "a/../b"}}),
        [(INVALID, "spec.securityContext.seccompProfile.localhostProfile")],
    ),
    "secnotlocal": (
        pod(securityContext={"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}}),
        [(INVALID, "spec.securityContext.seccompProfile.localhostProfile")],
    ),
    "sectypeless": (
        pod(securityContext={"seccompProfile": {"localhostProfile": "a"}}),
        [
            (REQUIRED, "spec.securityContext.seccompProfile.type"),
            (INVALID, "spec.securityContext.seccompProfile.localhostProfile"),
        ],
    ),
    "csuser": (
        container(securityContext={"runAsUser": -1}),
        [(INVALID, "spec.containers[0].securityContext.runAsUser")],
    ),
    "csproc": (
        container(securityContext={"procMount": "x"}),
        [(UNSUPPORTED, "spec.containers[0].securityContext.procMount")],
    ),
    "csape": (
        container(securityContext={"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
        [(INVALID, "spec.containers[0].securityContext")],
    ),
    "spread": (
        pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x"}]),
        [
            (INVALID, "spec.topologySpreadConstraints[0].maxSkew"),
            (REQUIRED, "spec.topologySpreadConstraints[0].topologyKey"),
            (UNSUPPORTED, "spec.topologySpreadConstraints[0].whenUnsatisfiable"),
        ],
    ),
    "spread2": (
        pod(
            topologySpreadConstraints=[
                {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"},
            ]
        ),
        [(DUPLICATE, "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}")],
    ),
    "spread3": (
        pod(
            topologySpreadConstraints=[
                {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}
            ]
        ),
        [(INVALID, "spec.topologySpreadConstraints[0].minDomains")],
    ),
    "aff": (
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
        [(REQUIRED, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")],
    ),
    "affpref": (
        pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "x"}]}}
                    ]
                }
            }
        ),
        [
            (INVALID, "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"),
            (
                INVALID,
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator",
            ),
        ],
    ),
    "podaff": (
        pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}),
        [
            (REQUIRED, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"),
            (INVALID, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"),
        ],
    ),
    "podaff2": (
        pod(
            affinity={
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 101,
                            "podAffinityTerm": {
                                "topologyKey": "a b",
                                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                                "namespaces": ["A_"],
                            },
                        }
                    ]
                }
            }
        ),
        [
            (INVALID, "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"),
            (
                REQUIRED,
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector.matchExpressions[0].values",
            ),
            (
                INVALID,
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.namespace",
            ),
            (
                INVALID,
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey",
            ),
        ],
    ),
    "share": (pod(shareProcessNamespace=True, hostPID=True), [(INVALID, "spec.securityContext.shareProcessNamespace")]),
    "hostusers": (pod(hostUsers=False, hostNetwork=True), [(FORBIDDEN, "spec.hostNetwork")]),
    "hostusers_ids": (
        pod(hostUsers=False, hostPID=True, hostIPC=True),
        [(FORBIDDEN, "spec.HostPID"), (FORBIDDEN, "spec.HostIPC")],
    ),
    "csproc_unmasked": (
        container(securityContext={"procMount": "Unmasked"}),
        [(INVALID, "spec.containers[0].securityContext.procMount")],
    ),
    "hostusers_unmasked": (
        pod(hostUsers=False, containers=[{**CONTAINER, "securityContext": {"procMount": "Unmasked"}}]),
        [],
    ),
    "hostusers_devices": (
        pod(
            hostUsers=False,
            containers=[{**CONTAINER, "volumeDevices": [{"name": "v", "devicePath": "/v"}]}],
            volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        ),
        [(FORBIDDEN, "spec.containers[0].volumeDevices")],
    ),
    "fqdn": (pod(setHostnameAsFQDN=True, hostname="a" * 64), [(INVALID, "spec.hostname")]),
    "rc": (pod(resourceClaims=[{"name": "a"}]), [(INVALID, "spec.resourceClaims[0]")]),
    "rc2": (
        pod(resourceClaims=[{"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}]),
        [(INVALID, "spec.resourceClaims[0]")],
    ),
    "dnsconf": (
        pod(dnsConfig={"nameservers": ["x"], "searches": ["a b"], "options": [{}]}),
        [
            (INVALID, "spec.dnsConfig.nameservers[0]"),
            (INVALID, "spec.dnsConfig.searches[0]"),
            (REQUIRED, "spec.dnsConfig.options[0]"),
        ],
    ),
    "ephc": (pod(ephemeralContainers=[{"name": "e", "image": "i"}]), [(FORBIDDEN, "spec.ephemeralContainers")]),
    "hostov": (pod(hostnameOverride="A_b"), [(INVALID, "spec.hostnameOverride")]),
    # allowed
    "term_path": (container(terminationMessagePath=""), []),
    "sched": (pod(schedulerName="A b"), []),
    "pullsecret": (pod(imagePullSecrets=[{}]), []),
}


@pytest.mark.parametrize("row", JUDGED)
def test_both_judge_alike(api: Rest, row: str) -> None:
    check(api, JUDGED[row])


_OPTIONS = "spec.securityContext.windowsOptions"
_CONTEXT = "spec.containers[0].securityContext"


def _user(name: str, *, wrong: bool = True) -> Row:
    return pod(securityContext={"windowsOptions": {"runAsUserName": name}}), [
        (INVALID, f"{_OPTIONS}.runAsUserName")
    ] * wrong


def _on_host(pods: bool | None, *containers: bool | None, **spec: bool) -> Json:
    made = pod(securityContext={"windowsOptions": {"hostProcess": pods}}, **spec)
    made["containers"] = [
        {**CONTAINER, "name": f"c{number}", "securityContext": {"windowsOptions": {"hostProcess": own}}}
        for number, own in enumerate(containers)
    ]
    return made


ON_LINUX = {
    "seLinuxOptions": {"level": "x"},
    "seccompProfile": {"type": "RuntimeDefault"},
    "runAsUser": 1,
    "runAsGroup": 1,
}
OF_PODS = {
    **ON_LINUX,
    "fsGroup": 1,
    "fsGroupChangePolicy": "Always",
    "supplementalGroups": [1],
    "supplementalGroupsPolicy": "Merge",
}
OF_PODS |= {
    "sysctls": [{"name": "a", "value": "b"}],
    "appArmorProfile": {"type": "RuntimeDefault"},
    "seLinuxChangePolicy": "Recursive",
}
OF_CONTAINERS = {
    **ON_LINUX,
    "capabilities": {},
    "readOnlyRootFilesystem": False,
    "privileged": False,
    "allowPrivilegeEscalation": True,
}
OF_CONTAINERS |= {"procMount": "Default", "appArmorProfile": {"type": "RuntimeDefault"}}
WINDOWS = {"name": "windows"}
ON_WINDOWS: dict[str, Row] = {
    "credentials": (
        pod(securityContext={"windowsOptions": {"gmsaCredentialSpecName": "25%", "gmsaCredentialSpec": ""}}),
        [(INVALID, f"{_OPTIONS}.gmsaCredentialSpecName"), (INVALID, f"{_OPTIONS}.gmsaCredentialSpec")],
    ),
    "no_credentials": (
        container(
            securityContext={"windowsOptions": {"gmsaCredentialSpecName": "", "gmsaCredentialSpec": "x" * 65_536}}
        ),
        [(INVALID, f"{_CONTEXT}.windowsOptions.gmsaCredentialSpecName")],
    ),
    "long_credentials": (
        container(securityContext={"windowsOptions": {"gmsaCredentialSpec": "x" * 65_537}}),
        [(INVALID, f"{_CONTEXT}.windowsOptions.gmsaCredentialSpec")],
    ),
    "user": _user("u", wrong=False),
    "domain": _user("a b\\u", wrong=False),
    "dns": _user("an.example.of.a.domain\\u", wrong=False),
    "no_user": _user(""),
    "control": _user("a\nb"),
    "backslashes": _user("a\\b\\c"),
    "no_domain": _user("\\u"),
    "odd_domain": _user("an example of a domain\\u"),
    "domain_alone": _user("a\\"),
    "dots": _user(". ."),
    "odd_user": _user("a@b"),
    "long_user": _user("u" * 105),
    "long_domain": _user("a." * 128 + "a\\u"),
    "parts_of_linux": (
        pod(
            os=WINDOWS, securityContext=OF_PODS, hostPID=True, hostIPC=True, hostUsers=True, shareProcessNamespace=False
        ),
        [
            *((FORBIDDEN, f"spec.securityContext.{part}") for part in OF_PODS),
            *((FORBIDDEN, f"spec.{part}") for part in ("hostPID", "hostIPC", "hostUsers", "shareProcessNamespace")),
        ],
    ),
    "containers_of_linux": (
        {**container(securityContext=OF_CONTAINERS), "os": WINDOWS},
        [(FORBIDDEN, f"{_CONTEXT}.{part}") for part in OF_CONTAINERS],
    ),
    "options_on_linux": (
        {
            **container(securityContext={"windowsOptions": {}}),
            "os": {"name": "linux"},
            "securityContext": {"windowsOptions": {}},
        },
        [(FORBIDDEN, f"{_CONTEXT}.windowsOptions"), (FORBIDDEN, _OPTIONS)],
    ),
    "on_the_host": (_on_host(True, None, True, hostNetwork=True), []),
    "without_its_network": (_on_host(None, True), [(INVALID, "spec.hostNetwork")]),
    "of_two_minds": (
        _on_host(True, None, False, hostNetwork=True),
        [(INVALID, "spec.containers[1].securityContext.windowsOptions.hostProcess"), (INVALID, "spec")],
    ),
}


@pytest.mark.parametrize("row", ON_WINDOWS)
def test_the_options_of_windows_and_the_parts_of_each_system(api: Rest, row: str) -> None:
    check(api, ON_WINDOWS[row])
