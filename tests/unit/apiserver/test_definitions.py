"""The end of a definition: its objects go in portions, a restart in the midst loses none of them, and the last one
takes it along.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from mooring.api.meta import Key
from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.custom.definition_kind import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.disk.state import lasting
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from tests.support.customkinds import GROUP, a_definition, a_version, an_object, spec_of
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.apiserver.objects import NOW, a_store, create

COUNT = 200
NAME = Key("", f"things.{GROUP}")


def _filled(store: ObjectStore, size: int = 10) -> Resource:
    """With a kind and its objects, whose deletion has begun."""
    create(store, CUSTOM_RESOURCE_DEFINITIONS, a_definition("things", a_version(spec_of(text={"type": "string"}))))
    things = store.resource(GROUP, "v1", "things")
    assert things is not None
    for number in range(COUNT):
        create(store, things, an_object("things", f"t{number:03}", spec={"text": "x" * size}))
    store.delete(CUSTOM_RESOURCE_DEFINITIONS, NAME, NOW)
    return things


async def _until_gone(store: ObjectStore) -> list[int]:
    """How many objects were left, turn by turn."""
    housekeeping, left = Housekeeping(store, clock=LoopClock()), []
    housekeeping.start()
    while store.table(CUSTOM_RESOURCE_DEFINITIONS).get(NAME) is not None:
        things = store.resource(GROUP, "v1", "things")
        assert things is not None, "it is served while there are objects"
        left.append(len(store.table(things)))
        assert len(left) < 2 * COUNT, "it finds no end"
        await asyncio.sleep(0)
    housekeeping.close()
    return left


@each_row(("size", "portion"), [(10, 32), (50_000, 3)])
async def test_its_objects_go_in_portions_and_it_goes_with_the_last(size: int, portion: int) -> None:
    store = a_store()
    _filled(store, size)
    left = await _until_gone(store)
    steps = {before - after for before, after in itertools.pairwise(left)}
    assert steps <= {0, portion, (COUNT - 1) % portion + 1}
    assert store.resource(GROUP, "v1", "things") is None


async def test_a_restart_in_the_midst_goes_on(tmp_path: Path) -> None:
    async with lasting(tmp_path, clock=LoopClock(), randomness=Random()) as (store, _):
        assert 0 < len(store.table(_filled(store))) < COUNT
    async with lasting(tmp_path, clock=LoopClock(), randomness=Random()) as (store, _):
        assert len(await _until_gone(store)) > 1


@in_virtual_time
async def test_one_that_is_held_says_so_at_the_end() -> None:
    store = a_store()
    create(store, CUSTOM_RESOURCE_DEFINITIONS, a_definition("things", a_version(spec_of(text={"type": "string"}))))
    things = store.resource(GROUP, "v1", "things")
    assert things is not None
    for number in range(COUNT):
        create(
            store,
            things,
            {**an_object("things", f"t{number:03}"), "metadata": {"name": f"t{number:03}", "finalizers": ["a.b/c"]}},
        )
    store.delete(CUSTOM_RESOURCE_DEFINITIONS, NAME, NOW)
    housekeeping = Housekeeping(store, clock=LoopClock())
    housekeeping.start()
    await asyncio.sleep(0.1)
    housekeeping.close()
    assert all(stored.whole()["metadata"]["deletionTimestamp"] for stored in store.table(things).items())
    conditions = store.get(CUSTOM_RESOURCE_DEFINITIONS, NAME).whole()["status"]["conditions"]
    assert "InstanceDeletionInProgress" in [one["reason"] for one in conditions if one["type"] == "Terminating"]
