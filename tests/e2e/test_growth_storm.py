"""Many growths and snapshots at once, an array that cannot be trusted, leaders that are killed: each ends well, or says
why not.

200 of each in process. On the servers 20 in the suite, and 200 by `make storm` or with STORM_GROWTHS=200.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import growth_storm_places
from tests.e2e.growth_storms import GrowthStorm
from tests.support.control_plane import ControlPlane
from tests.support.virtual_loop import run_virtual

pytestmark = [pytest.mark.slow, pytest.mark.long]

GROWTHS = int(os.environ.get("STORM_GROWTHS", "20"))
LIFE_S_MAX = 180 + 2 * GROWTHS


async def _blow(storm: GrowthStorm) -> None:
    storm.add_replicas()
    await storm.prepare()
    await storm.wish()
    for share in (0.1, 0.4, 0.7):
        await storm.done(share)
        await storm.kill_leaders()
    await storm.done(1.0)
    await storm.judge()
    assert len(storm.driver.codes) > 8, f"the array was too kind: {storm.driver.codes}"
    await storm.end()
    await storm.kill_leaders()
    await storm.over()


@pytest.mark.parametrize("seed", [None, 5], ids=["in-order", "reordered"])
def test_in_process(seed: int | None) -> None:
    async def main() -> None:
        async with growth_storm_places.in_process(200 if seed is None else 40) as storm:
            await _blow(storm)

    run_virtual(main(), seed)


async def test_on_the_embedded_server(tmp_path: Path) -> None:
    async with asyncio.timeout(LIFE_S_MAX), growth_storm_places.embedded(tmp_path, GROWTHS) as storm:
        await _blow(storm)


async def test_under_the_real_controllers(new_control_plane: Callable[..., ControlPlane]) -> None:
    """They bind, and let only those claims grow whose class allows it."""
    async with asyncio.timeout(LIFE_S_MAX), growth_storm_places.real(new_control_plane(), GROWTHS) as storm:
        await _blow(storm)
