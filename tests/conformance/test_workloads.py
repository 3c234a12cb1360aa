"""Deployments, ReplicaSets, StatefulSets and Jobs as objects: defaults, refusals, scale, generations, on both
servers.
"""

from __future__ import annotations

import copy
from typing import Any

from tests.support.builders import APP, Json, a_claim, a_job, a_template, a_workload
from tests.support.paths import APPS, JOBS
from tests.support.rest import Rest
from tests.support.rows import each_row

INVALID, REQUIRED, FORBIDDEN, UNSUPPORTED = (
    "FieldValueInvalid",
    "FieldValueRequired",
    "FieldValueForbidden",
    "FieldValueNotSupported",
)
PLURALS = {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}
CLAIM: Json = {"metadata": {"name": "data"}, "spec": a_claim()["spec"]}
SIZED = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}]


def path_of(kind: str) -> str:
    return JOBS if kind == "Job" else f"{APPS}/{PLURALS[kind]}"


def body_of(kind: str, name: str, **spec: Any) -> Json:
    return a_job(name, **spec) if kind == "Job" else a_workload(kind, name, **spec)


def rolling(**bounds: Any) -> Json:
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": bounds}}


REFUSED: dict[str, tuple[str, Json, list[tuple[str, str, str]]]] = {
    "replicas": ("Deployment", {"replicas": -1}, [(INVALID, "spec.replicas", "must be greater than or equal to 0")]),
    "no_selector": (
        "Deployment",
        {"selector": None},
        [
            (REQUIRED, "spec.selector", ""),
            (INVALID, "spec.template.metadata.labels", "`selector` does not match template `labels`"),
        ],
    ),
    "empty_selector": (
        "Deployment",
        {"selector": {}},
        [(INVALID, "spec.selector", "empty selector is invalid for deployment")],
    ),
    "other_labels": (
        "Deployment",
        {"selector": {"matchLabels": {"app": "other"}}},
        [(INVALID, "spec.template.metadata.labels", "`selector` does not match template `labels`")],
    ),
    "restart_policy": (
        "Deployment",
        {"template": a_template(restartPolicy="Never")},
        [(UNSUPPORTED, "spec.template.spec.restartPolicy", 'supported values: "Always"')],
    ),
    "deadline": (
        "ReplicaSet",
        {"template": a_template(activeDeadlineSeconds=5)},
        [
            (
                FORBIDDEN,
                "spec.template.spec.activeDeadlineSeconds",
                "activeDeadlineSeconds in ReplicaSet is not Supported",
            )
        ],
    ),
    "template": (
        "Deployment",
        {"template": a_template(containers=[])},
        [(REQUIRED, "spec.template.spec.containers", "")],
    ),
    "recreate": (
        "Deployment",
        {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        [(FORBIDDEN, "spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")],
    ),
    "strategy": (
        "Deployment",
        {"strategy": {"type": "Odd"}},
        [
            (
                UNSUPPORTED,
                "spec.strategy",
                '{"Type":"Odd","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate"',
            )
        ],
    ),
    "strategy_with_bounds": (
        "Deployment",
        {"strategy": {"type": "Odd", "rollingUpdate": {"maxSurge": "30%"}}},
        [
            (
                UNSUPPORTED,
                "spec.strategy",
                '{"Type":"Odd","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"30%"}}: supported values:',
            )
        ],
    ),
    "still": (
        "Deployment",
        rolling(maxSurge=0, maxUnavailable=0),
        [(INVALID, "spec.strategy.rollingUpdate.maxUnavailable", "may not be 0 when `maxSurge` is 0")],
    ),
    "no_percent": (
        "Deployment",
        rolling(maxSurge="many", maxUnavailable="10"),
        [
            (INVALID, "spec.strategy.rollingUpdate.maxUnavailable", "a valid percent string must be a numeric string"),
            (INVALID, "spec.strategy.rollingUpdate.maxSurge", "a valid percent string must be a numeric string"),
        ],
    ),
    "percent": (
        "Deployment",
        rolling(maxSurge="many"),
        [(INVALID, "spec.strategy.rollingUpdate.maxSurge", "a valid percent string must be a numeric string")],
    ),
    "too_much": (
        "Deployment",
        rolling(maxUnavailable="101%"),
        [(INVALID, "spec.strategy.rollingUpdate.maxUnavailable", "must not be greater than 100%")],
    ),
    "progress": (
        "Deployment",
        {"progressDeadlineSeconds": 5, "minReadySeconds": 5},
        [(INVALID, "spec.progressDeadlineSeconds", "must be greater than minReadySeconds")],
    ),
    "policy": (
        "StatefulSet",
        {"podManagementPolicy": "Odd"},
        [(INVALID, "spec.podManagementPolicy", "must be 'OrderedReady' or 'Parallel'")],
    ),
    "on_delete": (
        "StatefulSet",
        {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
        [(INVALID, "spec.updateStrategy.rollingUpdate", "only allowed for updateStrategy 'RollingUpdate'")],
    ),
    "set_selector": (
        "StatefulSet",
        {"selector": {}},
        [(INVALID, "spec.selector", "empty selector is invalid for statefulset")],
    ),
    "retention": (
        "StatefulSet",
        {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Odd"}},
        [(UNSUPPORTED, "spec.persistentVolumeClaimRetentionPolicy.whenDeleted", '"Retain", "Delete"')],
    ),
    "job_always": (
        "Job",
        {"template": a_template(labels={})},
        [(REQUIRED, "spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')],
    ),
    "job_counts": ("Job", {"completions": -1}, [(INVALID, "spec.completions", "must be greater than or equal to 0")]),
    "job_indexed": (
        "Job",
        {"completionMode": "Indexed", "parallelism": 1},
        [(REQUIRED, "spec.completions", "when completion mode is Indexed")],
    ),
}


@each_row("case", REFUSED)
def test_what_is_wrong_is_refused(api: Rest, name: str, case: str) -> None:
    kind, spec, causes = REFUSED[case]
    api.post(path_of(kind), body_of(kind, name, **spec)).invalid(*causes)


@each_row("kind", [*PLURALS, "Job"])
def test_what_is_left_out_is_filled_in(api: Rest, name: str, kind: str) -> None:
    policy = "Never" if kind == "Job" else "Always"
    spec: Json = {"template": a_template(labels={} if kind == "Job" else APP, containers=SIZED, restartPolicy=policy)}
    if kind == "StatefulSet":
        spec["volumeClaimTemplates"] = [CLAIM]
    made = api.post(path_of(kind), body_of(kind, name, **spec), dryRun="All").ok(201)
    assert 1 == made["metadata"]["generation"]
    assert FILLED[kind] == {key: value for key, value in made["spec"].items() if key not in ("template", "selector")}
    pod = made["spec"]["template"]["spec"]
    assert (30, "ClusterFirst", {}) == (pod["terminationGracePeriodSeconds"], pod["dnsPolicy"], pod["securityContext"])
    assert ("TCP", {"limits": {"cpu": "1"}}) == (
        pod["containers"][0]["ports"][0]["protocol"],
        pod["containers"][0]["resources"],
    )
    assert ("enableServiceLinks" in pod, "tolerations" in pod) == (False, False), (
        "those are the pod's, not the template's"
    )


FILLED: dict[str, Json] = {
    "Deployment": {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    },
    "ReplicaSet": {"replicas": 1},
    "StatefulSet": {
        "replicas": 1,
        "serviceName": "web",
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "volumeClaimTemplates": [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data"},
                "spec": {**CLAIM["spec"], "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            }
        ],
    },
    "Job": {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    },
}


def test_a_job_gets_its_selector_and_labels(api: Rest, name: str) -> None:
    made = api.post(JOBS, a_job(name, suspend=True)).ok(201)
    uid = made["metadata"]["uid"]
    named = {"controller-uid": uid, "job-name": name}
    assert {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}} == made["spec"]["selector"]
    wanted = {**named, **{f"batch.kubernetes.io/{key}": value for key, value in named.items()}}
    assert wanted == made["spec"]["template"]["metadata"]["labels"]


@each_row(
    "spec", [{}, {"template": a_template(labels={"app": "web"}, restartPolicy="Never")}], ids=["bare", "labelled"]
)
def test_a_job_has_the_labels_of_its_template(api: Rest, name: str, spec: Json) -> None:
    made = api.post(JOBS, a_job(name, suspend=True, **spec)).ok(201)
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]
    assert 4 + len(spec) == len(made["metadata"]["labels"])
    assert made["metadata"]["labels"] == api.get(f"{JOBS}/{name}").ok()["metadata"]["labels"]


def test_a_job_without_labels_has_those_of_its_template(api: Rest, name: str) -> None:
    made = api.post(JOBS, a_job(name, suspend=True)).ok(201)
    for path in (f"{JOBS}/{name}/status", f"{JOBS}/{name}"):
        assert made["metadata"]["labels"] == api.patch(path, {"metadata": {"labels": None}}).ok()["metadata"]["labels"]


def test_a_job_keeps_labels_of_its_own(api: Rest, name: str) -> None:
    body = a_job(name, suspend=True, template=a_template(labels={"app": "web"}, restartPolicy="Never"))
    body["metadata"]["labels"] = {"app": "web"}
    assert {"app": "web"} == api.post(JOBS, body).ok(201)["metadata"]["labels"]


STATUSES = {
    "Deployment": {},
    "ReplicaSet": {"replicas": 0},
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "Job": {},
}


@each_row("kind", STATUSES)
def test_the_first_answer_has_a_status_that_clients_can_read(api: Rest, name: str, kind: str) -> None:
    made = api.post(path_of(kind), {**body_of(kind, name), "status": {"replicas": 7}}).ok(201)
    assert STATUSES[kind] == made["status"] == api.get(f"{path_of(kind)}/{name}").ok()["status"]


@each_row("kind", PLURALS)
def test_a_deletion_of_what_makes_pods_answers_a_status(api: Rest, name: str, kind: str) -> None:
    made = api.post(path_of(kind), body_of(kind, name)).ok(201)
    gone = api.delete(f"{path_of(kind)}/{name}").ok()
    details = {"name": name, "group": "apps", "kind": PLURALS[kind], "uid": made["metadata"]["uid"]}
    assert ("Status", "Success", details) == (gone["kind"], gone["status"], gone["details"])


def test_the_status_endpoint_of_a_deployment_writes_no_labels(api: Rest, name: str) -> None:
    """It does for the others, and annotations."""
    written = {"metadata": {"labels": {"s": "1", "-": "odd"}, "annotations": {"a": "b"}}}
    path = f"{path_of('Deployment')}/{name}"
    api.post(path_of("Deployment"), body_of("Deployment", name)).ok(201)
    metadata = api.patch(f"{path}/status", written).ok()["metadata"]
    assert (None, {"a": "b"}) == (metadata.get("labels"), metadata["annotations"])
    api.post(path_of("ReplicaSet"), body_of("ReplicaSet", name)).ok(201)
    labels = {"metadata": {"labels": {"s": "1"}}}
    assert {"s": "1"} == api.patch(f"{path_of('ReplicaSet')}/{name}/status", labels).ok()["metadata"]["labels"]


REVISIONS = f"{APPS}/controllerrevisions"


@each_row("data", [{}, {"a": 1}, {"spec": {"x": [1.5]}}])
def test_the_data_of_a_revision_are_any_object(api: Rest, name: str, data: Json) -> None:
    assert data == api.post(REVISIONS, {"metadata": {"name": name}, "data": data, "revision": 1}).ok(201)["data"]


@each_row(
    ("data", "says"), [(None, "mandatory"), (0, "valid JSON object"), ("x", "valid JSON"), ([], "valid JSON object")]
)
def test_the_data_of_a_revision_are_an_object(api: Rest, name: str, data: Any, says: str) -> None:
    api.post(REVISIONS, {"metadata": {"name": name}, "data": data, "revision": 1}).invalid((REQUIRED, "data", says))


CLAIMED = a_template(containers=[{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}])
FAILURES = {"rules": [{"action": "", "onExitCodes": {"operator": "In", "values": [2, 1, 0, 1], "containerName": "x"}}]}
NEVER = {"template": a_template(labels={}, restartPolicy="Never")}
INDEXED: Json = {"completionMode": "Indexed", "completions": 3, **NEVER}
JUDGED: dict[str, tuple[str, Json, list[tuple[str, str]]]] = {
    "claims are volumes": ("StatefulSet", {"volumeClaimTemplates": [CLAIM], "template": CLAIMED}, []),
    "unknown mount": (
        "StatefulSet",
        {"template": CLAIMED},
        [("FieldValueNotFound", "spec.template.spec.containers[0].volumeMounts[0].name")],
    ),
    "nameless claim": (
        "StatefulSet",
        {"volumeClaimTemplates": [{"metadata": {}, "spec": CLAIM["spec"]}]},
        [
            (REQUIRED, "spec.template.spec.volumes[0].name"),
            (REQUIRED, "spec.template.spec.volumes[0].persistentVolumeClaim.claimName"),
        ],
    ),
    "odd claim": (
        "StatefulSet",
        {"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["x"]}}]},
        [
            (UNSUPPORTED, "spec.volumeClaimTemplates[0].spec.accessModes"),
            (REQUIRED, "spec.volumeClaimTemplates[0].spec.resources[storage]"),
        ],
    ),
    "service": ("StatefulSet", {"serviceName": "a.b"}, [(INVALID, "spec.serviceName")]),
    "pods of a set": (
        "StatefulSet",
        {"template": a_template(containers=[{"name": "", "image": ""}])},
        [(REQUIRED, "spec.template.spec.containers[0].name"), (REQUIRED, "spec.template.spec.containers[0].image")],
    ),
    "deadline of a set": (
        "StatefulSet",
        {"template": a_template(activeDeadlineSeconds=5)},
        [(FORBIDDEN, "spec.template.spec.activeDeadlineSeconds")],
    ),
    "unreadable selector of a set": (
        "StatefulSet",
        {"selector": {"matchLabels": {"app": "-"}}, "template": a_template(containers=[])},
        [(INVALID, "spec.selector.matchLabels"), (INVALID, "spec.selector")],
    ),
    "unreadable selector": (
        "Deployment",
        {"selector": {"matchLabels": {"app": "-"}}, "template": a_template(containers=[])},
        [(INVALID, "spec.selector.matchLabels"), (INVALID, "spec.selector")],
    ),
    "template": (
        "ReplicaSet",
        {"template": {**a_template(preemptionPolicy="x"), "metadata": {"labels": APP, "annotations": {"/a": ""}}}},
        [(INVALID, "spec.template.annotations"), (UNSUPPORTED, "spec.template.spec.preemptionPolicy")],
    ),
    "failures": (
        "Job",
        {**NEVER, "podFailurePolicy": FAILURES, "podReplacementPolicy": "Failed"},
        [
            (REQUIRED, "spec.podFailurePolicy.rules[0].action"),
            (INVALID, "spec.podFailurePolicy.rules[0].onExitCodes.containerName"),
            (INVALID, "spec.podFailurePolicy.rules[0].onExitCodes.values"),
            (INVALID, "spec.podFailurePolicy.rules[0].onExitCodes.values[2]"),
            ("FieldValueDuplicate", "spec.podFailurePolicy.rules[0].onExitCodes.values[3]"),
        ],
    ),
    "no failures": (
        "Job",
        {
            **NEVER,
            "podFailurePolicy": {"rules": [{"action": "FailIndex"}]},
            "podReplacementPolicy": "TerminatingOrFailed",
        },
        [
            (UNSUPPORTED, "spec.podReplacementPolicy"),
            (INVALID, "spec.podFailurePolicy.rules[0].action"),
            (INVALID, "spec.podFailurePolicy.rules[0]"),
        ],
    ),
    "failures of pods that go on": (
        "Job",
        {
            "template": a_template(labels={}, restartPolicy="OnFailure"),
            "podFailurePolicy": {"rules": [{"action": "Count", "onPodConditions": [{"type": "a b", "status": "x"}]}]},
        },
        [
            (INVALID, "spec.podFailurePolicy.rules[0].onPodConditions[0].type"),
            (UNSUPPORTED, "spec.podFailurePolicy.rules[0].onPodConditions[0].status"),
            (INVALID, "spec.template.spec.restartPolicy"),
        ],
    ),
    "successes": (
        "Job",
        {**NEVER, "successPolicy": {"rules": [{"succeededCount": 1}]}},
        [(INVALID, "spec.successPolicy")],
    ),
    "no successes": ("Job", {**INDEXED, "successPolicy": {"rules": []}}, [(REQUIRED, "spec.successPolicy.rules")]),
    "too many successes": (
        "Job",
        {**INDEXED, "successPolicy": {"rules": [{}, {"succeededCount": 4}]}},
        [(REQUIRED, "spec.successPolicy.rules[0]"), (INVALID, "spec.successPolicy.rules[1].succeededCount")],
    ),
    "indexes": (
        "Job",
        {**NEVER, "backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
        [(INVALID, "spec.backoffLimitPerIndex"), (INVALID, "spec.maxFailedIndexes")],
    ),
    "failed indexes": ("Job", {**INDEXED, "maxFailedIndexes": 1}, [(REQUIRED, "spec.backoffLimitPerIndex")]),
    "parallelism": ("Job", {**INDEXED, "parallelism": 100_001}, [(INVALID, "spec.parallelism")]),
    "manager": ("Job", {**NEVER, "managedBy": "somebody"}, [(INVALID, "spec.managedBy")]),
    "selector of its own": (
        "Job",
        {**NEVER, "selector": {"matchLabels": {"a": "b"}}},
        [(INVALID, "spec.selector"), (INVALID, "spec.template.metadata.labels")],
    ),
}


@each_row("case", JUDGED)
def test_the_same_is_wrong_for_both(api: Rest, name: str, case: str) -> None:
    kind, spec, causes = JUDGED[case]
    answer = api.post(path_of(kind), body_of(kind, name, **spec), dryRun="All")
    told = {(cause["reason"], cause["field"]) for cause in answer.json.get("details", {}).get("causes", [])}
    assert (422 if causes else 201, set(causes)) == (answer.status, told), answer


def test_a_job_without_a_name_is_refused(api: Rest) -> None:
    body = a_job("x")
    del body["metadata"]["name"]
    api.post(JOBS, body).refused(422, "Invalid", (REQUIRED, "metadata.name"))


def test_a_condition_of_a_failure_is_true_where_nothing_is_said(api: Rest, name: str) -> None:
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    made = api.post(JOBS, a_job(name, podFailurePolicy=policy), dryRun="All").ok(201)
    assert [{"type": "DisruptionTarget", "status": "True"}] == made["spec"]["podFailurePolicy"]["rules"][0][
        "onPodConditions"
    ]


STATUS: dict[str, tuple[str, Json, list[str]]] = {
    "set": (
        "StatefulSet",
        {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3},
        ["readyReplicas", "availableReplicas"],
    ),
    "negative": ("ReplicaSet", {"replicas": -1, "observedGeneration": -1}, ["replicas", "observedGeneration"]),
    "labels": ("ReplicaSet", {"replicas": 1, "fullyLabeledReplicas": 2}, ["fullyLabeledReplicas"]),
    "updated": (
        "Deployment",
        {"replicas": 1, "updatedReplicas": 2, "unavailableReplicas": -1},
        ["updatedReplicas", "unavailableReplicas"],
    ),
    "available": ("Deployment", {"replicas": 3, "readyReplicas": 1, "availableReplicas": 2}, ["availableReplicas"]),
    "job": ("Job", {"active": -1, "terminating": -1}, ["active", "terminating"]),
    "well": ("Deployment", {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2}, []),
}


@each_row("case", STATUS)
def test_the_numbers_of_a_status_fit_together(api: Rest, name: str, case: str) -> None:
    kind, status, wrong = STATUS[case]
    api.post(path_of(kind), body_of(kind, name, **({"suspend": True} if kind == "Job" else {}))).ok(201)
    answer = api.patch(f"{path_of(kind)}/{name}/status", {"status": status})
    told = {cause["field"] for cause in answer.json.get("details", {}).get("causes", [])}
    assert (422 if wrong else 200) == answer.status
    assert {f"status.{part}" for part in wrong} <= told


def test_an_indexed_job_changes_its_completions_with_its_parallelism(api: Rest, name: str) -> None:
    api.post(JOBS, a_job(name, suspend=True, **INDEXED)).ok(201)
    api.patch(f"{JOBS}/{name}", {"spec": {"completions": 5}}).refused(
        422, "Invalid", (INVALID, "spec.completions"), says="in tandem with"
    )
    assert 5 == api.patch(f"{JOBS}/{name}", {"spec": {"completions": 5, "parallelism": 5}}).ok()["spec"]["completions"]


ORPHANING = (
    '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to '
    "remove them or set "
    'propagationPolicy=Orphan to suppress this warning"'
)


@each_row(
    ("options", "warnings", "finalizers"),
    [
        ({}, [ORPHANING], ["a.b/c", "orphan"]),
        ({"propagationPolicy": "Background"}, [], ["a.b/c"]),
        ({"propagationPolicy": "Foreground"}, [], ["a.b/c", "foregroundDeletion"]),
        ({"orphanDependents": True}, [], ["a.b/c", "orphan"]),
    ],
    ids=["nothing", "background", "foreground", "orphans"],
)
def test_the_pods_of_a_job_stay_unless_its_deletion_says_otherwise(
    api: Rest, name: str, options: Json, warnings: list[str], finalizers: list[str]
) -> None:
    body = a_job(name, suspend=True)
    body["metadata"]["finalizers"] = ["a.b/c"]
    api.post(JOBS, body).ok(201)
    answer = api.delete(f"{JOBS}/{name}", {**options, "dryRun": ["All"]})
    assert (warnings, finalizers) == (answer.warnings, answer.ok()["metadata"]["finalizers"])
    listed = api.delete(JOBS, {**options, "dryRun": ["All"]}, fieldSelector=f"metadata.name={name}")
    assert warnings == listed.warnings
    api.patch(f"{JOBS}/{name}", {"metadata": {"finalizers": None}}).ok()


@each_row("kind", PLURALS)
def test_a_scale_is_read_and_written(api: Rest, name: str, kind: str) -> None:
    path = f"{path_of(kind)}/{name}"
    api.post(path_of(kind), body_of(kind, name)).ok(201)
    scale = api.get(f"{path}/scale").ok()
    assert ("Scale", "autoscaling/v1", {"replicas": 1}) == (scale["kind"], scale["apiVersion"], scale["spec"])
    assert {"replicas": 0, "selector": "app=web"} == scale["status"]
    assert {"replicas": 3} == api.put(f"{path}/scale", {**scale, "spec": {"replicas": 3}}).ok()["spec"]
    api.put(f"{path}/scale", {**scale, "spec": {"replicas": 4}}).refused(409, "Conflict")
    assert {"replicas": 5} == api.patch(f"{path}/scale", {"spec": {"replicas": 5}}).ok()["spec"]
    found = api.get(path).ok()
    assert (5, 3) == (found["spec"]["replicas"], found["metadata"]["generation"])
    assert 422 == api.patch(f"{path}/scale", {"spec": {"replicas": -1}}).status


@each_row("kind", PLURALS)
def test_what_counts_as_a_change(api: Rest, name: str, kind: str) -> None:
    """The generation counts changes of the spec, of a Deployment also those of its annotations, never those of the
    status.
    """
    path = f"{path_of(kind)}/{name}"
    api.post(path_of(kind), body_of(kind, name)).ok(201)
    changes = (
        {"spec": {"replicas": 2}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    )
    found = [api.patch(path, change).ok()["metadata"]["generation"] for change in changes]
    found.append(api.patch(f"{path}/status", {"status": {"replicas": 1}}).ok()["metadata"]["generation"])
    assert ([2, 2, 3, 3] if kind == "Deployment" else [2, 2, 2, 2]) == found


def test_what_may_not_change(api: Rest, name: str) -> None:
    other = {
        "spec": {"selector": {"matchLabels": {"app": None, "b": "c"}}, "template": {"metadata": {"labels": {"b": "c"}}}}
    }
    for kind in ("Deployment", "ReplicaSet"):
        api.post(path_of(kind), body_of(kind, name)).ok(201)
        api.patch(f"{path_of(kind)}/{name}", other).invalid((INVALID, "spec.selector", "field is immutable"))
    api.post(path_of("StatefulSet"), body_of("StatefulSet", name)).ok(201)
    frozen = {"spec": {"podManagementPolicy": "Parallel"}}
    told = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy'"
    api.patch(f"{path_of('StatefulSet')}/{name}", frozen).invalid((FORBIDDEN, "spec", told))
    api.post(JOBS, a_job(name, suspend=True)).ok(201)
    api.patch(f"{JOBS}/{name}", {"spec": {"completions": 7}}).invalid(
        (INVALID, "spec.completions", "field is immutable")
    )
    assert 3 == api.patch(f"{JOBS}/{name}", {"spec": {"parallelism": 3}}).ok()["spec"]["parallelism"]


def test_the_hosts_name_in_the_template_of_a_set_is_not_looked_at(api: Rest, name: str) -> None:
    """The controller writes it, from the pod's name and the service."""
    template = a_template(hostname="example.com/x", subdomain="A_b")
    made = api.post(path_of("StatefulSet"), body_of("StatefulSet", name, template=template)).ok(201)["spec"][
        "template"
    ]["spec"]
    assert ("example.com/x", "A_b") == (made["hostname"], made["subdomain"])
    fields = ("spec.template.spec.hostname", "spec.template.spec.subdomain")
    wrong = api.post(path_of("Deployment"), body_of("Deployment", name, template=template))
    wrong.invalid(*[(INVALID, field, "a lowercase RFC 1123 label must consist") for field in fields])


def test_of_a_job_with_a_failure_policy_too_the_restart_policy_is_told_once(api: Rest, name: str) -> None:
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "x", "status": "True"}]}]}
    job = a_job(name, podFailurePolicy=policy)
    for given, reason, says in (
        ("Always", REQUIRED, 'valid values: "OnFailure", "Never"'),
        ("OnFailure", INVALID, 'only "Never" is supported when podFailurePolicy is specified'),
    ):
        job["spec"]["template"]["spec"]["restartPolicy"] = given
        api.post(JOBS, job).invalid((reason, "spec.template.spec.restartPolicy", says))


def test_a_selector_that_becomes_the_servers_needs_the_older_labels_alone_where_there_were_no_others(
    api: Rest, name: str
) -> None:
    pods = a_template(restartPolicy="Never")
    api.post(JOBS, a_job(name, manualSelector=True, selector={"matchLabels": APP}, suspend=True, template=pods)).ok(201)
    api.patch(f"{JOBS}/{name}", {"spec": {"manualSelector": False}}).invalid(
        (REQUIRED, "spec.template.metadata.labels[controller-uid]", "must be '"),
        (REQUIRED, "spec.template.metadata.labels[job-name]", f"must be '{name}'"),
        (INVALID, "spec.selector", "`selector` not auto-generated"),
    )


WHERE = {
    "nodeSelector": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "schedulingGates": [{"name": "example.com/gate"}],
}
NEAR = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}
APART = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", "labelSelector": {}}]}
}
RESOURCES = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}


def a_waiting_job(name: str, **pods: Any) -> Json:
    job = copy.deepcopy(a_job(name, suspend=True))
    job["spec"]["template"]["spec"].update(containers=[{"name": "c", "image": "i"}], **pods)
    return job


@each_row("before", [{}, {"affinity": {}}, {"affinity": NEAR}], ids=["none", "empty", "near"])
def test_the_pods_of_a_job_that_waits_may_run_elsewhere_and_ask_for_more(api: Rest, name: str, before: Json) -> None:
    api.post(JOBS, a_waiting_job(name, **before)).ok(201)
    path = f"{JOBS}/{name}"
    for spec in (WHERE, {"affinity": NEAR}, {"affinity": None}, RESOURCES):
        made = api.patch(path, {"spec": {"template": {"spec": spec}}}).ok()["spec"]["template"]["spec"]
        assert {part: value for part, value in spec.items() if value and part != "containers"}.items() <= made.items()
    assert {"cpu": "1"} == made["containers"][0]["resources"]["requests"]
    changed = api.patch(
        path, {"spec": {"template": {"metadata": {"annotations": {"a": "b"}, "labels": {"l": "m"}, "selfLink": "x"}}}}
    ).ok()
    assert ("b", "m") == (
        changed["spec"]["template"]["metadata"]["annotations"]["a"],
        changed["spec"]["template"]["metadata"]["labels"]["l"],
    )


@each_row(
    "spec", [{"containers": [{"name": "d", "image": "i"}]}, {"affinity": APART}, {"terminationGracePeriodSeconds": 1}]
)
def test_the_pods_of_a_job_that_waits_are_what_they_are(api: Rest, name: str, spec: Json) -> None:
    api.post(JOBS, a_waiting_job(name)).ok(201)
    wrong = (INVALID, "spec.template.spec", "field is immutable")
    api.patch(f"{JOBS}/{name}", {"spec": {"template": {"spec": spec}}}).invalid(wrong)


def test_an_affinity_that_says_more_than_where_stays(api: Rest, name: str) -> None:
    api.post(JOBS, a_waiting_job(name, affinity={**NEAR, **APART})).ok(201)
    change = {"spec": {"template": {"spec": {"affinity": None}}}}
    api.patch(f"{JOBS}/{name}", change).invalid((INVALID, "spec.template.spec", "field is immutable"))
    api.patch(f"{JOBS}/{name}", {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": None}}}}}).ok()


STARTED = {"startTime": "2024-01-02T03:04:05Z"}
SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}


@each_row(
    ("is_suspended", "status", "may"),
    [(False, {}, False), (True, STARTED, False), (True, {"active": 1}, False), (True, SUSPENDED, True)],
    ids=["runs", "was started", "has pods", "is told to wait"],
)
def test_when_the_template_of_a_job_may_change(
    api: Rest, name: str, is_suspended: bool, status: Json, may: bool
) -> None:
    job = a_waiting_job(name)
    job["spec"]["suspend"] = is_suspended
    api.post(JOBS, job).ok(201)
    if status:
        api.patch(f"{JOBS}/{name}/status", {"status": status}).ok()
    answer = api.patch(f"{JOBS}/{name}", {"spec": {"template": {"spec": WHERE}}})
    if may:
        answer.ok()
    else:
        answer.invalid((INVALID, "spec.template", "field is immutable"))
