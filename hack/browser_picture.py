"""Writes docs/dev-browser.png: the page of a real `mooring dev --browser`, after claims and pods, and the death of a node.

make picture
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Final

from mooring.dev.seed_objects import claim, pod
from tests.support.browser import page_of
from tests.support.mooring_dev import create, dev

PICTURE: Final = Path(__file__).parent.parent / "docs" / "dev-browser.png"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, dev(Path(folder), "--browser", "--node-monitor-grace-period=4s") as (program, config):
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/\S+/", program.output())
        with page_of(url, Path(folder)) as page:
            bodies = (claim("books", "hostpath"), pod("reader", "books"), claim("words", "hostpath"), pod("writer", "words"))
            bodies[1]["spec"]["nodeName"], bodies[3]["spec"]["nodeName"] = "n1", "n2"
            asyncio.run(create(config, *bodies))
            page.until(
                "return document.querySelectorAll('#volumes tr[data-stage=Published]').length === 2", 30, "both volumes are published"
            )
            page.press("kill", "#nodes tr:nth-child(2)")
            page.until("return document.querySelector('#nodes tr.bad')?.cells[0].textContent === 'n2'", 30, "n2 is missed")
            PICTURE.write_bytes(page.picture())


if __name__ == "__main__":
    main()
