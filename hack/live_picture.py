"""Writes docs/live-view.svg, docs/why.svg and docs/timeline.svg: the terminal of a real `mooring dev`, after somebody
has applied claims and pods; what `mooring why` says there of a pod that can't start, and the lanes of its timeline.

make picture
"""

from __future__ import annotations

import asyncio
import io
import itertools
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.text import Text

from mooring.dev.seed_objects import claim, pod
from tests.support.builders import Json
from tests.support.mooring_dev import MOORING, Screen, create, turned

DOCS: Final = Path(__file__).parent.parent / "docs"
COLUMNS, LINES = 110, 34
WHY_COLUMNS: Final = 100
HOST: Final = "kubernetes.io/hostname"
_COLOURS: Final = {"brown": "yellow", "brightbrown": "bright_yellow"}
"""What the emulator calls otherwise."""
_FORM: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; \
white-space: pre; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">\
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own form, without a font from elsewhere."""


async def main() -> None:
    screen = Screen(*MOORING, "dev", "--zones=2", "--node-monitor-grace-period=4s", columns=COLUMNS, lines=LINES)
    try:
        assert screen.shows(r"^── 3 nodes"), screen.shown
        (config,) = re.findall(r"^export KUBECONFIG=(\S+)", "\n".join(screen.lines), re.MULTILINE)
        await create(Path(config), claim("books", "hostpath-wait"), a_pod("reader", "books", nodeSelector={HOST: "n1"}))
        assert screen.shows(r"^books +.*Published"), screen.shown
        await create(
            Path(config), claim("logs", "hostpath-wait"), a_pod("collector", "logs", nodeSelector={HOST: "n2"})
        )
        assert screen.shows(r"^logs +.*Published"), screen.shown
        await create(Path(config), a_pod("thief", "books", nodeName="n3"), claim("later", "hostpath-wait"))
        await create(Path(config), claim("lost", "no-such-class"))
        assert screen.shows(r"^lost +.*Pending +3s"), screen.shown
        assert 0 == turned("kill-node", "n2", config=Path(config))[0]
        assert screen.shows(r"^n2 +Unknown +[2-9]s"), screen.shown
        (DOCS / "live-view.svg").write_text(svg(screen))
        (DOCS / "why.svg").write_text(why_svg(Path(config), "pod/thief"))
        (DOCS / "timeline.svg").write_text(timeline_svg(Path(config), "pod/thief"))
    finally:
        screen.process.send_signal(signal.SIGINT)
        screen.until(lambda: screen.process.poll() is not None)
        screen.close()


def a_pod(name: str, claim_name: str, **spec: object) -> Json:
    body = pod(name, claim_name)
    return {**body, "spec": {**body["spec"], **spec}}


def svg(screen: Screen) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for number in range(LINES):
        line = screen.screen.buffer[number]
        console.print(Text.assemble(*runs(line[column] for column in range(COLUMNS))), no_wrap=True, crop=True)
    return console.export_svg(title="mooring dev", code_format=_FORM, unique_id="live")


def why_svg(config: Path, object_: str) -> str:
    """What was typed, and the answer; the line that blocks is bold."""
    command = [*MOORING, "why", f"--kubeconfig={config}", object_]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.splitlines()
    console = Console(record=True, width=WHY_COLUMNS, file=io.StringIO())
    for line in (f"$ mooring why {object_}", "", *said):
        console.print(Text(line, Style(bold=line.startswith(("$", "  FAILED")))), no_wrap=True, crop=True)
    return console.export_svg(title="mooring why", code_format=_FORM, unique_id="why")


def timeline_svg(config: Path, object_: str) -> str:
    """The lanes of the page, with its style, on a ground of their own."""
    command = [*MOORING, "timeline", f"--kubeconfig={config}", "--gap=1s", "--output=html", object_]
    page = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    (style,), (lanes,) = (
        re.findall(r"<style>(.*?)</style>", page, re.DOTALL),
        re.findall(r"<svg (.*?</svg>)", page, re.DOTALL),
    )
    head, _, rest = lanes.partition(">")
    ground = '<rect width="100%" height="100%" fill="var(--ground)"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {head}>\n<style>{style}</style>\n{ground}{rest}\n'


def runs(line: Iterable[Char]) -> Iterator[tuple[str, Style]]:
    """Text of one style. Blanks before it are apart: some programs drop them where an element begins with them."""
    for given, chars in itertools.groupby(line, style):
        text = "".join(char.data for char in chars)
        rest = text.lstrip()
        yield text[: len(text) - len(rest)], given
        yield rest.rstrip(), given
        yield " " * (len(rest) - len(rest.rstrip())), given


def style(char: Char) -> Style:
    colour = _COLOURS.get(char.fg, char.fg.replace("bright", "bright_"))
    return Style(color=colour if colour != "default" else None, bold=char.bold)


if __name__ == "__main__":
    asyncio.run(main())
