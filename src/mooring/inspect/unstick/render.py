"""The verdicts on an object as text for a terminal, as JSON and as YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mooring.base.text import visible
from mooring.inspect.points import rows_of
from mooring.inspect.printing import WIDTH, wrapped
from mooring.inspect.unstick.table import Verdict

Outcomes = Mapping[str, str]
"""What kept a finalizer on that was to go, by its name; "" for nothing."""


def as_text(subject: str, verdicts: Sequence[Verdict], outcomes: Outcomes, width: int = WIDTH) -> str:
    """subject: `volumeattachment va-1`. width: of a line, 40 at least."""
    if not verdicts:
        return f"{visible(subject)}: no finalizer holds it\n"
    lines = [f"{visible(subject)}: {_count(verdicts, outcomes)}"]
    for one in verdicts:
        lines += ["", visible(f"  {one.finalizer}: {_state(one, outcomes)}"), *_details(one, outcomes, width)]
    return "\n".join(lines) + "\n"


def _count(verdicts: Sequence[Verdict], outcomes: Outcomes) -> str:
    gone = sum(outcomes.get(one.finalizer) == "" for one in verdicts)
    may = sum(one.may_go and one.finalizer not in outcomes for one in verdicts)
    parts = [f"{gone} taken off"] if gone else []
    parts += [f"{may} may go"] if may else []
    left = len(verdicts) - gone - may
    parts += [f"{left} must stay"] if left else []
    return f"held by {len(verdicts)} finalizer{'' if len(verdicts) == 1 else 's'}, {', '.join(parts)}"


def _state(one: Verdict, outcomes: Outcomes) -> str:
    if one.finalizer in outcomes:
        return "TAKEN OFF" if not outcomes[one.finalizer] else "STAYS"
    return "may go" if one.may_go else "STAYS"


def _details(one: Verdict, outcomes: Outcomes, width: int) -> Iterator[str]:
    rows = [("set by", one.setter), ("protects", one.protects), *rows_of(one.points)]
    if not one.points:
        rows.append(("against", "nothing proves that it may go"))
    if outcomes.get(one.finalizer):
        rows.append(("problem", outcomes[one.finalizer]))
    for head, text in rows:
        yield from wrapped(f"    {head:<10}", text, width)


def as_values(subject: str, verdicts: Sequence[Verdict], outcomes: Outcomes) -> dict[str, Any]:
    """The verdicts for JSON and YAML; `takenOff` only where removal was tried, `problem` only where it failed."""
    return {"object": subject, "finalizers": [_entry(one, outcomes) for one in verdicts]}


def _entry(one: Verdict, outcomes: Outcomes) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": one.finalizer, "setBy": one.setter, "protects": one.protects, "mayGo": one.may_go}
    entry["proved"] = [proof.text for proof in one.proofs]
    entry["against"] = [{"what": objection.text, "wayOut": objection.way_out} for objection in one.objections]
    if one.finalizer in outcomes:
        entry["takenOff"] = not outcomes[one.finalizer]
        if outcomes[one.finalizer]:
            entry["problem"] = outcomes[one.finalizer]
    return entry
