"""A pod's life on a server: what it is given, what may change, how it goes."""

from __future__ import annotations

from typing import Any

from tests.support.builders import CONTAINER, Json, a_pod
from tests.support.paths import PODS
from tests.support.pod_specs import FORBIDDEN, INVALID, container, pod
from tests.support.rest import MERGE_PATCH, STRATEGIC_PATCH, Rest
from tests.support.rows import each_row

UNWELL = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for what in ("not-ready", "unreachable")
]
FILLED_IN = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
HALF = {"limits": {"cpu": "1", "memory": "1Gi"}}


def plain_spec(**spec: Any) -> Json:
    """What a server makes of a pod that says nothing."""
    return {
        "containers": [{**CONTAINER, "resources": {}, **FILLED_IN}],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": UNWELL,
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        **spec,
    }


def test_a_pod_says_little_and_is_given_the_rest(api: Rest, name: str) -> None:
    made = api.post(PODS, {**a_pod(name), "status": {"phase": "Running", "podIP": "10.0.0.1"}}).ok(201)
    assert plain_spec() == made["spec"]
    assert {"phase": "Pending", "qosClass": "BestEffort"} == made["status"]
    assert 1 == made["metadata"]["generation"]
    assert made == api.get(f"{PODS}/{name}").ok()


GIVEN: dict[str, tuple[Json, str, Any]] = {
    "empty_dir": (pod(volumes=[{"name": "v"}]), "volumes", [{"name": "v", "emptyDir": {}}]),
    "file_mode": (
        pod(volumes=[{"name": "v", "configMap": {"name": "c"}}]),
        "volumes",
        [{"name": "v", "configMap": {"name": "c", "defaultMode": 0o644}}],
    ),
    "token": (
        pod(
            serviceAccountName="a",
            volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
        ),
        "volumes",
        [
            {
                "name": "v",
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 0o644,
                },
            }
        ],
    ),
    "account": (pod(serviceAccount="old"), "serviceAccountName", "old"),
    "grace": (pod(terminationGracePeriodSeconds=-5), "terminationGracePeriodSeconds", 1),
    "tolerates_all": (pod(tolerations=[{"operator": "Exists"}]), "tolerations", [{"operator": "Exists"}]),
    "system": (pod(priorityClassName="system-node-critical"), "priority", 2_000_001_000),
}


@each_row("row", GIVEN)
def test_what_a_spec_leaves_out_is_filled_in(api: Rest, row: str) -> None:
    spec, field, wanted = GIVEN[row]
    assert wanted == api.post(PODS, {"metadata": {"name": "given"}, "spec": spec}, dryRun="All").ok(201)["spec"][field]


CONTAINERS: dict[str, tuple[Json, Json]] = {
    "latest": ({"image": "r:5000/x"}, {"imagePullPolicy": "Always"}),
    "digest": ({"image": "x@sha256:" + "a" * 64}, {"imagePullPolicy": "IfNotPresent"}),
    "requests": ({"resources": HALF}, {"resources": {**HALF, "requests": HALF["limits"]}}),
    "port": ({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
    "probe": (
        {"livenessProbe": {"httpGet": {"port": "web"}}},
        {
            "livenessProbe": {
                "httpGet": {"path": "/", "port": "web", "scheme": "HTTP"},
                "timeoutSeconds": 1,
                "periodSeconds": 10,
                "successThreshold": 1,
                "failureThreshold": 3,
            }
        },
    ),
    "field": (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]},
    ),
    "amount": (
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}}]},
    ),
}


@each_row("row", CONTAINERS)
def test_what_a_container_leaves_out_is_filled_in(api: Rest, row: str) -> None:
    given, wanted = CONTAINERS[row]
    (made,) = api.post(PODS, {"metadata": {"name": "given"}, "spec": container(**given)}, dryRun="All").ok(201)["spec"][
        "containers"
    ]
    assert wanted == {field: made[field] for field in wanted}


@each_row(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        (HALF, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
    ],
    ids=["none", "asks", "both", "one"],
)
def test_resources_make_the_quality_of_service(api: Rest, resources: Json, quality: str) -> None:
    body = {"metadata": {"name": "given"}, "spec": container(resources=resources)}
    assert quality == api.post(PODS, body, dryRun="All").ok(201)["status"]["qosClass"]


REFUSED: dict[str, tuple[Json, str]] = {
    "class": ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
    "priority": ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec"),
    "preemption": (
        {"preemptionPolicy": "Never"},
        "the string value of PreemptionPolicy (Never) must not be provided in pod spec",
    ),
    "runtime": ({"runtimeClassName": "nope"}, 'pod rejected: RuntimeClass "nope" not found'),
    "overhead": (
        {"overhead": {"cpu": "1"}},
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    ),
}


@each_row("row", REFUSED)
def test_admission_knows_the_classes_that_there_are(api: Rest, row: str) -> None:
    spec, text = REFUSED[row]
    api.post(PODS, a_pod("refused", **spec)).refused(403, "Forbidden", says=text)


DEADLINE = "spec.activeDeadlineSeconds"
CHANGES: dict[str, tuple[Json, Json, list[tuple[str, str]]]] = {
    "image": ({}, {"containers": [{**CONTAINER, "image": "x:2"}]}, []),
    "deadline": ({}, {"activeDeadlineSeconds": 60}, []),
    "nearer": ({"activeDeadlineSeconds": 60}, {"activeDeadlineSeconds": 50}, []),
    "farther": ({"activeDeadlineSeconds": 60}, {"activeDeadlineSeconds": 70}, [(INVALID, DEADLINE)]),
    "no_deadline": ({"activeDeadlineSeconds": 60}, {"activeDeadlineSeconds": None}, [(INVALID, DEADLINE)]),
    "toleration": ({}, {"tolerations": [{"key": "a", "operator": "Exists"}, *UNWELL]}, []),
    "longer": ({}, {"tolerations": [{**one, "tolerationSeconds": 9} for one in UNWELL]}, []),
    "other_toleration": (
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"tolerations": [{"key": "b", "operator": "Exists"}]},
        [(FORBIDDEN, "spec.tolerations")],
    ),
    "gate": ({"schedulingGates": [{"name": "a"}, {"name": "b"}]}, {"schedulingGates": [{"name": "b"}]}, []),
    "new_gate": (
        {"schedulingGates": [{"name": "a"}]},
        {"schedulingGates": [{"name": "b"}]},
        [(FORBIDDEN, "spec.schedulingGates[0].name")],
    ),
    "narrower": ({"schedulingGates": [{"name": "a"}]}, {"nodeSelector": {"a": "b"}}, []),
    "node": ({}, {"nodeName": "n"}, [(FORBIDDEN, "spec")]),
    "command": ({}, {"containers": [{**CONTAINER, "command": ["x"]}]}, [(FORBIDDEN, "spec")]),
    "resources": ({}, {"containers": [{**CONTAINER, "resources": HALF}]}, [(FORBIDDEN, "spec")]),
    "volumes": ({}, {"volumes": [{"name": "v"}]}, [(FORBIDDEN, "spec")]),
    "account": ({}, {"serviceAccountName": "x"}, [(FORBIDDEN, "spec")]),
    "grace": ({}, {"terminationGracePeriodSeconds": 5}, [(FORBIDDEN, "spec")]),
    "ephemeral": ({}, {"ephemeralContainers": [{"name": "e", "image": "i"}]}, [(FORBIDDEN, "spec")]),
    "second": ({}, {"containers": [CONTAINER, {**CONTAINER, "name": "d"}]}, [(FORBIDDEN, "spec.containers")]),
}


@each_row("row", CHANGES)
def test_little_may_change_and_is_counted(api: Rest, name: str, row: str) -> None:
    spec, change, causes = CHANGES[row]
    api.post(PODS, a_pod(name, **spec)).ok(201)
    answer = api.patch(f"{PODS}/{name}", {"spec": change})
    if causes:
        answer.refused(422, "Invalid", *causes)
    else:
        assert 2 == answer.ok()["metadata"]["generation"]


def test_a_label_is_no_change_of_the_spec(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name)).ok(201)
    assert 1 == api.patch(f"{PODS}/{name}", {"metadata": {"labels": {"a": "b"}}}).ok()["metadata"]["generation"]


def test_a_put_may_leave_out_what_admission_gave(api: Rest, name: str) -> None:
    made = api.post(PODS, a_pod(name)).ok(201)
    for part in ("priority", "preemptionPolicy", "tolerations"):
        del made["spec"][part]
    assert plain_spec() == api.put(f"{PODS}/{name}", made).ok()["spec"]


def test_a_gated_pod_says_why_it_waits(api: Rest, name: str) -> None:
    (condition,) = api.post(PODS, a_pod(name, schedulingGates=[{"name": "a"}])).ok(201)["status"]["conditions"]
    assert ("PodScheduled", "False", "SchedulingGated", None) == tuple(
        condition[part] for part in ("type", "status", "reason", "lastProbeTime")
    )


STATUSES: dict[str, tuple[Json, list[tuple[str, str]]]] = {
    "phase": ({"phase": "Running"}, []),
    "quality": ({"qosClass": "Guaranteed"}, [(INVALID, "status.qosClass")]),
    "two_kinds": ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]}, []),
    "nominated": ({"nominatedNodeName": "A_"}, [(INVALID, "status.nominatedNodeName")]),
    "condition": ({"conditions": [{"type": "A B", "status": "True"}]}, [(INVALID, "status.conditions[0].Type")]),
}


@each_row("row", STATUSES)
def test_a_status_is_looked_at(api: Rest, name: str, row: str) -> None:
    status, causes = STATUSES[row]
    api.post(PODS, a_pod(name)).ok(201)
    answer = api.patch(f"{PODS}/{name}/status", {"status": status})
    if causes:
        answer.refused(422, "Invalid", *causes)
    else:
        assert 1 == answer.ok()["metadata"]["generation"]


def test_one_address_is_told_twice(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name)).ok(201)
    status = api.patch(f"{PODS}/{name}/status", {"status": {"podIP": "10.0.0.1"}}).ok()["status"]
    assert ("10.0.0.1", [{"ip": "10.0.0.1"}]) == (status["podIP"], status["podIPs"])


def test_a_status_takes_labels_but_no_owner_and_no_spec(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name)).ok(201)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    change = {
        "metadata": {"labels": {"a": "b"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running"},
    }
    found = api.patch(f"{PODS}/{name}/status", change, STRATEGIC_PATCH).ok()
    assert ({"a": "b"}, None) == (found["metadata"]["labels"], found["metadata"].get("ownerReferences"))
    assert (plain_spec(), "Running") == (found["spec"], found["status"]["phase"])


def test_a_container_that_has_ended_for_good_stays_ended(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name, restartPolicy="Never")).ok(201)
    state = {"name": "c", "image": "x", "imageID": "", "restartCount": 0, "ready": False}
    ended, running = (
        {**state, "state": {kind: content}} for kind, content in (("terminated", {"exitCode": 1}), ("running", {}))
    )
    api.patch(f"{PODS}/{name}/status", {"status": {"containerStatuses": [ended]}}, MERGE_PATCH).ok()
    answer = api.patch(f"{PODS}/{name}/status", {"status": {"containerStatuses": [running]}}, MERGE_PATCH)
    answer.refused(422, "Invalid", (FORBIDDEN, "status.containerStatuses[0].state"))


@each_row(
    "field", ["spec.nodeName=n-x", "spec.serviceAccountName=acc", "status.podIP=10.9.9.9", "spec.hostNetwork=true"]
)
def test_pods_are_selected_by_their_fields(api: Rest, name: str, field: str) -> None:
    body = a_pod(name, nodeName="n-x", serviceAccountName="acc", hostNetwork=True)
    api.post(PODS, body).ok(201)
    api.patch(f"{PODS}/{name}/status", {"status": {"podIP": "10.9.9.9"}}).ok()
    found = [
        item["metadata"]["name"] for item in api.get(PODS, fieldSelector=f"{field},metadata.name={name}").ok()["items"]
    ]
    assert [name] == found
    assert [] == api.get(PODS, fieldSelector=f"{field}x,metadata.name={name}").ok()["items"]
    api.delete(f"{PODS}/{name}", gracePeriodSeconds=0).ok()
