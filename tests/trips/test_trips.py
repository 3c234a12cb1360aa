"""No trip crosses more files than its budget."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.virtual_loop import in_virtual_time
from tests.trips.tracer import Tracer
from tests.trips.trips import TRIPS

OVER: Final[tuple[str, ...]] = ()
"""Trips that still cross more files than their budgets. A trip that keeps its budget has to leave this list, or its test fails."""


def _trips() -> list[Any]:
    over = pytest.mark.xfail(strict=True, raises=AssertionError, reason="crosses more files than its budget")
    return [pytest.param(name, marks=over if name in OVER else ()) for name in TRIPS]


@pytest.mark.parametrize("name", _trips())
@in_virtual_time
async def test_a_trip_keeps_to_its_budget(name: str) -> None:
    trip, tracer = TRIPS[name], Tracer()
    await trip.follow(tracer)
    assert tracer.files, "nothing ran"
    assert "" == trip.excess(tracer.files)
