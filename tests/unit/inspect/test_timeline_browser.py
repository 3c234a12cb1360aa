"""The page of `mooring timeline` in a real browser: it shows, in light and in dark, and runs nothing."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Final

import pytest

from mooring.inspect.timeline.page import as_page
from mooring.inspect.timeline.story import Timeline, gaps_of
from mooring.inspect.timeline.traces import Lane, Moment, Source
from tests.support.browser import FLAGS
from tests.support.layers import BROWSER, not_tested
from tests.support.rows import each_row

pytestmark = pytest.mark.slow

SIZE: Final = "--window-size=900,600"
DARK, LIGHT = 0, 1
HOSTILE: Final = "<script>document.title = 'ran'</script><img src=x onerror=\"document.title = 'ran'\">"
MOMENTS: Final = (
    Moment(1.0, "pvc", Source.CREATED, "created it", "kubectl"),
    Moment(60.0, "pvc", Source.EVENT, HOSTILE, "csi-provisioner", is_bad=True),
)
PAGE: Final = Timeline(
    "pvc default/data", 100.0, (Lane("pvc", "pvc", "default/data", "u"),), MOMENTS, gaps_of(MOMENTS, 5.0)
).blocked_by("csi-provisioner")


def browse(folder: Path, *flags: str) -> str:
    """What the browser prints about the page."""
    program = shutil.which("chromium") or not_tested(BROWSER, "no chromium on PATH")
    page = folder / "page.html"
    page.write_text(as_page(PAGE))
    command = [program, *FLAGS, SIZE, f"--user-data-dir={folder / 'profile'}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_page_is_what_was_written_and_nothing_in_it_ran(tmp_path: Path) -> None:
    found = browse(tmp_path, "--dump-dom")
    assert "<title>Timeline of pvc default/data</title>" in found
    assert found.count("<tr") == 1 + 3 + 2
    assert "59s: waits for csi-provisioner" in found
    assert "<script" not in found
    assert "<img" not in found


@each_row(("scheme", "ground"), [(LIGHT, (0xFF, 0xFF, 0xFF)), (DARK, (0x14, 0x18, 0x1D))])
def test_its_ground_follows_the_reader_s_choice(scheme: int, ground: tuple[int, int, int], tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    browse(tmp_path, f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}")
    assert ground == first_pixel(picture.read_bytes())


def first_pixel(png: bytes) -> tuple[int, int, int]:
    """The first pixel of a PNG of 8 bits for each colour: no filter changes it, since nothing stands before it."""
    assert 8 == png[24]
    at, data = 8, b""
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        data += png[at + 8 : at + 8 + length] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    red, green, blue = zlib.decompress(data)[1:4]
    return red, green, blue
