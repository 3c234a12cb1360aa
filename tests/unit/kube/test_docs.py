"""The controller in docs/library.md does what the page says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from mooring import kube
from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import annotation
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.rules import RESOURCES
from mooring.apiserver.store import ObjectStore
from mooring.base.chance import Chance
from mooring.base.clock import LoopClock
from mooring.kube import merge_patch
from tests.support.objects import a_pv, a_va
from tests.support.virtual_loop import in_virtual_time

PAGE = Path(__file__).parents[3] / "docs" / "library.md"


@in_virtual_time
async def test_the_example_works() -> None:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code[1], str(PAGE), "exec"), names)
    clock, chance = LoopClock(0.0), Chance(1)
    cluster = LocalCluster(ObjectStore(RESOURCES, chance), clock=clock, chance=chance)
    running = asyncio.create_task(names["run"](cluster, clock, chance))

    async def where() -> str:
        await asyncio.sleep(1)
        assert not running.done(), running.exception()
        return annotation(await cluster.get(PERSISTENT_VOLUMES, "pv1"), names["WHERE"])

    await cluster.create(PERSISTENT_VOLUMES.whole(), a_pv())
    for node in ("node2", "node1"):
        await cluster.create(VOLUME_ATTACHMENTS.whole(), a_va(node, node=node))
        attached = merge_patch({"status": {"attached": True}})
        await cluster.patch(VOLUME_ATTACHMENTS, node, attached, subresource="status")
    assert "node1 node2" == await where()
    await cluster.delete(VOLUME_ATTACHMENTS, "node1")
    assert "node2" == await where()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_every_public_name_is_there() -> None:
    missing = [name for name in kube.__all__ if not hasattr(kube, name)]
    assert [] == missing
    assert not hasattr(kube, "nothing_of_that_name")
