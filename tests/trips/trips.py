"""The trips. Each starts its program, asks for one thing, and yields while that is on its way."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.mounts import targets
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from tests.support.attaching import AttacherWorld
from tests.support.builders import a_va
from tests.support.fake_mounts import FakeMounts
from tests.support.node_driver import PUBLISH
from tests.support.provisioning import DELETE, PVS, ProvisioningWorld
from tests.support.resizing import ResizerWorld
from tests.support.snapshotting import VS, SnapshotWorld
from tests.trips.tracer import Tracer
from tests.unit.node.volume_world import VolumesWorld

STANDS_BY_S: Final = 5.0
"""Until a program that was started has looked at everything."""
RESTS_S: Final = 2.0
"""Until what has come to its end is written and told."""


async def _attach(tracer: Tracer) -> None:
    world = await AttacherWorld().base()
    async with world.attaching():
        await world.settle(STANDS_BY_S)
        with tracer.following():
            await world.create(a_va())
            await world.attached()
            await world.settle(RESTS_S)


async def _detach(tracer: Tracer) -> None:
    world = await AttacherWorld().base()
    async with world.attaching(a_va()):
        await world.attached()
        await world.settle(STANDS_BY_S)
        with tracer.following():
            await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
            await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
            await world.settle(RESTS_S)


def _with_journal() -> ProvisioningWorld:
    world = ProvisioningWorld()
    world.intents = Journal(world.cluster, JournalLocation("default", "csi.test"), "trip", world.clock)
    return world


async def _claim(tracer: Tracer) -> None:
    world = _with_journal()
    await world.make_class()
    async with world.provisioning():
        await world.settle(STANDS_BY_S)
        with tracer.following():
            await world.make_claim()
            await world.provisioned()
            await world.settle(RESTS_S)


async def _deletion(tracer: Tracer) -> None:
    world = await _with_journal().base()
    async with world.provisioning():
        name = (await world.provisioned())["metadata"]["name"]
        await world.delete_claim()
        await world.settle(STANDS_BY_S)
        with tracer.following():
            await world.patch(PVS, name, {"status": {"phase": "Released"}}, subresource="status")
            await world.calls(1, DELETE)
            await world.settle(RESTS_S)


async def _growth(tracer: Tracer) -> None:
    world = await ResizerWorld().volume()
    async with world.resizing():
        await world.settle(STANDS_BY_S)
        with tracer.following():
            await world.ask(2)
            await world.called()
            await world.settle(RESTS_S)


async def _snapshot(tracer: Tracer) -> None:
    world = await SnapshotWorld().base()
    async with world.both():
        await world.settle(STANDS_BY_S)
        with tracer.following():
            await world.snap()
            await world.ready()
            await world.settle(RESTS_S)
    assert await world.find(VS, "snap") is not None


async def _mount(tracer: Tracer) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(targets, "MOUNTINFO", Path(folder) / "mountinfo"):
        world = VolumesWorld(Path(folder), FakeMounts(Path(folder) / "mountinfo"))
        async with world.agent():
            volume = await world.volume()
            await world.settle(STANDS_BY_S)
            with tracer.following():
                await world.running_pod(volume)
                await world.settle(RESTS_S)
        assert world.request(PUBLISH)


TRIPS: Final[Mapping[str, Callable[[Tracer], Coroutine[Any, Any, None]]]] = {
    "attach": _attach,
    "detach": _detach,
    "claim": _claim,
    "deletion": _deletion,
    "growth": _growth,
    "snapshot": _snapshot,
    "mount": _mount,
}
"""A claim becomes a volume, a volume is deleted, grows, is cut into a snapshot by both programs, and is mounted for
a pod.
"""
