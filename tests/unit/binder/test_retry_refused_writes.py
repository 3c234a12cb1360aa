"""What the API server refuses again and again: tried less and less often, and told where users look."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.cluster.binder import options
from mooring.kube.errors import Conflict, Forbidden
from tests.support.binding import NODE, PVC, BinderWorld, Tenant, binding
from tests.support.builders import a_volume, an_ephemeral_volume
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

TRIES_MAX = 80
"""In a minute. Without back-off they would have no end."""


class Conflicting(ServerFaults):
    """Each PUT of a kind meets a 409, as from a quota that changes all the time."""

    def __init__(self) -> None:
        self.plural, self.count = "", 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "replace" and kind.plural == self.plural:
            self.count += 1
            if self.count > TRIES_MAX:
                await asyncio.Event().wait()
            raise Conflict("the object has been modified", reason="Conflict")


async def _asks(world: Tenant, faults: Conflicting) -> None:
    faults.plural = "persistentvolumeclaims"
    await world.make_class()
    await world.make_claim()


async def _marks(world: Tenant, faults: Conflicting) -> None:
    faults.plural = "persistentvolumes"
    await world.create(a_volume(world("pv"), sc=world("sc")))


async def _binds(world: Tenant, faults: Conflicting) -> None:
    await world.available()
    faults.plural = "persistentvolumes"
    await world.make_claim()


async def _lets_go(world: Tenant, faults: Conflicting) -> None:
    faults.plural = "persistentvolumeclaims"
    await world.make_claim()
    await world.delete(PVC, world("claim"))


async def _selects(world: Tenant, faults: Conflicting) -> None:
    faults.plural = "persistentvolumeclaims"
    await world.make_node()
    await world.make_waiting_pod()


async def _takes_back(world: Tenant, faults: Conflicting) -> None:
    await _selects(world, Conflicting())
    await world.selected(world("claim"), world("n1"))
    faults.plural = "persistentvolumeclaims"
    await world.delete(NODE, world("n1"))


PARTS = {
    options.BINDER: (_asks, _marks, _binds),
    options.CLAIM_PROTECTION: (_lets_go,),
    options.SCHEDULER: (_selects, _takes_back),
}


@in_virtual_time
@each_row(("part", "act"), [(part, act) for part, acts in PARTS.items() for act in acts])
async def test_a_conflict_that_lasts_is_tried_less_and_less_often(part: str, act: Any) -> None:
    faults = Conflicting()
    async with binding(faults, parts=frozenset({part})) as (ours, world):
        await act(world, faults)
        await asyncio.sleep(60)
        assert 3 < faults.count < TRIES_MAX
        faults.plural = ""
        before = len(ours.cluster.requests)
        await asyncio.sleep(120)
        assert [one for one in ours.cluster.requests[before:] if one.verb == "update"], "it goes on once it can"


@in_virtual_time
async def test_B38_a_claim_that_may_not_be_made_is_told_at_its_pod() -> None:
    ours = BinderWorld()
    error = Forbidden('persistentvolumeclaims "x" is forbidden: exceeded quota: q', reason="Forbidden")
    ours.cluster.refuse("create persistentvolumeclaims", times=1, error=error)
    async with ours.binding() as world:
        pod = await world.make_pod(volumes=(an_ephemeral_volume(),))
        name = f"{world('pod')}-scratch"
        text = (
            f'ephemeral volume scratch: create PVC {name}: persistentvolumeclaims "x" is forbidden: exceeded quota: q'
        )
        await world.told(pod, "Warning", "FailedBinding", text)
        await world.shown(PVC, name, lambda _: True, "made in the end")
