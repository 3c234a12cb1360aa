"""The findings about a node as text for a terminal, and as values for JSON and YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.base.text import visible
from mooring.inspect.points import Point, objections_in, proofs_in, rows_of
from mooring.inspect.printing import wrapped

Rows = Sequence[tuple[str, str]]


def as_text(
    name: str, points: Sequence[Point], done: str, problem: str, width: int, rows: Rows = (), next_line: str = ""
) -> str:
    """done: the state that was reached, "" for none. problem: what kept it from that, "" for nothing. rows: what else
    there is to say.

    A command to type next stays whole.
    """
    state = done or ("REFUSED" if objections_in(points) or problem else "may be done")
    lines = [f"node {visible(name)}: {state}"]
    for head, text in (*rows, *rows_of(points), *([("problem", problem)] if problem else [])):
        lines += wrapped(f"  {head:<10}", text, width)
    if next_line:
        lines.append(f"  {'next':<10}{visible(next_line)}")
    return "\n".join(lines) + "\n"


def as_values(
    name: str,
    points: Sequence[Point],
    done: str,
    problem: str,
    record: Mapping[str, Any] | None = None,
    next_line: str = "",
) -> dict[str, Any]:
    """record: of who has fenced a node that is fenced."""
    values: dict[str, Any] = {
        "node": name,
        "done": bool(done),
        "proved": [one.text for one in proofs_in(points)],
        "against": [{"what": one.text, "wayOut": one.way_out} for one in objections_in(points)],
    }
    more = {"problem": problem, "record": dict(record or {}), "next": next_line}
    return {**values, **{key: value for key, value in more.items() if value}}
