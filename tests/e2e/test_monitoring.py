"""The metrics of a process, over the network: who leads, what is watched, and whether the driver is there."""

from __future__ import annotations

import asyncio
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.processes import embedded_server, on_server
from tests.support.programs import free_ports
from tests.support.tools import tool

pytestmark = pytest.mark.slow


def _page(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return ""


def _complaints(page: str) -> str:
    """Of the real promtool about a page."""
    done = subprocess.run(
        [tool("promtool"), "check", "metrics"], input=page, capture_output=True, text=True, timeout=60, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


async def _shown(port: int, *series: str) -> str:
    """The page, once it has these lines."""
    while True:
        page = await asyncio.to_thread(_page, port)
        if set(series) <= set(page.splitlines()):
            return page
        await asyncio.sleep(0.1)


async def test_a_driver_that_goes_and_comes_shows_and_the_real_promtool_reads_the_page(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with asyncio.timeout(60), embedded_server(tmp_path) as config, on_server(config) as target:
        connected = f'mooring_driver_connected{{driver_name="{target.driver.name}"}}'
        lease = f"default/external-attacher-leader-{target.driver.name.replace('.', '-')}"
        flags = ("--leader-election", "--leader-election-namespace=default", f"--http-endpoint=127.0.0.1:{port}")
        async with target.attaching(*flags):
            va = await target.want(await target.volume(), await target.node())
            await target.attached(va)
            watch = 'mooring_watch_healthy{resource="volumeattachments.storage.k8s.io"} 1.0'
            page = await _shown(port, f"{connected} 1.0", f'mooring_leader{{lease="{lease}"}} 1.0', watch)
            await target.stop_driver()
            await _shown(port, f"{connected} 0.0")
            await target.start_driver()
            await _shown(port, f"{connected} 1.0")
            await target.detached(va)
            assert "" == await asyncio.to_thread(_complaints, page)
