"""The pages of the programs are such as the real Prometheus reads, and keep its customs but where upstream's names do
not.
"""

from __future__ import annotations

import asyncio
import subprocess

from tests.support.tools import tool
from tests.support.virtual_loop import run_virtual
from tests.unit.monitoring.world import ROLES, monitored

UPSTREAMS = {
    'attach_detach_controller_attachdetach_controller_forced_detaches counter metrics should have "_total" suffix'
}


def test_prometheus_reads_the_page_of_each_program() -> None:
    async def main() -> dict[str, bytes]:
        async with monitored() as world:
            users = asyncio.create_task(world.traffic())
            await asyncio.sleep(300)
            users.cancel()
            return {name: metrics.render() for name, (_, metrics) in world.scrapes.pods.items()}

    pages, complaints = run_virtual(main()), set()
    assert len(ROLES) == len(pages)
    for name, page in pages.items():
        assert b"\nmooring_build_info{" in page, name
        done = subprocess.run(
            [tool("promtool"), "check", "metrics"], input=page, capture_output=True, timeout=60, check=False
        )
        assert done.returncode in (0, 3), f"{name}: {done.stderr.decode()}"  # 3: it reads the page, and has complaints
        complaints |= set(filter(None, done.stderr.decode().splitlines()))
    assert UPSTREAMS == complaints
