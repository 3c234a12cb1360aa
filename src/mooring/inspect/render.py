"""A report on orphans as a table for people, or as JSON for programs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from mooring.api.quantity import Quantity, parse_quantity
from mooring.base.text import visible
from mooring.inspect.orphans import Finding, FindingKind, OrphansReport
from mooring.sidecars.provisioner.model.intent import ClaimIntents

_HEADS: Final = ("KIND", "VOLUME", "SIZE", "AGE", "PERSISTENTVOLUME", "CLAIM", "WHY")
_OF_SNAPSHOTS: Final = frozenset({FindingKind.UNSETTLED, FindingKind.ASKED})
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def as_json(report: OrphansReport, removed: Mapping[str, str], wall_s: float) -> str:
    """removed: handles that were to be deleted, with what kept them from it, "" for nothing. wall_s: now."""
    body = {
        "driver": report.driver,
        "volumes": report.volume_count,
        "orphans": [_entry(finding, removed, wall_s) for finding in report.findings],
        "openIntents": [*map(_intent_entry, report.unplaced)],
        "settledIntents": [*map(_intent_entry, report.settled)],
    }
    return json.dumps(body, indent=2) + "\n"


def _intent_entry(intent: ClaimIntents) -> dict[str, str]:
    return {
        "volumeName": intent.volume_name,
        "claim": f"{intent.namespace}/{intent.claim_name}",
        "claimUID": intent.uid,
    }


def _entry(finding: Finding, removed: Mapping[str, str], wall_s: float) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": finding.kind.value, "volumeHandle": finding.handle, "why": finding.why}
    size_bytes = _bytes(finding.size)
    if size_bytes is not None:
        entry["sizeBytes"] = size_bytes
    if finding.created_wall_s is not None:
        entry["ageSeconds"] = int(wall_s - finding.created_wall_s)
    if finding.volume_name:
        entry["persistentVolume"] = finding.volume_name
    if finding.object:
        entry["object"] = finding.object
    if finding.claim:
        entry["claim"] = finding.claim
    if finding.spared:
        entry["spared"] = finding.spared
    if finding.handle in removed:
        entry["deleted"] = not removed[finding.handle]
        if removed[finding.handle]:
            entry["problem"] = removed[finding.handle]
    return entry


def _bytes(size: str) -> int | None:
    """The bytes of a quantity, rounded up. None for what can't be read, and for nothing."""
    try:
        return math.ceil(parse_quantity(size).value)
    except ValueError:
        return None


def as_table(report: OrphansReport, removed: Mapping[str, str], wall_s: float) -> str:
    """removed, wall_s: as for as_json."""
    rows = [_row(finding, removed, wall_s) for finding in report.findings]
    text = aligned([_HEADS, *(tuple(map(visible, row)) for row in rows)]) if rows else ""
    gone = {handle for handle, problem in removed.items() if not problem}
    left = Counter(finding.kind for finding in report.findings if finding.handle not in gone)
    counts = ", ".join(f"{left[kind]} {kind.value}" for kind in FindingKind if kind not in _OF_SNAPSHOTS or left[kind])
    deleted = f"; {len(gone)} deleted" if gone else ""
    open_ = (
        f"; {counted(len(report.unplaced), 'intent')} open, and not known yet for which volume"
        if report.unplaced
        else ""
    )
    intents = "".join(f"  {visible(_intent(intent))}\n" for intent in report.unplaced)
    intents += "".join(f"  {visible(_intent(intent))}: another provisioner has made it\n" for intent in report.settled)
    return (
        f"{text}{visible(report.driver)}: {counted(report.volume_count - len(gone), 'volume')}, "
        f"{counts}{deleted}{open_}\n{intents}"
    )


def _intent(intent: ClaimIntents) -> str:
    """An intent of the journal, in words."""
    selected = f", for node {intent.last.node_name}" if intent.last.node_name else ""
    return (
        f"claim {intent.namespace}/{intent.claim_name} ({intent.uid}), PersistentVolume {intent.volume_name}{selected}"
    )


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def size(text: str) -> str:
    """Bytes as a quantity; a quantity as it is."""
    return str(Quantity(Decimal(text), "binary")) if text.isdecimal() else text


def _row(finding: Finding, removed: Mapping[str, str], wall_s: float) -> tuple[str, ...]:
    why = f"{finding.object}: {finding.why}" if finding.object else finding.why
    if finding.handle in removed:
        why = removed[finding.handle] or "deleted"
    elif finding.spared:
        why = f"{why}; {finding.spared}"
    age = "" if finding.created_wall_s is None else _age(wall_s - finding.created_wall_s)
    return finding.kind.value, finding.handle, size(finding.size), age, finding.volume_name, finding.claim, why


def _age(seconds: float) -> str:
    """An age as kubectl shows it, in one unit."""
    for unit, sign in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= 2 * unit:
            return f"{int(seconds // unit)}{sign}"
    return f"{max(0, int(seconds))}s"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns; the last one as it is."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = (
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n"
