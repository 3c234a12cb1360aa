"""The commands that our pages tell people to type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("README.md")]
)

_SHELL: Final = ("sh", "bash", "")
_COMMAND: Final = re.compile(
    r"(\.venv/bin/\S+|mooring|csi-[a-z]\S+|snapshot-controller|livenessprobe|cluster-driver-registrar|kubectl|make|podman|pip|curl|ls|mkdir|unshare"
    r"|export|GOBIN=\S+ go|/tmp/\S+)( |$)"
)


class Command(NamedTuple):
    """page: its path from the root. line: its number there. text: all its lines, with the document that the shell gives
    it.
    """

    page: str
    line: int
    text: str


def commands_of(page: Path) -> Iterator[Command]:
    """What stands in the page's indented blocks, and in its blocks of a shell, one command at a time."""
    lines = list(_code(page.read_text().splitlines()))
    while lines:
        number, text = lines.pop(0)
        while lines and (text.endswith("\\") or _is_open(text)):
            text += "\n" + lines.pop(0)[1]
        if _COMMAND.match(text):
            yield Command(
                page.relative_to(ROOT).as_posix(), number, text if "<<" in text else re.sub(r"\s+#\s.*", "", text)
            )


def _is_open(text: str) -> bool:
    """A document of the shell's is, until its end."""
    begin = re.search(r"<<'?(\w+)'?", text)
    return begin is not None and not text.endswith(f"\n{begin[1]}")


def _code(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Number and text of each line of code, without its indentation; blocks in other languages are left out."""
    language: str | None = None
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            language = line[3:].strip() if language is None else None
        elif language is None and line.startswith("    "):
            yield number, line[4:]
        elif language in _SHELL:
            yield number, line
