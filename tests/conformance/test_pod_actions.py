"""What is asked of a pod through its sub-resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.conftest import Server
from tests.support.builders import CONTAINER, Json, a_pod
from tests.support.paths import NODES, PODS
from tests.support.pod_specs import FORBIDDEN, INVALID, NOT_FOUND, REQUIRED
from tests.support.rest import STRATEGIC_PATCH, Rest
from tests.support.rows import each_row

DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def a_binding(name: str, node: str = "node-1", **metadata: Any) -> Json:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


def conditions(pod: Json) -> list[tuple[str, str]]:
    return [(condition["type"], condition["status"]) for condition in pod["status"].get("conditions", [])]


@each_row("way", ["sub-resource", "collection"])
def test_a_binding_gives_a_pod_its_node(api: Rest, name: str, way: str) -> None:
    api.post(PODS, a_pod(name)).ok(201)
    path = f"{PODS}/{name}/binding" if way == "sub-resource" else PODS.replace("pods", "bindings")
    assert DONE == api.post(path, a_binding(name, annotations={"a": "b"})).ok(201)
    pod = api.get(f"{PODS}/{name}").ok()
    assert ("node-1", {"a": "b"}, 1) == (
        pod["spec"]["nodeName"],
        pod["metadata"]["annotations"],
        pod["metadata"]["generation"],
    )
    assert [("PodScheduled", "True")] == conditions(pod)
    answer = api.post(f"{PODS}/{name}/binding", a_binding(name, "node-2"))
    answer.refused(409, "Conflict", says=f'pod {name} is already assigned to node "node-1"')


def test_a_binding_tried_out_changes_nothing(api: Rest, name: str) -> None:
    made = api.post(PODS, a_pod(name)).ok(201)
    assert DONE == api.post(f"{PODS}/{name}/binding", a_binding(name), dryRun="All").ok(201)
    assert made == api.get(f"{PODS}/{name}").ok()


def test_a_binding_is_refused_where_it_makes_no_sense(api: Rest, name: str) -> None:
    api.post(f"{PODS}/{name}/binding", a_binding(name)).refused(404, "NotFound")
    api.post(PODS, a_pod(name, schedulingGates=[{"name": "a"}])).ok(201)
    api.post(f"{PODS}/{name}/binding", a_binding(name)).refused(
        409, "Conflict", says="has non-empty .spec.schedulingGates"
    )
    api.post(f"{PODS}/{name}/binding", a_binding("other")).refused(
        400, "BadRequest", says="does not match name in Binding object"
    )
    api.post(f"{PODS}/{name}/binding", a_binding(name, uid="u")).refused(
        409, "Conflict", says="Precondition failed: UID in precondition: u"
    )
    api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": ["a/b"]}, "spec": {"schedulingGates": None}}).ok()
    api.delete(f"{PODS}/{name}").ok()
    api.post(f"{PODS}/{name}/binding", a_binding(name)).refused(
        409, "Conflict", says="is being deleted, cannot be assigned to a host"
    )
    api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}}).ok()
    assert 405 == api.get(f"{PODS}/{name}/binding").status


def test_an_evicted_pod_is_told_why_and_goes_in_its_time(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name, nodeName="n")).ok(201)
    body = {"metadata": {"name": name}}
    assert DONE == api.post(f"{PODS}/{name}/eviction", body, dryRun="All").ok(201)
    assert "deletionTimestamp" not in api.get(f"{PODS}/{name}").ok()["metadata"]
    assert DONE == api.post(f"{PODS}/{name}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", **body}).ok(201)
    pod = api.get(f"{PODS}/{name}").ok()
    assert 30 == pod["metadata"]["deletionGracePeriodSeconds"]
    assert [("DisruptionTarget", "True")] == conditions(pod)
    assert DONE == api.post(f"{PODS}/{name}/eviction", {**body, "deleteOptions": {"gracePeriodSeconds": 0}}).ok(201)
    api.get(f"{PODS}/{name}").refused(404, "NotFound")


def test_an_eviction_names_its_pod(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name, nodeName="n")).ok(201)
    answer = api.post(f"{PODS}/{name}/eviction", {"metadata": {"name": "x"}})
    answer.refused(400, "BadRequest", says="does not match name in Eviction object")


def test_an_eviction_names_a_policy_that_there_is(api: Rest, name: str) -> None:
    api.post(PODS, a_pod(name)).ok(201)
    body = {"metadata": {"name": name}, "deleteOptions": {"propagationPolicy": "Sideways"}}
    answer = api.post(f"{PODS}/{name}/eviction", body)
    answer.refused(422, "Invalid", ("FieldValueNotSupported", "propagationPolicy"))
    assert "deletionTimestamp" not in api.get(f"{PODS}/{name}").ok()["metadata"]


def test_an_eviction_keeps_to_its_preconditions(servers: Callable[[str], Server], name: str) -> None:
    """The real one does too, after ten seconds of trying."""
    api = servers("embedded").api
    made = api.post(PODS, a_pod(name, nodeName="n")).ok(201)
    body = {"metadata": {"name": name}, "deleteOptions": {"preconditions": {"uid": "u"}}}
    api.post(f"{PODS}/{name}/eviction", body).refused(409, "Conflict", says="UID in the precondition (u)")
    assert made == api.get(f"{PODS}/{name}").ok()


EPHEMERAL: dict[str, tuple[Json, list[tuple[str, str]]]] = {
    "changed": ({"name": "e", "image": "j"}, [(FORBIDDEN, "spec.ephemeralContainers")]),
    "removed": ({"name": "e", "$patch": "delete"}, [(FORBIDDEN, "spec.ephemeralContainers")]),
    "same_name": ({"name": "c", "image": "j"}, [("FieldValueDuplicate", "spec.ephemeralContainers[0].name")]),
    "no_image": ({"name": "f"}, [(REQUIRED, "spec.ephemeralContainers[0].image")]),
    "target": (
        {"name": "f", "image": "j", "targetContainerName": "x"},
        [(NOT_FOUND, "spec.ephemeralContainers[0].targetContainerName")],
    ),
    "ports": (
        {"name": "f", "image": "j", "ports": [{"containerPort": 1}]},
        [(FORBIDDEN, "spec.ephemeralContainers[0].ports")],
    ),
    "fine": ({"name": "f", "image": "j", "targetContainerName": "c"}, []),
}


@each_row("row", EPHEMERAL)
def test_a_container_for_debugging_is_added_and_stays(api: Rest, name: str, row: str) -> None:
    api.post(PODS, a_pod(name)).ok(201)
    path, (change, causes) = f"{PODS}/{name}/ephemeralcontainers", EPHEMERAL[row]
    first = api.patch(path, {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}, STRATEGIC_PATCH).ok()
    assert (["e"], 2) == (
        [one["name"] for one in first["spec"]["ephemeralContainers"]],
        first["metadata"]["generation"],
    )
    answer = api.patch(path, {"spec": {"ephemeralContainers": [change]}}, STRATEGIC_PATCH)
    if causes:
        answer.refused(422, "Invalid", *causes)
    else:
        assert ["f", "e"] == [one["name"] for one in answer.ok()["spec"]["ephemeralContainers"]]


@each_row("endpoint", ["ephemeralcontainers", "resize"])
def test_an_endpoint_for_a_part_leaves_the_rest_alone(api: Rest, name: str, endpoint: str) -> None:
    made = api.post(PODS, a_pod(name)).ok(201)
    change = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"activeDeadlineSeconds": 5, "containers": [{"name": "c", "image": "z"}]},
    }
    found = api.patch(f"{PODS}/{name}/{endpoint}", change, STRATEGIC_PATCH).ok()
    assert (made["spec"], None) == (found["spec"], found["metadata"].get("labels"))


RESIZED: dict[str, tuple[Json, list[tuple[str, str]]]] = {
    "more": ({"requests": {"cpu": "2"}}, []),
    "limit_too": ({"limits": {"memory": "3Gi"}}, []),
    "removed": ({"requests": {"cpu": None}}, [(FORBIDDEN, "spec.containers[0].resources.requests")]),
    "other": ({"limits": {"ephemeral-storage": "1Gi"}}, [(FORBIDDEN, "spec")]),
    "over": ({"requests": {"memory": "3Gi"}}, [(INVALID, "spec.containers[0].resources.requests")]),
    "quality": ({"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1"}}, [(INVALID, "spec")]),
}


@each_row("row", RESIZED)
def test_a_pod_is_resized_in_its_place(api: Rest, name: str, row: str) -> None:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    api.post(PODS, a_pod(name, containers=[{**CONTAINER, "resources": resources}])).ok(201)
    change, causes = RESIZED[row]
    answer = api.patch(
        f"{PODS}/{name}/resize", {"spec": {"containers": [{"name": "c", "resources": change}]}}, STRATEGIC_PATCH
    )
    if causes:
        answer.refused(422, "Invalid", *causes)
    else:
        assert 2 == answer.ok()["metadata"]["generation"]


@each_row("door", ["exec", "attach", "portforward", "log"])
def test_nobody_looks_into_a_pod_whose_node_is_gone(api: Rest, name: str, door: str) -> None:
    api.post(PODS, a_pod(name, nodeName=f"{name}-gone")).ok(201)
    refused = api.get(f"{PODS}/{name}/{door}", command="x").refused(
        404, "NotFound", says=f'pods "{name}-gone" not found'
    )
    assert {"kind": "pods", "name": f"{name}-gone"} == refused["details"]


@each_row("door", ["exec", "attach", "portforward"])
def test_nobody_looks_into_a_pod_without_a_node(api: Rest, name: str, door: str) -> None:
    api.post(PODS, a_pod(name)).ok(201)
    api.get(f"{PODS}/{name}/{door}", command="x").refused(
        400, "BadRequest", says=f"pod {name} does not have a host assigned"
    )
    api.get(f"{PODS}/none-such/{door}", command="x").refused(404, "NotFound")


def test_the_embedded_server_says_that_it_has_no_kubelet(servers: Callable[[str], Server], name: str) -> None:
    embedded = servers("embedded").api
    embedded.post(NODES, {"metadata": {"name": name}}).ok(201)
    embedded.post(PODS, a_pod(name, nodeName=name)).ok(201)
    embedded.get(f"{PODS}/{name}/log").refused(
        503, "ServiceUnavailable", says="there is no kubelet behind this API server"
    )


def test_the_sub_resources_are_told(api: Rest) -> None:
    told = {found["name"]: found for found in api.get("/api/v1").ok()["resources"]}
    wanted: dict[str, tuple[str, list[str]]] = {
        "pods/attach": ("PodAttachOptions", ["create", "get"]),
        "pods/binding": ("Binding", ["create"]),
        "pods/ephemeralcontainers": ("Pod", ["get", "patch", "update"]),
        "pods/eviction": ("Eviction", ["create"]),
        "pods/exec": ("PodExecOptions", ["create", "get"]),
        "pods/log": ("Pod", ["get"]),
        "pods/portforward": ("PodPortForwardOptions", ["create", "get"]),
        "pods/resize": ("Pod", ["get", "patch", "update"]),
        "serviceaccounts/token": ("TokenRequest", ["create"]),
        "bindings": ("Binding", ["create"]),
    }
    assert wanted == {name: (told[name]["kind"], told[name]["verbs"]) for name in wanted}
    assert ("policy", "v1") == (told["pods/eviction"]["group"], told["pods/eviction"]["version"])
