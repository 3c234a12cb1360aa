"""The fine print of what is valid in a pod, found by reading rule after rule: the same verdict from both servers."""

from __future__ import annotations

from typing import Any

from tests.support.builders import CONTAINER, Json, a_pod, a_workload
from tests.support.paths import PODS
from tests.support.pod_specs import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, Row, check, container, pod
from tests.support.rest import Rest
from tests.support.rows import each_row

MISSING = "FieldValueNotFound"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CLAIM: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
NEVER_MATCHES = "metadata.labels['a b']"


def volumes(*given: Json) -> Json:
    return pod(volumes=[{"name": f"v{number}", **one} for number, one in enumerate(given)])


def variable(**source: Any) -> Json:
    return container(env=[{"name": "A", "valueFrom": source}])


def amount(resource: str, divisor: str) -> Json:
    return variable(resourceFieldRef={"resource": resource, "divisor": divisor})


def files(*items: Json) -> Json:
    return volumes({"downwardAPI": {"items": [{"path": "p", **item} for item in items]}})


def template(**meta: Any) -> Json:
    return volumes({"ephemeral": {"volumeClaimTemplate": {"metadata": meta, "spec": CLAIM}}})


def needs(init: tuple[Json, ...] = (), whole: Json | None = None, **resources: Any) -> Json:
    started = [{"name": f"i{number}", "image": "x", **one} for number, one in enumerate(init)]
    return pod(
        resources=whole, initContainers=started, containers=[{"name": "c", "image": "x", "resources": resources}]
    )


def claims(*given: Json) -> Json:
    named = [{"name": name, "resourceClaimName": name} for name in ("a", "b")]
    return pod(resourceClaims=named, containers=[{"name": "c", "image": "x", "resources": {"claims": list(given)}}])


JUDGED: dict[str, Row] = {
    # volumes
    "both_paths": (
        volumes({"secret": {"secretName": "s", "items": [{"key": "k", "path": "/../x"}]}}),
        [(INVALID, "spec.volumes[0].secret.items[0].path"), (INVALID, "spec.volumes[0].secret.items[0].path")],
    ),
    "dots": (
        volumes({"secret": {"secretName": "s", "items": [{"key": "k", "path": ".."}]}}),
        [(INVALID, "spec.volumes[0].secret.items[0].path"), (INVALID, "spec.volumes[0].secret.items[0].path")],
    ),
    "downward_second": (volumes({"emptyDir": {}, "downwardAPI": {}}), [(FORBIDDEN, "spec.volumes[0].downwarAPI")]),
    "twin_of_wrong": (
        pod(volumes=[{"name": "v", "hostPath": {"path": ""}}, {"name": "v", "emptyDir": {}}]),
        [(REQUIRED, "spec.volumes[0].hostPath.path")],
    ),
    "mount_of_wrong": (
        {
            **volumes({"hostPath": {"path": ""}}),
            "containers": [{**CONTAINER, "volumeMounts": [{"name": "v0", "mountPath": "/x"}]}],
        },
        [(REQUIRED, "spec.volumes[0].hostPath.path"), (MISSING, "spec.containers[0].volumeMounts[0].name")],
    ),
    "secret_of_csi": (
        volumes({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "A_b"}}}),
        [(INVALID, "spec.volumes[0].csi.name")],
    ),
    "iscsi_name": (
        volumes(
            {
                "iscsi": {
                    "targetPortal": "p" * 64,
                    "iqn": "iqn.2001-04.com.example:a",
                    "lun": 1,
                    "initiatorName": "iqn.2001-04.com.example:b",
                }
            }
        ),
        [(INVALID, "spec.volumes[0].name")],
    ),
    "token_path_twice": (
        {
            **volumes(
                {
                    "projected": {
                        "sources": [{"serviceAccountToken": {"path": "p"}}, {"serviceAccountToken": {"path": "p"}}]
                    }
                }
            ),
            "serviceAccountName": "a",
        },
        [],
    ),
    "path_twice": (
        volumes(
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}, {"key": "l", "path": "p"}]}}
                    ]
                }
            }
        ),
        [(INVALID, "spec.volumes[0].projected")],
    ),
    "claim_template_annotations": (
        template(annotations={"a b": "c"}),
        [(INVALID, "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.annotations")],
    ),
    "claim_template_uid": (
        template(uid="u"),
        [(FORBIDDEN, "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.uID")],
    ),
    "claim_template_grace": (
        template(deletionGracePeriodSeconds=0),
        [(FORBIDDEN, "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.deletionGracePeriodSeconds")],
    ),
    "claim_template_time": (
        template(creationTimestamp="2024-01-02T03:04:05Z"),
        [(FORBIDDEN, "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.creationTimestamp")],
    ),
    # fields and amounts as files and as variables
    "file_version": (
        files({"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}),
        [(INVALID, "spec.volumes[0].downwardAPI.fieldRef.fieldPath")],
    ),
    "file_label": (
        files({"fieldRef": {"fieldPath": NEVER_MATCHES}}),
        [(INVALID, "spec.volumes[0].downwardAPI.fieldRef")],
    ),
    "file_part": (
        files({"fieldRef": {"fieldPath": "metadata.name['a']"}}),
        [(INVALID, "spec.volumes[0].downwardAPI.fieldRef.fieldPath")],
    ),
    "file_field": (
        files({"fieldRef": {"fieldPath": "spec.nodeName"}}),
        [(UNSUPPORTED, "spec.volumes[0].downwardAPI.fieldRef.fieldPath")],
    ),
    "file_two": (
        files({"fieldRef": {"fieldPath": "x"}, "resourceFieldRef": {"resource": "limits.cpu", "containerName": "c"}}),
        [(INVALID, "spec.volumes[0].downwardAPI.fieldRef.fieldPath"), (INVALID, "spec.volumes[0].downwardAPI")],
    ),
    "file_amount": (
        files({"resourceFieldRef": {"resource": "cpu", "containerName": "c"}}),
        [(UNSUPPORTED, "spec.volumes[0].downwardAPI.resourceFieldRef.resource")],
    ),
    "file_amount_of_nobody": (
        files({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}),
        [
            (REQUIRED, "spec.volumes[0].downwardAPI.resourceFieldRef.containerName"),
            (INVALID, "spec.volumes[0].downwardAPI.resourceFieldRef.divisor"),
        ],
    ),
    "annotation": (variable(fieldRef={"fieldPath": "metadata.annotations['A.B/c']"}), []),
    "old_field": (variable(fieldRef={"fieldPath": "spec.host"}), []),
    "core": (amount("limits.cpu", "1m"), []),
    "bytes": (amount("requests.memory", "1000"), []),
    "all_of_prefix": (container(envFrom=[{"secretRef": {"name": "a-"}}]), []),
    # mounts
    "two_expressions": (
        {
            **volumes({"emptyDir": {}}),
            "containers": [
                {**CONTAINER, "volumeMounts": [{"name": "v0", "mountPath": "/x", "subPath": "a", "subPathExpr": "/b"}]}
            ],
        },
        [
            (INVALID, "spec.containers[0].volumeMounts[0].subPathExpr"),
            (INVALID, "spec.containers[0].volumeMounts.subPathExpr"),
        ],
    ),
    "recursive": (
        {
            **volumes({"emptyDir": {}}),
            "containers": [
                {
                    **CONTAINER,
                    "volumeMounts": [
                        {
                            "name": "v0",
                            "mountPath": "/x",
                            "recursiveReadOnly": "Enabled",
                            "mountPropagation": "HostToContainer",
                        }
                    ],
                }
            ],
        },
        [(FORBIDDEN, "spec.containers[0].volumeMounts.recursiveReadOnly")] * 2,
    ),
    # containers
    "no_names": (
        pod(containers=[{"name": "", "image": "x"}, {"name": "", "image": "x"}]),
        [
            (REQUIRED, "spec.containers[0].name"),
            (REQUIRED, "spec.containers[1].name"),
            (DUPLICATE, "spec.containers[1].name"),
        ],
    ),
    "wrong_twins": (
        pod(containers=[{"name": "A", "image": "x"}, {"name": "A", "image": "x"}]),
        [
            (INVALID, "spec.containers[0].name"),
            (INVALID, "spec.containers[1].name"),
            (DUPLICATE, "spec.containers[1].name"),
        ],
    ),
    "init_on_host": (
        pod(
            hostNetwork=True,
            initContainers=[{"name": "i", "image": "x", "ports": [{"containerPort": 1, "hostPort": 9}]}],
        ),
        [],
    ),
    "null_code": (
        container(
            restartPolicy="Never",
            restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [None]}}],
        ),
        [],
    ),
    # resources
    "whole_pages": (needs(limits={"cpu": "1", "hugepages-2Mi": "4Mi"}), []),
    "more_at_start": (
        needs(({"resources": {"requests": {"cpu": "3"}}},), {"requests": {"cpu": "2"}}, requests={"cpu": "1"}),
        [(INVALID, "spec.resources.requests[cpu]")],
    ),
    "sidecars_too": (
        needs(
            ({"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},),
            {"requests": {"cpu": "1500m"}},
            requests={"cpu": "1"},
        ),
        [(INVALID, "spec.resources.requests[cpu]")],
    ),
    "over_the_pods_limit": (
        needs((), {"limits": {"cpu": "2"}}, limits={"cpu": "3"}, requests={"cpu": "1"}),
        [(INVALID, "spec.resources.containers[0][cpu].limits")],
    ),
    "parts": (claims({"name": "a", "request": "r"}, {"name": "a", "request": "s"}), []),
    # the rest of the spec
    "any_preferred_value": (
        pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["a/b"]}]},
                        }
                    ]
                }
            }
        ),
        [],
    ),
    "toleration": (pod(tolerations=[{"key": "a", "value": "/" * 64}]), [(INVALID, "spec.tolerations[0].operator")]),
    "groups": (pod(securityContext={"supplementalGroups": [None]}), []),
}


@each_row("row", JUDGED)
def test_the_same_verdict(api: Rest, row: str) -> None:
    check(api, JUDGED[row])


def test_the_claim_of_an_ephemeral_volume_is_no_other_volumes(api: Rest, name: str) -> None:
    given = [
        {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}},
        {"name": "other", "persistentVolumeClaim": {"claimName": f"{name}-own"}},
    ]
    field = "spec.volumes[1].persistentVolumeClaim.claimName"
    api.post(PODS, a_pod(name, volumes=given), dryRun="All").invalid(
        (INVALID, field, "must not reference a PVC that gets created")
    )


def test_signals_to_stop_are_not_kept(api: Rest, name: str) -> None:
    spec = {"os": {"name": "linux"}, "containers": [{**CONTAINER, "lifecycle": {"stopSignal": "SIGTERM"}}]}
    made = api.post(PODS, {"metadata": {"name": name}, "spec": spec}, dryRun="All").ok(201)
    assert "lifecycle" not in made["spec"]["containers"][0]


def test_a_pod_without_limits_of_its_own_is_asked_for_nothing_more(api: Rest, name: str) -> None:
    spec = needs((), {"requests": {"cpu": "2"}}, requests={"cpu": "1", "memory": "1Gi"})
    assert {"requests": {"cpu": "2"}} == api.post(PODS, {"metadata": {"name": name}, "spec": spec}, dryRun="All").ok(
        201
    )["spec"]["resources"]


def test_a_pod_with_limits_asks_for_what_its_containers_ask_for_at_once(api: Rest, name: str) -> None:
    starts = (
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
        {"resources": {"requests": {"memory": "2Gi"}}},
    )
    spec = needs(
        starts,
        {"limits": {"cpu": "4", "memory": "4Gi"}},
        requests={"cpu": "1", "memory": "1Gi"},
    )
    made = api.post(PODS, {"metadata": {"name": name}, "spec": spec}, dryRun="All").ok(201)["spec"]["resources"]
    assert {"cpu": "4", "memory": "4Gi"} == made["limits"]
    assert {"cpu": "1500m", "memory": "2Gi"} == made["requests"]


TEMPLATES: dict[str, Row] = {
    "image_volume": (volumes({"image": {}}), []),
    "token": (volumes({"projected": {"sources": [{"serviceAccountToken": {"path": "p"}}]}}), []),
    "runtime": (pod(runtimeClassName="A_b"), [(INVALID, "spec.runtimeClassName")]),
    "preemption": (pod(preemptionPolicy=""), [(REQUIRED, "spec.preemptionPolicy")]),
    "ephemeral": (
        pod(
            ephemeralContainers=[
                {"name": "c", "image": " x", "volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "a"}]}
            ]
        ),
        [
            (MISSING, "spec.ephemeralContainers[0].volumeMounts[0].name"),
            (INVALID, "spec.ephemeralContainers[0].image"),
            (DUPLICATE, "spec.ephemeralContainers[0].name"),
            (FORBIDDEN, "spec.ephemeralContainers[0].volumeMounts[0].subPath"),
            (FORBIDDEN, "spec.ephemeralContainers"),
        ],
    ),
}


@each_row("row", TEMPLATES)
def test_the_same_verdict_on_templates(api: Rest, name: str, row: str) -> None:
    spec, wanted = TEMPLATES[row]
    made = {"metadata": {"name": "n" * 300, "labels": {"app": "web"}}, "spec": spec}
    answer = api.post(DEPLOYMENTS, a_workload("Deployment", name, template=made), dryRun="All")
    given = [(cause["reason"], cause["field"]) for cause in answer.json.get("details", {}).get("causes", ())]
    assert sorted((reason, f"spec.template.{field}") for reason, field in wanted) == sorted(given), answer


GATED: Json = {"schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}}
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def where(*keys: str) -> Json:
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"} for key in one]} for one in keys]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


@each_row(
    ("before", "after", "field"),
    [
        (GATED, {"nodeSelector": {"a": "b", "c": "d"}}, ""),
        (GATED, {"nodeSelector": {"a": "c"}}, "spec.nodeSelector"),
        (GATED, where("a"), ""),
        ({**GATED, **where("a", "b")}, where("ac", "b"), ""),
        ({**GATED, **where("a", "b")}, where("ca", "b"), f"{TERMS}[0]"),
        ({**GATED, **where("a", "b")}, where("a"), TERMS),
        ({**GATED, **where("a")}, {"affinity": None}, TERMS),
    ],
)
def test_a_gated_pod_may_be_narrowed(api: Rest, name: str, before: Json, after: Json, field: str) -> None:
    api.post(PODS, {"metadata": {"name": name}, "spec": {"containers": [CONTAINER], **before}}).ok(201)
    answer = api.patch(f"{PODS}/{name}", {"spec": after}, dryRun="All")
    if field:
        answer.refused(422, "Invalid", (INVALID, field))
    else:
        answer.ok()


@each_row(
    ("status", "causes"),
    [
        (
            {"conditions": [{"type": "A", "status": "True", "observedGeneration": -1}]},
            [(INVALID, "status.conditions[0].observedGeneration")],
        ),
    ],
)
def test_the_status_of_a_pod(api: Rest, name: str, status: Json, causes: list[tuple[str, str]]) -> None:
    made = api.post(PODS, a_pod(name)).ok(201)
    changed = {**made, "status": {"qosClass": "BestEffort", **status}}
    told = api.put(f"{PODS}/{name}/status", changed).refused(422, "Invalid")["details"]["causes"]
    assert sorted(causes) == sorted((cause["reason"], cause["field"]) for cause in told)
