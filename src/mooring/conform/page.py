"""The book as a page of the documentation: `python -m mooring.conform.page > docs/csi-rules.md`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from typing import Final

from mooring.conform.book.rule import Rule
from mooring.conform.book.watcher import BOOK

_CHAPTERS: Final = {
    "CSI10": "Who the driver is, and what it can do",
    "CSI11": "An answer by itself",
    "CSI12": "Requests that must be refused, and some that must not",
    "CSI2": "Volumes made, deleted and grown",
    "CSI3": "Volumes published to nodes",
    "CSI4": "Snapshots and groups",
    "CSI50": "The node",
    "CSI51": "Volumes on the node",
    "CSI52": "How a volume on the node is mounted",
    "CSI6": "Lists",
    "CSI7": "Errors, secrets, and calls that never end",
}

COLUMNS: Final = 120

_HEAD: Final = """# The rules of CSI

CSI's specification says what a driver must do, and Kubernetes expects a little more. Mooring has these demands as a
book of numbered rules. Each says the sentence on which it rests, in our words. A breach of a MUST is a finding. A
breach of a SHOULD is a warning, and so is that of a MUST which real drivers break and work: it is shown, and fails no
run and no test. A number never changes its meaning. [`mooring conform`](conform.md) asks a driver about all of them but
CSI103, which wants a controller and a node in two processes. It sees mounts (CSI511 to CSI516, CSI521, CSI522, CSI525)
and data (CSI217, CSI524) where the driver has its mounts, and a second node (CSI303, CSI502) where it starts the
driver. `mooring dev` watches each call to your driver, and names the rule that a call breaks:
[dev](dev.md#your-own-driver). Each rule says here what it demands, what a cluster does after a breach, and how to mend
it.

[The MUSTs of CSI](csi-musts.md) lists each MUST of the specification with its rules.

This page is made from the book: `python -m mooring.conform.page > docs/csi-rules.md`.
"""


def page() -> str:
    return "\n".join([_HEAD, *_chapters()])


def _chapters() -> Iterator[str]:
    for prefix, title in _CHAPTERS.items():
        yield f"## {title}\n"
        yield from (_entry(rule) for number, rule in sorted(BOOK.items()) if number.startswith(prefix))


def _entry(rule: Rule) -> str:
    title = f"{rule.title[0].upper()}{rule.title[1:]}"
    demand = f"{rule.asks} ([{rule.place}]({rule.source}))"
    items = [f"- Kubernetes: {rule.kubernetes}", f"- Mend: {rule.mend}"]
    if rule.is_warning:
        items.insert(0, f"- A warning: {rule.drivers or 'CSI says no MUST.'}")
    return "\n".join([f"### {rule.number}: {title}", "", _wrapped(demand), "", *map(_wrapped, items), ""])


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    sys.stdout.write(page())
