"""A server of before 1.32 keeps nothing of what recovery from a failed growth needs."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.call_slots import CallSlots
from mooring.control.object_writer import ObjectWriter
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Informer
from mooring.sidecars.resizer.expansion.decide import Mark
from mooring.sidecars.resizer.expansion.reconcile import Reconciler
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster
from tests.unit.resizer.views import a_view

pytestmark = in_virtual_time


@each_row("drops", [True, False], ids=["a server of before 1.32", "a later one"])
async def test_a_field_that_the_server_drops_is_told_once(drops: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Issue 27, C6: without it a growth that fails can't be taken back."""
    cluster = FakeCluster()
    runtime = Runtime(cluster, LoopClock(), Random(1), Metrics())
    caches: list[Informer[Any]] = [
        Informer(cluster, kind, clock=runtime.clock, randomness=runtime.randomness)
        for kind in (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES)
    ]
    claims = ObjectWriter(cluster, PERSISTENT_VOLUME_CLAIMS, caches[0])
    volumes = ObjectWriter(cluster, PERSISTENT_VOLUMES, caches[1])
    reconciler = Reconciler(runtime, a_view(None, None), CallSlots(print), claims, volumes, mock.Mock(), mock.Mock())
    for name in ("books", "shelf"):
        cluster.put(PERSISTENT_VOLUME_CLAIMS, name, "default", spec={}, status={})
        known = await cluster.get(PERSISTENT_VOLUME_CLAIMS, name, "default")
        caches[0].wrote(known)
        if drops:
            cluster.on_write = lambda request, obj: obj["status"].pop("allocatedResources", None)
        await reconciler._mark(known, Mark("2Gi", anew=True))
    told = [record for record in caplog.messages if "drops status.allocatedResources" in record]
    assert (1 if drops else 0) == len(told)
