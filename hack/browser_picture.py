"""Writes docs/dev-browser.png: the page of a real `mooring dev --browser`, after claims and pods, faults, and the death
of a node.

make picture
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from mooring.dev.seed_objects import claim, pod
from tests.support.browser import page_of
from tests.support.mooring_dev import create, dev, page_address

PICTURE: Final = Path(__file__).parent.parent / "docs" / "dev-browser.png"
FLAGS: Final = ("--browser", "--node-monitor-grace-period=4s")


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        dev(Path(folder), *FLAGS) as (program, config),
        page_of(page_address(program), Path(folder), height=1600) as page,
    ):
        page.until("return document.querySelectorAll('#rpc option').length > 20", 20, "the calls can be chosen")
        page.run("document.getElementById('rpc').value = 'NodeStageVolume'")
        page.press("fail it", "#faults")
        bodies = (
            claim("books", "hostpath"),
            pod("reader", "books"),
            claim("words", "hostpath"),
            pod("writer", "words"),
        )
        bodies[1]["spec"]["nodeName"], bodies[3]["spec"]["nodeName"] = "n1", "n2"
        asyncio.run(create(config, *bodies))
        page.until(
            "return document.querySelectorAll('#volumes tr[data-stage=Published]').length === 2",
            30,
            "both volumes are published",
        )
        page.press("pause", "#controllers li[data-name=attacher]")
        page.run("document.getElementById('times').value = '0'; document.getElementById('rpc').value = '*'")
        page.press("delay it", "#faults")
        page.press("kill", "#nodes tr:nth-child(2)")
        page.until("return document.querySelector('#nodes tr.bad')?.cells[0].textContent === 'n2'", 30, "n2 is missed")
        PICTURE.write_bytes(page.picture())


if __name__ == "__main__":
    main()
