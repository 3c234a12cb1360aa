"""The findings about a node as text for a terminal, and as values for JSON and YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.base.text import visible
from mooring.inspect.points import Point, objections_in, proofs_in, rows_of
from mooring.inspect.printing import wrapped


def as_text(name: str, points: Sequence[Point], done: str, problem: str, width: int) -> str:
    """done: the state that was reached, "" for none. problem: what kept it from that, "" for nothing."""
    state = done or ("REFUSED" if objections_in(points) or problem else "may be done")
    lines = [f"node {visible(name)}: {state}"]
    for head, text in (*rows_of(points), *([("problem", problem)] if problem else [])):
        lines += wrapped(f"  {head:<10}", text, width)
    return "\n".join(lines) + "\n"


def as_values(name: str, points: Sequence[Point], done: str, problem: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        "node": name,
        "done": bool(done),
        "proved": [one.text for one in proofs_in(points)],
        "against": [{"what": one.text, "wayOut": one.way_out} for one in objections_in(points)],
    }
    return {**values, "problem": problem} if problem else values
