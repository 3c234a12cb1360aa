"""B1: the pods of a plane that keeps nothing give their volumes back as long as that gets on, and no longer."""

from __future__ import annotations

import asyncio
import io

import pytest

from mooring.api.pods import PODS
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base import ending as endings
from mooring.base.clock import LoopClock
from mooring.base.ending import Ending
from mooring.base.randomness import Random
from mooring.dev.run import end_pods
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from mooring.kube.cluster import Cluster
from mooring.kube.patch import merge_patch

FINALIZER = "example.com/held"


async def a_cluster(*pods: str, held: bool) -> Cluster:
    """With these pods on a node. held: they stay until somebody lets them go."""
    clock, randomness = LoopClock(), Random(1)
    cluster = LocalCluster(new_store(randomness, clock.wall_s()), clock=clock, randomness=randomness)
    for name in pods:
        meta = {"name": name, "namespace": "default", "finalizers": [FINALIZER] if held else []}
        spec = {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "none"}]}
        await cluster.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, "default")
    return cluster


async def ended(cluster: Cluster, ending: Ending) -> str:
    """What is told."""
    shown = io.StringIO()
    story = Story(PlainScreen(shown), LoopClock())
    async with asyncio.timeout(60):
        await end_pods(None, cluster, cluster, story, LoopClock(), ending)
    return shown.getvalue()


@pytest.fixture
def ending() -> Ending:
    asked = Ending()
    asked.ask()
    return asked


async def test_pods_that_end_are_waited_for(ending: Ending) -> None:
    cluster = await a_cluster("one", "two", held=False)
    assert "" == await ended(cluster, ending)
    assert () == tuple((await cluster.list(PODS)).items)


async def test_pods_of_which_nothing_comes_are_left_and_that_is_told(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "ENDING_S_MAX", 10_000.0)
    cluster = await a_cluster("one", held=True)
    told = "nothing comes of the end of the pods: volumes that they still have are left to the driver"
    assert told in await ended(cluster, ending)


async def test_as_long_as_one_after_the_other_ends_they_are_waited_for(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has the time of one, however many there are."""
    monkeypatch.setattr(endings, "STILL_S", 60.0)
    steps: asyncio.Queue[int] = asyncio.Queue()
    cluster = await a_cluster("one", "two", "three", held=True)
    goes_on = ending.goes_on

    def count() -> None:
        steps.put_nowait(1)
        goes_on()

    monkeypatch.setattr(ending, "goes_on", count)

    async def free() -> None:
        for name in ("one", "two", "three"):
            await steps.get()
            await cluster.patch(PODS, name, merge_patch({"metadata": {"finalizers": None}}), "default")

    async with asyncio.TaskGroup() as group:
        group.create_task(free(), name="free")
        assert "" == await ended(cluster, ending)
    assert 1 <= steps.qsize(), "the last of them, too"
