"""Writes of the resizer that are refused."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Kind
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.control.result import Stale
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import Conflict
from mooring.sidecars.resizer.writes import Failed, Writes
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


@pytest.mark.parametrize("drops", [True, False], ids=["a server of before 1.32", "a later one"])
async def test_a_field_that_the_server_drops_is_told_once(drops: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Issue 27, C6: without it a growth that fails can't be taken back."""
    cluster = FakeCluster()
    claims = Informer(cluster, PERSISTENT_VOLUME_CLAIMS, clock=LoopClock(), randomness=Random(1))
    writes = Writes(cluster, claims, Informer(cluster, PERSISTENT_VOLUMES, clock=LoopClock(), randomness=Random(1)))
    for name in ("books", "shelf"):
        cluster.put(PERSISTENT_VOLUME_CLAIMS, name, "default", spec={}, status={})
        known = await cluster.get(PERSISTENT_VOLUME_CLAIMS, name, "default")
        claims.wrote(known)
        if drops:
            cluster.on_write = lambda request, obj: obj["status"].pop("allocatedResources", None)
        await writes.claim(known, {"status": {"allocatedResources": {"storage": "2Gi"}}})
    told = [record for record in caplog.messages if "drops status.allocatedResources" in record]
    assert (1 if drops else 0) == len(told)
