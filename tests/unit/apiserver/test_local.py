"""The in-process cluster: faults, and runs that repeat. What it shares with HTTP is in
tests/conformance/test_cluster_port.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from mooring.api.core import SERVICE_ACCOUNT_TOKENS
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.cluster import Patch, PatchType, WatchEvent
from mooring.kube.errors import ApiError, Conflict, NotFound, Unreachable
from tests.support.builders import a_va
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time, run_virtual
from tests.unit.apiserver.objects import a_store

pytestmark = in_virtual_time


class Story(ServerFaults):
    """Writes down every call; fails those it is told to."""

    def __init__(self, before: str = "", after: str = "") -> None:
        self.calls: list[str] = []
        self._before, self._after = before, after

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        self.calls.append(f"{verb} {kind.plural} {name}".strip())
        if verb == self._before:
            raise Unreachable("not sent")

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == self._after:
            raise Unreachable("answer lost")


def a_cluster(faults: ServerFaults | None = None, seed: int = 1) -> LocalCluster:
    return LocalCluster(a_store(), clock=LoopClock(1_700_000_000.0), randomness=Random(seed), faults=faults)


async def test_every_call_passes_the_faults() -> None:
    story = Story()
    cluster = a_cluster(story)
    await cluster.create(VOLUME_ATTACHMENTS, a_va("va"))
    await cluster.list(VOLUME_ATTACHMENTS)
    await cluster.get(VOLUME_ATTACHMENTS, "va")
    await cluster.patch(VOLUME_ATTACHMENTS, "va", Patch(PatchType.MERGE, {}))
    whole = await cluster.get(VOLUME_ATTACHMENTS.whole(), "va")
    await cluster.replace(VOLUME_ATTACHMENTS, whole)
    await cluster.delete(VOLUME_ATTACHMENTS, "va")
    async with contextlib.aclosing(cluster.watch(VOLUME_ATTACHMENTS, resource_version="1")) as events:
        await anext(events)
    verbs = ["create", "list", "get", "patch", "get", "replace", "delete", "watch"]
    assert verbs == [call.partition(" ")[0] for call in story.calls]


async def test_a_call_that_fails_before_has_not_happened() -> None:
    cluster = a_cluster(Story(before="create"))
    with pytest.raises(Unreachable):
        await cluster.create(VOLUME_ATTACHMENTS, a_va("va"))
    with pytest.raises(NotFound):
        await cluster.get(VOLUME_ATTACHMENTS, "va")


async def test_a_call_whose_answer_is_lost_has_happened() -> None:
    cluster = a_cluster(Story(after="create"))
    with pytest.raises(Unreachable):
        await cluster.create(VOLUME_ATTACHMENTS, a_va("va"))
    assert await cluster.get(VOLUME_ATTACHMENTS, "va")


async def test_a_slow_delivery_makes_a_stale_watch_that_still_shows_all() -> None:
    class Slow(ServerFaults):
        async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
            await asyncio.sleep(10)

    cluster = a_cluster(Slow())
    async with contextlib.aclosing(cluster.watch(VOLUME_ATTACHMENTS, resource_version="5", timeout_s=600)) as events:
        for name in "abc":
            await cluster.create(VOLUME_ATTACHMENTS, a_va(name))
        found = [(await anext(events)).object for _ in range(3)]
    assert ["a", "b", "c"] == [obj.metadata.name for obj in found if obj]
    assert 30 == asyncio.get_running_loop().time()


async def test_two_clusters_share_a_store_and_not_their_faults() -> None:
    first = a_cluster(Story(before="get"))
    second = LocalCluster(first.store, clock=LoopClock(0.0), randomness=Random(2))
    await first.create(VOLUME_ATTACHMENTS, a_va("va"))
    assert await second.get(VOLUME_ATTACHMENTS, "va")
    with pytest.raises(Unreachable):
        await first.get(VOLUME_ATTACHMENTS, "va")


async def test_what_was_handed_in_is_not_shared() -> None:
    cluster = a_cluster()
    body = a_va("va", labels={"a": "b"})
    made = await cluster.create(VOLUME_ATTACHMENTS.whole(), body)
    made["metadata"]["labels"]["a"] = body["metadata"]["labels"]["a"] = "changed"
    assert {"a": "b"} == (await cluster.get(VOLUME_ATTACHMENTS, "va")).metadata.labels


async def _a_busy_hour() -> list[str]:
    """Writers and a watcher, with what chance decides."""
    cluster = a_cluster()
    story: list[str] = []

    async def write(name: str) -> None:
        for turn in range(5):
            made = await cluster.create(VOLUME_ATTACHMENTS, a_va(f"{name}-{turn}"))
            story.append(f"{made.metadata.name} {made.metadata.uid} {made.metadata.resource_version}")
            await asyncio.sleep(1)
            await cluster.delete(VOLUME_ATTACHMENTS, f"{name}-{turn}")

    async def read() -> None:
        async for event in cluster.watch(VOLUME_ATTACHMENTS, resource_version="", timeout_s=60):
            when = asyncio.get_running_loop().time()
            story.append(f"{event.type.value} {event.resource_version} {when}")

    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(write(name), name=name)
        group.create_task(read(), name="read")
    return story


@each_row("seed", [1, 2])
def test_a_run_repeats_exactly(seed: int) -> None:
    assert run_virtual(_a_busy_hour(), seed) == run_virtual(_a_busy_hour(), seed)


async def test_a_sub_resource_is_asked() -> None:
    """A pod gets its node by a POST to its binding, once."""
    cluster = a_cluster()
    await cluster.create(
        PODS.whole(), {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, "default"
    )
    await cluster.post(
        PODS, "p", "binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}, "default"
    )
    assert "n1" == (await cluster.get(PODS, "p", "default")).spec.node_name
    with pytest.raises(Conflict):
        await cluster.post(PODS, "p", "binding", {"metadata": {"name": "p"}, "target": {"name": "n2"}}, "default")
    with pytest.raises(ApiError):
        await cluster.post(PODS, "p", "nothing", {}, "default")


async def test_a_token_is_refused_with_the_account_s_name() -> None:
    """Nobody makes the default account here; the refusal was that of a resource which the server does not have."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["vault"]}}
    with pytest.raises(NotFound, match='serviceaccounts "default" not found'):
        await a_cluster().create(SERVICE_ACCOUNT_TOKENS, body, "default", of=("default", "token"))
