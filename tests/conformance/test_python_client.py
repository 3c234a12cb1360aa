"""The official Python client on both servers: typed calls, watches, patches, errors, custom kinds, dynamic
discovery.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.conftest import Server
from tests.support.builders import a_claim, a_node, a_pv, a_secret, a_va
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.support.waiting import eventually

if TYPE_CHECKING:  # it takes half a second, which only the tests here pay
    from kubernetes import client

pytestmark = pytest.mark.slow

HOLD = "example.com/hold"
WAIT_S = 30.0


@pytest.fixture
def kube(server: Server) -> Iterator[client.ApiClient]:
    from kubernetes import config

    with config.new_client_from_config(str(server.kubeconfig)) as found:
        yield found


@pytest.fixture
def core(kube: client.ApiClient) -> client.CoreV1Api:
    from kubernetes import client

    return client.CoreV1Api(kube)


def test_a_claims_life(core: client.CoreV1Api, name: str) -> None:
    from kubernetes.client.rest import ApiException

    made = core.create_namespaced_persistent_volume_claim("default", a_claim(name))
    assert (name, "Pending", {"storage": "1Gi"}) == (
        made.metadata.name,
        made.status.phase,
        made.spec.resources.requests,
    )
    assert datetime.timedelta(minutes=5) > datetime.datetime.now(datetime.UTC) - made.metadata.creation_timestamp
    core.patch_namespaced_persistent_volume_claim(name, "default", {"metadata": {"labels": {"a": "b"}}})
    core.patch_namespaced_persistent_volume_claim_status(name, "default", {"status": {"phase": "Bound"}})
    found = core.list_namespaced_persistent_volume_claim(
        "default", label_selector="a=b", field_selector=f"metadata.name={name}"
    )
    assert ["Bound"] == [claim.status.phase for claim in found.items]
    fresh = found.items[0]
    fresh.metadata.finalizers = [HOLD]
    assert [HOLD] == core.replace_namespaced_persistent_volume_claim(name, "default", fresh).metadata.finalizers
    assert core.delete_namespaced_persistent_volume_claim(name, "default").metadata.deletion_timestamp
    core.patch_namespaced_persistent_volume_claim(name, "default", {"metadata": {"finalizers": None}})
    with pytest.raises(ApiException) as refused:
        core.read_namespaced_persistent_volume_claim(name, "default")
    assert (404, "Not Found") == (refused.value.status, refused.value.reason)


def test_refusals_are_api_exceptions(core: client.CoreV1Api, name: str) -> None:
    from kubernetes import client
    from kubernetes.client.rest import ApiException

    core.create_persistent_volume(a_pv(name))
    for status, call in (
        (409, lambda: core.create_persistent_volume(a_pv(name))),
        (422, lambda: core.create_persistent_volume(a_pv(f"{name}-2", accessModes=["Odd"]))),
        (
            409,
            lambda: core.delete_persistent_volume(
                name, body=client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="x"))
            ),
        ),
        (403, lambda: core.delete_namespace("default")),
    ):
        with pytest.raises(ApiException) as refused:
            call()
        assert status == refused.value.status
        assert '"kind":"Status"' in refused.value.body
    core.patch_persistent_volume(name, {"metadata": {"finalizers": None}})
    core.delete_persistent_volume(name)


def test_patches_are_strategic_or_what_they_look_like(core: client.CoreV1Api, name: str) -> None:
    core.create_node(
        a_node(name, conditions=[{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}])
    )
    change: Any = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    found = core.patch_node_status(name, change)
    assert {"Ready": "Unknown", "DiskPressure": "False"} == {one.type: one.status for one in found.status.conditions}
    operations: Any = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    assert {"a": "b"} == core.patch_node(name, operations).metadata.labels
    core.delete_node(name)


def test_a_watch_goes_on_from_a_version(core: client.CoreV1Api, name: str) -> None:
    from kubernetes import watch

    label = f"set={name}"
    start = core.list_namespaced_secret("default", label_selector=label).metadata.resource_version
    for number in range(3):
        core.create_namespaced_secret("default", a_secret(f"{name}-{number}", labels={"set": name}))
    core.delete_namespaced_secret(f"{name}-1", "default")
    seen = []
    for _ in range(2):
        watching = watch.Watch()
        options = {"label_selector": label, "resource_version": start, "timeout_seconds": 20}
        for event in watching.stream(core.list_namespaced_secret, "default", **options):
            seen.append((event["type"], event["object"].metadata.name))
            start = event["object"].metadata.resource_version
            if len(seen) in (2, 4):
                watching.stop()
    assert [("ADDED", f"{name}-{number}") for number in range(3)] + [("DELETED", f"{name}-1")] == seen


def test_a_watch_without_a_version_lists_first_and_follows(
    core: client.CoreV1Api, kube: client.ApiClient, name: str
) -> None:
    from kubernetes import client, watch

    storage = client.StorageV1Api(kube)
    storage.create_volume_attachment(a_va(name))
    watching = watch.Watch()
    seen = []
    for event in watching.stream(
        storage.list_volume_attachment, field_selector=f"metadata.name={name}", timeout_seconds=20
    ):
        seen.append((event["type"], event["object"].status.attached))
        if len(seen) == 2:
            watching.stop()
        else:
            storage.patch_volume_attachment_status(name, {"status": {"attached": True}})
    assert [("ADDED", False), ("MODIFIED", True)] == seen
    storage.delete_volume_attachment(name)


def test_a_forgotten_version_is_gone(server: Server, kube: client.ApiClient) -> None:
    from kubernetes import client, watch
    from kubernetes.client.rest import ApiException

    _, _, group, version, plural = server.forget().split("/")
    objects = client.CustomObjectsApi(kube)
    options = {"resource_version": "1", "timeout_seconds": 5}
    with pytest.raises(ApiException) as refused:
        list(watch.Watch().stream(objects.list_cluster_custom_object, group, version, plural, **options))
    assert 410 == refused.value.status


def test_pages_follow_each_other(core: client.CoreV1Api, name: str) -> None:
    for number in range(3):
        core.create_namespaced_secret("default", a_secret(f"{name}-{number}", labels={"set": name}))
    first = core.list_namespaced_secret("default", label_selector=f"set={name}", limit=2)
    second = core.list_namespaced_secret(
        "default", label_selector=f"set={name}", limit=2, _continue=first.metadata._continue
    )
    assert [f"{name}-{number}" for number in range(3)] == [
        one.metadata.name for page in (first, second) for one in page.items
    ]
    core.delete_collection_namespaced_secret("default", label_selector=f"set={name}")
    assert [] == core.list_namespaced_secret("default", label_selector=f"set={name}").items


def test_owners_and_policies(core: client.CoreV1Api, name: str) -> None:
    from kubernetes import client

    owner = core.create_namespaced_secret("default", client.V1Secret(metadata=client.V1ObjectMeta(name=name)))
    ref = client.V1OwnerReference(
        api_version="v1", kind="Secret", name=name, uid=owner.metadata.uid, block_owner_deletion=True
    )
    child = client.V1ObjectMeta(name=f"{name}-child", owner_references=[ref])
    core.create_namespaced_secret("default", client.V1Secret(metadata=child))
    core.delete_namespaced_secret(name, "default", propagation_policy="Foreground")
    names = {name, f"{name}-child"}

    def left() -> set[str]:
        return names & {one.metadata.name for one in core.list_namespaced_secret("default").items}

    eventually(lambda: not left(), WAIT_S, "owner and child are gone")


def test_custom_kinds_as_plain_objects(kube: client.ApiClient, name: str) -> None:
    from kubernetes import client
    from kubernetes.client.rest import ApiException

    definitions, objects = client.ApiextensionsV1Api(kube), client.CustomObjectsApi(kube)
    definition = SNAPSHOT_CRDS[0]
    group, version, plural = definition["spec"]["group"], "v1", definition["spec"]["names"]["plural"]
    with contextlib.suppress(ApiException):  # (another test may have made it)
        definitions.create_custom_resource_definition(definition)
    eventually(lambda: _is_established(definitions, definition["metadata"]["name"]), WAIT_S, "the kind is established")
    body = {"apiVersion": f"{group}/{version}", "kind": "VolumeSnapshotClass", "metadata": {"name": name}}
    body |= {"driver": "d.example.com", "deletionPolicy": "Delete"}
    assert "d.example.com" == objects.create_cluster_custom_object(group, version, plural, body)["driver"]
    change = {"deletionPolicy": "Retain"}
    assert "Retain" == objects.patch_cluster_custom_object(group, version, plural, name, change)["deletionPolicy"]
    assert name in [
        one["metadata"]["name"] for one in objects.list_cluster_custom_object(group, version, plural)["items"]
    ]
    objects.delete_cluster_custom_object(group, version, plural, name)


def _is_established(definitions: client.ApiextensionsV1Api, name: str) -> bool:
    conditions = definitions.read_custom_resource_definition(name).status.conditions or []
    return any((one.type, one.status) == ("Established", "True") for one in conditions)


def test_the_dynamic_client_finds_kinds_by_itself(kube: client.ApiClient, name: str) -> None:
    from kubernetes import dynamic

    found = dynamic.DynamicClient(kube)
    secrets = found.resources.get(api_version="v1", kind="Secret")
    secrets.create(a_secret(name), namespace="default")
    applied = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"a": "b"}}}
    answer = secrets.server_side_apply(applied, namespace="default", field_manager="tests")
    assert "b" == answer.metadata.labels.a
    secrets.delete(name=name, namespace="default")
    assert "volumeattachments" == found.resources.get(kind="VolumeAttachment", api_version="storage.k8s.io/v1").name
