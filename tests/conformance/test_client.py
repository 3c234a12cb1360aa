"""Our own client speaks to both servers: each verb, each refusal that controllers act on, and watches from every
start.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

import pytest

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube import errors
from mooring.kube.client.config import KubeconfigUser
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.cluster import EventType, Selection
from mooring.kube.patch import json_patch, merge_patch, replace
from mooring.kube.patch import test as check
from tests.conformance.conftest import Server
from tests.support.builders import a_va


@contextlib.asynccontextmanager
async def a_client(server: Server) -> AsyncIterator[HttpCluster]:
    config = load(str(server.kubeconfig), {})
    async with HttpCluster(config, clock=LoopClock(), randomness=Random(1), user_agent="conformance/1") as cluster:
        yield cluster


async def test_an_object_lives_and_dies(server: Server, name: str) -> None:
    async with a_client(server) as cluster:
        created = await cluster.create(VOLUME_ATTACHMENTS, a_va(name, labels={"test": name}))
        assert await cluster.get(VOLUME_ATTACHMENTS, name) == created
        change = merge_patch({"status": {"attached": True, "attachmentMetadata": {"a/b": "größe"}}})
        patched = await cluster.patch(VOLUME_ATTACHMENTS, name, change, subresource="status")
        assert (True, {"a/b": "größe"}) == (patched.status.attached, patched.status.attachment_metadata)
        with pytest.raises(errors.AlreadyExists):
            await cluster.create(VOLUME_ATTACHMENTS, a_va(name, labels={"test": name}))
        with pytest.raises(errors.Conflict):
            await cluster.delete(VOLUME_ATTACHMENTS, name, uid="another")
        await cluster.delete(VOLUME_ATTACHMENTS, name, uid=created.metadata.uid, propagation="Background")
        with pytest.raises(errors.NotFound, match=f'volumeattachments.storage.k8s.io "{name}" not found'):
            await cluster.get(VOLUME_ATTACHMENTS, name)


async def test_a_whole_object_can_be_put_back_unless_it_has_changed(server: Server, name: str) -> None:
    async with a_client(server) as cluster:
        await cluster.create(VOLUME_ATTACHMENTS, a_va(name, labels={"test": name}))
        whole = await cluster.get(VOLUME_ATTACHMENTS.whole(), name)
        whole["metadata"]["labels"]["more"] = "1"
        assert (await cluster.replace(VOLUME_ATTACHMENTS.whole(), whole))["metadata"]["labels"] == {
            "test": name,
            "more": "1",
        }
        with pytest.raises(errors.Conflict):
            await cluster.replace(VOLUME_ATTACHMENTS.whole(), whole)


async def test_a_json_patch_whose_test_fails_changes_nothing(server: Server, name: str) -> None:
    async with a_client(server) as cluster:
        created = await cluster.create(VOLUME_ATTACHMENTS, a_va(name, labels={"test": name}))
        steps = [check("/metadata/uid", "another"), replace("/metadata/labels/test", "x")]
        with pytest.raises(errors.Invalid):
            await cluster.patch(VOLUME_ATTACHMENTS, name, json_patch(steps))
        assert await cluster.get(VOLUME_ATTACHMENTS, name) == created


async def test_what_is_not_valid_is_told_by_field(server: Server, name: str) -> None:
    async with a_client(server) as cluster:
        with pytest.raises(errors.Invalid) as caught:
            await cluster.create(
                VOLUME_ATTACHMENTS,
                {"metadata": {"name": name}, "spec": {"attacher": "a", "nodeName": "n", "source": {}}},
            )
        assert [cause["field"] for cause in caught.value.details["causes"]] == ["spec.source"]
        with pytest.raises(errors.NotFound, match="not found"):
            await cluster.get(PERSISTENT_VOLUMES, f"größe {name} {'x' * 1000}")


async def test_a_list_comes_in_pages_of_one_moment(server: Server, name: str) -> None:
    async with a_client(server) as cluster:
        for number in range(5):
            await cluster.create(VOLUME_ATTACHMENTS, a_va(f"{name}-{number}", labels={"test": name}))
        selection, found, versions = Selection(label_selector=f"test={name}"), [], set()
        token = ""
        while True:
            page = await cluster.list(VOLUME_ATTACHMENTS, selection, limit=2, continue_token=token)
            found += [item.metadata.name for item in page.items]
            versions.add(page.resource_version)
            token = page.continue_token
            if not token:
                break
        assert [f"{name}-{number}" for number in range(5)] == found
        assert len(versions) == 1


async def test_a_watch_goes_on_where_a_list_ended(server: Server, name: str) -> None:
    async with a_client(server) as cluster, asyncio.timeout(30):
        selection = Selection(label_selector=f"test={name}")
        page = await cluster.list(VOLUME_ATTACHMENTS, selection)
        watch = cluster.watch(VOLUME_ATTACHMENTS, selection, resource_version=page.resource_version, timeout_s=60)
        async with contextlib.aclosing(watch) as events:
            created = await cluster.create(VOLUME_ATTACHMENTS, a_va(name, labels={"test": name}))
            changed = await cluster.patch(
                VOLUME_ATTACHMENTS, name, merge_patch({"metadata": {"annotations": {"a": "1"}}})
            )
            await cluster.delete(VOLUME_ATTACHMENTS, name)
            seen: list[tuple[EventType, VolumeAttachment | None]] = []
            while len(seen) < 3:
                event = await anext(events)
                if event.type is not EventType.BOOKMARK:
                    seen.append((event.type, event.object))
        assert [EventType.ADDED, EventType.MODIFIED, EventType.DELETED] == [kind for kind, _ in seen]
        assert [created, changed] == [obj for _, obj in seen[:2]]


@pytest.mark.slow
async def test_a_watch_ends_by_itself_when_its_time_is_over(server: Server) -> None:
    async with a_client(server) as cluster, asyncio.timeout(30):
        page = await cluster.list(VOLUME_ATTACHMENTS, limit=1)
        watch = cluster.watch(VOLUME_ATTACHMENTS, resource_version=page.resource_version, timeout_s=1)
        async with contextlib.aclosing(watch) as events:
            async for event in events:
                assert event.resource_version


@pytest.mark.slow
async def test_a_watch_from_a_forgotten_version_is_gone(server: Server) -> None:
    _, _, group, version, plural = server.forget().split("/")
    kind = Kind(group, version, "", plural, False, dict)
    async with (
        a_client(server) as cluster,
        contextlib.aclosing(cluster.watch(kind, resource_version="1")) as events,
        asyncio.timeout(30),
    ):
        with pytest.raises(errors.Gone):
            await anext(events)


async def test_credentials_that_are_none_are_refused(server: Server) -> None:
    stranger = dataclasses.replace(load(str(server.kubeconfig), {}), user=KubeconfigUser(token="nobody"))
    async with HttpCluster(stranger, clock=LoopClock(), randomness=Random(1), user_agent="conformance/1") as cluster:
        with pytest.raises(errors.Unauthorized):
            await cluster.list(VOLUME_ATTACHMENTS)
