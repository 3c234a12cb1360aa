"""A timeline as text for a terminal of any width, and as values for JSON and YAML."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mooring.base.clock import rfc3339
from mooring.base.text import visible
from mooring.inspect.printing import WIDTH, ago, wrapped
from mooring.inspect.timeline.story import Gap, Timeline

WHO_WIDTH: Final = 24
ROOM_MIN: Final = 30
"""Columns that what happened needs beside its time, lane and author; in less it stands below them."""


def as_text(line: Timeline, width: int = WIDTH) -> str:
    """The lanes, then the moments, each on a line: offset, lane, who, what. width: of a line, 40 at least."""
    broken = partial(wrapped, width=width, breaks=True)
    lines = [*broken("", f"{line.subject}: {headline(line)}"), ""]
    lane_width = max((len(one.label) for one in line.lanes), default=0)
    for lane in line.lanes:
        lines += broken(f"  {lane.label:<{lane_width}}  ", f"{lane.kind} {lane.name}")
    offset_width = max((len(offset(line, number)) for number in range(len(line.moments))), default=0)
    who_width = min(WHO_WIDTH, max((len(visible(one.who or "-")) for one in line.moments), default=0))
    gaps = {gap.after: gap for gap in line.gaps}
    lines.append("")
    for number, moment in enumerate(line.moments):
        who = visible(moment.who or "-")
        head = f"{offset(line, number):>{offset_width}}  {moment.lane:<{lane_width}}  {who:<{who_width}}  "
        if len(who) <= who_width and len(head) <= width - ROOM_MIN:
            lines += broken(head, moment.what)
        else:
            before = len(head) - max(len(who), who_width)
            below = before + who_width if before + who_width <= width - ROOM_MIN else offset_width + 2
            lines += [*broken(head[: before - 2], who), *broken(" " * below, moment.what)]
        if number in gaps:
            lines += broken(" " * (offset_width + 2), f"({waits(gaps[number])})")
    for one in line.unseen:
        lines += broken("not seen  ", f"{one.what}: {one.why}")
    return "\n".join(lines) + "\n"


def headline(line: Timeline) -> str:
    """When it began, how long it took, and how long nothing has happened."""
    if not line.moments:
        return "nothing tells when anything happened"
    count = f"{len(line.moments)} moment{'' if len(line.moments) == 1 else 's'}"
    return (
        f"{count} in {ago(line.end_s - line.begin_s)}, from {rfc3339(line.begin_s)}; the last "
        f"{ago(line.now_s - line.end_s)} ago"
    )


def offset(line: Timeline, number: int) -> str:
    """The time from the first moment to this one, in whole seconds."""
    return f"+{ago(int(line.moments[number].at_s) - int(line.begin_s))}"


def waits(gap: Gap) -> str:
    """A wait in words: its length, and whose move it was."""
    return f"{ago(gap.seconds)}: {f'waits for {visible(gap.who)}' if gap.who else 'unknown whose move'}"


def as_values(line: Timeline) -> dict[str, Any]:
    """The timeline for JSON and YAML. An empty `who` or `waitsFor` stands for unknown."""
    return {
        "object": line.subject,
        "from": rfc3339(line.begin_s),
        "to": rfc3339(line.end_s),
        "now": rfc3339(line.now_s),
        "lanes": [{"lane": one.label, "kind": one.kind, "name": one.name} for one in line.lanes],
        "moments": [
            {
                "time": rfc3339(one.at_s),
                "offsetSeconds": int(one.at_s) - int(line.begin_s),
                "lane": one.lane,
                "who": one.who,
                "what": one.what,
                "source": one.source.value,
                "isBad": one.is_bad,
            }
            for one in line.moments
        ],
        "gaps": [
            {
                "from": rfc3339(line.moments[gap.after].at_s),
                "to": rfc3339(line.moments[gap.after + 1].at_s),
                "seconds": gap.seconds,
                "waitsFor": gap.who,
            }
            for gap in line.gaps
        ],
        "notSeen": [{"what": one.what, "why": one.why} for one in line.unseen],
    }
