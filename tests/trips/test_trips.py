"""No trip crosses more files than its budget."""

from __future__ import annotations

import pytest

from tests.support.virtual_loop import in_virtual_time
from tests.trips.tracer import Tracer
from tests.trips.trips import TRIPS


@pytest.mark.parametrize("name", TRIPS)
@in_virtual_time
async def test_a_trip_keeps_to_its_budget(name: str) -> None:
    trip, tracer = TRIPS[name], Tracer()
    await trip.follow(tracer)
    assert tracer.files, "nothing ran"
    assert "" == trip.excess(tracer.files)
