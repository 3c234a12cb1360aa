"""The end of the pods of a plane that keeps nothing, so that nothing of theirs (a loop device, say) is left."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.base.clock import Clock
from mooring.base.ending import Ending
from mooring.base.errors import ConfigError
from mooring.dev.nodes import Nodes
from mooring.dev.story import Story
from mooring.kube.cluster import Cluster
from mooring.kube.errors import NotFound

_LOOK_S: Final = 0.02


async def end_pods(nodes: Nodes | None, store: Cluster, cluster: Cluster, story: Story, clock: Clock, ending: Ending) -> None:
    """Pods give their volumes back, as long as that gets on. Nodes without power come back for it. store: asked often. cluster: told."""
    try:
        async with asyncio.timeout(ending.left_s):
            if nodes is not None:
                await nodes.revive_all()
            for pod in (await cluster.list(PODS)).items:
                with contextlib.suppress(NotFound):
                    await cluster.delete(PODS, pod.metadata.name, pod.metadata.namespace)
        await _until_nothing_is_held(nodes, store, clock, ending)
    except ConfigError as error:
        story.happened("warning", f"{error}; the rest on that node is left to the driver")
    except TimeoutError:
        story.happened("warning", "pods still have their volumes, and nothing comes of their end: they are left to the driver")


async def _until_nothing_is_held(nodes: Nodes | None, store: Cluster, clock: Clock, ending: Ending) -> None:
    """Raises TimeoutError when nothing comes of it any more."""
    before = None
    while held := await _held(nodes, store):
        if held != before:
            ending.goes_on()
            before = held
        if not ending.left_s:
            raise TimeoutError
        await clock.sleep(_LOOK_S)
    ending.goes_on()


async def _held(nodes: Nodes | None, store: Cluster) -> frozenset[str]:
    """Pods on nodes, and the volumes that nodes with power have in use."""
    on = set(nodes.on if nodes is not None else ())
    pods = [f"pod {pod.metadata.namespace}/{pod.metadata.name}" for pod in (await store.list(PODS)).items if pod.spec.node_name]
    found = [node for node in (await store.list(NODES)).items if node.metadata.name in on]
    return frozenset([*pods, *(f"{node.metadata.name} {volume}" for node in found for volume in node.status.volumes_in_use or ())])
