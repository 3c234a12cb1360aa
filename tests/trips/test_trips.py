"""Every trip can be followed, and is counted."""

from __future__ import annotations

from tests.support.virtual_loop import in_virtual_time
from tests.trips.tracer import Tracer
from tests.trips.trips import TRIPS


@in_virtual_time
async def test_every_trip_is_followed_to_its_end() -> None:
    for name, follow in TRIPS.items():
        tracer = Tracer()
        await follow(tracer)
        assert "control/controller.py" in tracer.files, name
        assert tracer.calls > tracer.crossings > len(tracer.files), name
