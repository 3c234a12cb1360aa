"""Findings as text for a terminal of any width, and as values for JSON and YAML. Nothing here depends on colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mooring.base.text import visible
from mooring.inspect.doctor.finding import Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.printing import WIDTH, wrapped
from mooring.inspect.render import counted

WORDS: Final = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.NOTE: "note"}
_INDENT: Final = " " * 9


def as_text(inventory: Inventory, findings: Sequence[Finding], width: int = WIDTH) -> str:
    """A paragraph for each finding, what could not be seen, and the sum. width: of a line, 40 at least."""
    lines: list[str] = []
    for one in findings:
        lines += wrapped(f"{WORDS[one.severity]:<8} ", one.about, width)
        lines += wrapped(_INDENT, one.wrong, width)
        lines += wrapped(_INDENT, f"so: {one.follows}", width)
        where = one.change.where
        lines += wrapped(_INDENT, f"change {where}:" if where else "type:", width)
        lines += [f"{_INDENT}  {visible(one.change.line)}", ""]
    for unseen in inventory.unseen:
        lines += wrapped("not seen ", f"{unseen.what}: {unseen.why}", width)
    lines += wrapped("", _summary(inventory, findings), width)
    return "\n".join(lines) + "\n"


def _summary(inventory: Inventory, findings: Sequence[Finding]) -> str:
    looked = sum(inventory.count().values())
    if inventory.of_files and not looked:
        return "nothing is judged: there is no object that the doctor knows"
    counts = [(sum(one.severity is severity for one in findings), word) for severity, word in _COUNTED.items()]
    said = ", ".join(counted(count, word) for count, word in counts if count) or "nothing is wrong"
    return f"{said}; {counted(looked, 'object')} looked at"


_COUNTED: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def as_values(inventory: Inventory, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "findings": [
            {
                "check": one.check,
                "severity": one.severity.name.lower(),
                "object": one.about,
                "wrong": one.wrong,
                "follows": one.follows,
                "change": {"where": one.change.where, "line": one.change.line}
                if one.change.where
                else {"command": one.change.line},
            }
            for one in findings
        ],
        "notSeen": [{"what": one.what, "why": one.why} for one in inventory.unseen],
        "lookedAt": dict(sorted(inventory.count().items())),
    }
