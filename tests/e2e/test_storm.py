"""Many claims at once, a driver that cannot be trusted, leaders that are killed: each claim gets its volume, and
nothing is ever left.

500 claims in process. On the servers 100 in the suite, and 500 by `make storm` or with STORM_CLAIMS=500.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.base.randomness import Random
from tests.e2e import storm_places
from tests.e2e.storms import ELECTION, FLAGS, Storm
from tests.support.control_plane import ControlPlane
from tests.support.virtual_loop import run_virtual

pytestmark = [pytest.mark.slow, pytest.mark.long]

CLAIMS = int(os.environ.get("STORM_CLAIMS", "100"))
LIFE_S_MAX = 120 + CLAIMS


async def _blow(storm: Storm) -> None:
    await storm.prepare()
    storm.add_replica()
    storm.add_replica()
    await storm.wish()
    for share in (0.1, 0.4, 0.7):
        await storm.bound(share)
        await storm.kill_leader()
    await storm.bound(1.0)
    await storm.judge_bound()
    storm.judge_made_once()
    assert len(storm.driver.codes) > 8, f"the driver was too kind: {storm.driver.codes}"
    await storm.end()
    await storm.kill_leader()
    await storm.over()


@pytest.mark.parametrize("seed", [None, 5], ids=["in-order", "reordered"])
def test_in_process(seed: int | None) -> None:
    async def main() -> None:
        async with storm_places.in_process(500 if seed is None else 60) as storm:
            await _blow(storm)

    run_virtual(main(), seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_two_provisioners_that_do_not_know_of_each_other_and_users_who_change_their_minds(seed: int) -> None:
    async def main() -> None:
        async with storm_places.in_process(30, [flag for flag in FLAGS if flag != ELECTION]) as storm:
            await storm.prepare()
            storm.add_replica()
            storm.add_replica()
            await storm.wish()
            await storm.change_minds(Random(seed), 30)
            await storm.bound(1.0)
            await storm.judge_bound()
            await storm.end()
            await storm.over()

    run_virtual(main(), seed)


async def test_on_the_embedded_server(tmp_path: Path) -> None:
    async with asyncio.timeout(LIFE_S_MAX), storm_places.embedded(tmp_path, CLAIMS) as (storm, _):
        await _blow(storm)


async def test_the_embedded_server_is_killed_in_the_middle(tmp_path: Path) -> None:
    async with asyncio.timeout(LIFE_S_MAX), storm_places.embedded(tmp_path, 30) as (storm, server):
        await storm.prepare()
        storm.add_replica()
        await storm.wish()
        for share in (0.0, 0.5):
            await storm.bound(share)
            await server.restart()
        await storm.bound(1.0)
        await storm.judge_bound()
        await storm.end()
        await server.restart()
        await storm.over()


async def test_under_the_real_controllers(new_control_plane: Callable[..., ControlPlane]) -> None:
    """They bind and schedule, csi-provisioner provisions."""
    async with asyncio.timeout(LIFE_S_MAX), storm_places.real(new_control_plane(), CLAIMS) as storm:
        await _blow(storm)
