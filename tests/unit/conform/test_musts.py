"""docs/csi-musts.md: each MUST of CSI's declarations has its rules there, or the reason for none; and each rule of the
book is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mooring.conform.book.watcher import BOOK
from mooring.csi.proto import csi_pb2 as csi
from tests.support.layers import SPECIFICATION, not_tested

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "csi-musts.md").read_text()
ORIGINAL = ROOT.parent / "shared" / "proto" / "csi.proto"
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")]


def places(text: str) -> Iterator[str]:
    """`Volume.volume_id` for each declaration whose comment says MUST or SHALL."""
    owners: list[str] = []
    comment = ""
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("//"):
            comment += f" {line[2:]}"
            continue
        if line and re.search(r"\b(MUST|SHALL)\b", comment):
            name = re.split(r"\s*[={]", line)[0].split()[-1]
            yield ".".join((*(owner for owner in owners if owner != "extend"), name))
        if line:
            comment = ""
        if line.endswith("{"):
            owners.append(
                line.split()[1].rstrip("{") if line.split()[0] in ("message", "enum", "service") else line.split()[0]
            )
        if line.startswith("}") or (line.endswith("}") and "{" not in line):
            owners.pop()


def test_each_must_of_the_declarations_has_a_row() -> None:
    if not ORIGINAL.is_file():
        not_tested(SPECIFICATION, f"no {ORIGINAL.relative_to(ROOT.parent)}: its MUSTs were not counted")
    listed = [row[0].strip("`") for row in ROWS]
    assert list(dict.fromkeys(place.replace("oneof.", "") for place in places(ORIGINAL.read_text()))) == listed


def test_each_row_names_something_of_csi() -> None:
    for place, *_ in ROWS:
        names = place.strip("`").split(".")
        assert names[0] == "csi_secret" or names[0] in csi.DESCRIPTOR.message_types_by_name, place


def test_each_row_has_its_rules_or_a_reason() -> None:
    assert [row[0] for row in ROWS if len(row) != 3 or not row[2]] == []
    assert set(re.findall(r"CSI\d{3}", PAGE)) <= BOOK.keys()


def test_each_rule_is_named() -> None:
    named = set(re.findall(r"CSI\d{3}", PAGE))
    assert {"CSI102"} == BOOK.keys() - named, "vendor_version is REQUIRED, and has a rule of its own"
