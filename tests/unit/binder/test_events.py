"""Events on change and now and then, and those that find no room: told later, not forgotten."""

from __future__ import annotations

import asyncio

from mooring.api.core import EVENTS, ObjectReference
from mooring.cluster.binder import options
from mooring.cluster.binder.reasons import EventText
from mooring.cluster.binder.volumes.decide import MISSING_S
from tests.support.binding import BinderWorld, Tenant
from tests.support.builders import a_claim
from tests.support.virtual_loop import in_virtual_time

CLAIM = ObjectReference(api_version="v1", kind="PersistentVolumeClaim", namespace="ns", name="claim", uid="u")
TOLD = EventText("Warning", "ClaimLost", "gone")


@in_virtual_time
async def test_B14_a_volume_that_stays_missing_is_told_after_a_minute() -> None:
    ours = BinderWorld(parts=frozenset({options.BINDER}))
    world = Tenant(ours.users)
    await world.create(a_claim("claim", sc="", volume="missing"))
    async with ours.binding():
        await asyncio.sleep(MISSING_S - 5.0)
        assert () == (await ours.users.list(EVENTS)).items
        await asyncio.sleep(10.0)
        assert ['volume "missing" does not exist'] == [event.message for event in (await ours.users.list(EVENTS)).items]
