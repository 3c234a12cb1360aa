"""What is valid in the spec of a pod beside its containers and volumes: the same verdict from both servers."""

from __future__ import annotations

from tests.conformance.conftest import Server
from tests.support.builders import CONTAINER, Json
from tests.support.paths import PODS
from tests.support.pod_specs import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, Row, check, container, pod
from tests.support.rest import Rest
from tests.support.rows import each_row

NEAR_NODE = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
FAR_FROM_PODS = "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"

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
    "nodename": (pod(nodeName="A_b"), [(INVALID, "spec.nodeName")]),
    "nodesel": (pod(nodeSelector={"a b": "c"}), [(INVALID, "spec.nodeSelector")]),
    "nodesel2": (pod(nodeSelector={"a": "c d"}), [(INVALID, "spec.nodeSelector")]),
    "sa": (pod(serviceAccountName="A_b"), [(INVALID, "spec.serviceAccountName")]),
    "deadline": (pod(activeDeadlineSeconds=0), [(INVALID, "spec.activeDeadlineSeconds")]),
    "deadline2": (pod(activeDeadlineSeconds=2**31), [(INVALID, "spec.activeDeadlineSeconds")]),
    "hostname": (pod(hostname="A_b"), [(INVALID, "spec.hostname")]),
    "subdomain": (pod(subdomain="a.b"), [(INVALID, "spec.subdomain")]),
    "gate": (pod(schedulingGates=[{"name": "A b"}]), [(INVALID, "spec.schedulingGates[0]")]),
    "gatedup": (pod(schedulingGates=[{"name": "a"}, {"name": "a"}]), [(DUPLICATE, "spec.schedulingGates[1]")]),
    "gatenode": (pod(schedulingGates=[{"name": "a"}], nodeName="n"), [(FORBIDDEN, "spec.nodeName")]),
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
    "fspolicy": (
        pod(securityContext={"fsGroupChangePolicy": "x"}),
        [(UNSUPPORTED, "spec.securityContext.fsGroupChangePolicy")],
    ),
    "sechange": (
        pod(securityContext={"seLinuxChangePolicy": "x"}),
        [(UNSUPPORTED, "spec.securityContext.seLinuxChangePolicy")],
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
                f"{NEAR_NODE}.preference.matchExpressions[0].operator",
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
                f"{FAR_FROM_PODS}.labelSelector.matchExpressions[0].values",
            ),
            (
                INVALID,
                f"{FAR_FROM_PODS}.namespace",
            ),
            (
                INVALID,
                f"{FAR_FROM_PODS}.topologyKey",
            ),
        ],
    ),
    "hostusers_unmasked": (
        pod(hostUsers=False, containers=[{**CONTAINER, "securityContext": {"procMount": "Unmasked"}}]),
        [],
    ),
    "fqdn": (pod(setHostnameAsFQDN=True, hostname="a" * 64), [(INVALID, "spec.hostname")]),
    "ephc": (pod(ephemeralContainers=[{"name": "e", "image": "i"}]), [(FORBIDDEN, "spec.ephemeralContainers")]),
    # allowed
    "term_path": (container(terminationMessagePath=""), []),
    "sched": (pod(schedulerName="A b"), []),
    "pullsecret": (pod(imagePullSecrets=[{}]), []),
}


@each_row("row", JUDGED)
def test_both_judge_alike(api: Rest, row: str) -> None:
    check(api, JUDGED[row])


UNREAD: dict[str, tuple[Json, Json]] = {
    "container": (
        {"env": [{"name": "="}], "ports": [{"containerPort": 0}], "securityContext": {"runAsUser": -1}},
        {"env": {}},
    ),
    "pod": (
        {
            "dnsPolicy": "x",
            "os": {"name": "x"},
            "hostAliases": [{"ip": "x"}],
            "readinessGates": [{"conditionType": ""}],
        },
        {"hostAliases": [{"ip": 1}]},
    ),
    "sysctl": ({"securityContext": {"sysctls": [{"name": ""}]}}, {"securityContext": {"sysctls": [{"name": 1}]}}),
}
"""Fields that nothing here reads, with values that only the real server refuses, and of a type that both refuse."""


@each_row("row", UNREAD)
def test_fields_that_nothing_here_reads_are_checked_by_their_types(server: Server, row: str) -> None:
    odd, wrong = ({"containers": [{**CONTAINER, **one}]} if row == "container" else pod(**one) for one in UNREAD[row])
    body = {"metadata": {"name": "odd"}, "spec": odd}
    assert (422 if server.is_real else 201) == server.api.post(PODS, body, dryRun="All").status
    server.api.post(PODS, {**body, "spec": wrong}, dryRun="All").refused(400, "BadRequest", says="cannot unmarshal")
