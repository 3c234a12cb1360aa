"""A controller that was killed is gone, with its caches."""

from __future__ import annotations

import gc
import weakref

import pytest

from mooring.base import heap
from mooring.testing.sync import Cluster


@pytest.mark.long
def test_nothing_is_left_of_a_controller_that_was_killed(mooring_cluster: Cluster) -> None:
    controllers = mooring_cluster.aio.plane.controllers
    for name in mooring_cluster.controllers:
        first = weakref.ref(controllers._controllers[name])
        heap.settle()  # as after a long list
        mooring_cluster.restart(name)
        mooring_cluster.passes(minutes=1)
        gc.collect()
        assert first() is None, name


def test_a_controller_that_was_started_again_hears_of_the_drivers_return(mooring_cluster: Cluster) -> None:
    mooring_cluster.restart("attacher")
    told: list[str] = []
    attacher = mooring_cluster.aio.plane.controllers._controllers["attacher"]
    attacher.driver_returned = lambda: told.append("attacher")  # type: ignore[attr-defined]
    mooring_cluster.aio.plane.controllers._driver_returned()
    assert told == ["attacher"]
