"""Writes of the resizer that are refused."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Kind
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.control.result import Stale
from mooring.controllers.resizer.writes import Failed, Writes
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import Conflict
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster

pytestmark = in_virtual_time


async def _refused(known_version: str, **known_as: str) -> None:
    """Writes to a PersistentVolume as it is known at this version, which the server, at version 1, refuses. known_as: its metadata."""
    cluster = FakeCluster()
    cluster.put(PERSISTENT_VOLUMES, "pv", spec={"capacity": {"storage": "1Gi"}})

    def informer(kind: Kind[PersistentVolume]) -> Informer[PersistentVolume]:
        return Informer(cluster, kind, clock=LoopClock(), randomness=Random(1))

    volumes = informer(PERSISTENT_VOLUMES)
    found = await cluster.get(PERSISTENT_VOLUMES, "pv")
    known = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, resource_version=known_version, **known_as))
    volumes.wrote(known)
    cluster.fail("patch", Conflict("the object has been modified", reason="Conflict"))
    writes = Writes(cluster, informer(PERSISTENT_VOLUME_CLAIMS), volumes)  # type: ignore[arg-type]
    await writes.volume(known, {"spec": {"capacity": {"storage": "2Gi"}}})


async def test_what_has_changed_is_judged_anew_at_once() -> None:
    with pytest.raises(Stale):
        await _refused("0")


async def test_another_object_of_the_name_is_judged_anew_at_once() -> None:
    with pytest.raises(Stale):
        await _refused("0", uid="former")


@pytest.mark.parametrize("known_as", [{}, {"uid": "lost"}], ids=["the same object", "another of the name"])
async def test_what_a_server_that_was_set_back_does_not_have_is_tried_again_after_a_while(known_as: dict[str, str]) -> None:
    """Until the cache has listed all anew, each try would be refused: at once, it would ask the driver again and again."""
    with pytest.raises(Failed, match="PersistentVolume pv could not be saved: the API server was set back"):
        await _refused("50", **known_as)
