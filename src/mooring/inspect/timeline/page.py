"""A timeline as one self-contained page: lanes on an axis of time, then all moments as a table. No script, nothing from
a network.

The distance between two moments grows with the logarithm of the time between them, so that a second and a day fit on
one page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from typing import Final

from mooring.base.clock import rfc3339
from mooring.base.text import visible
from mooring.inspect.timeline.render import headline, offset, waits
from mooring.inspect.timeline.story import Timeline

LEFT, TOP, ROW, STEP, LETTER = 110, 46, 34, 16, 7.2
"""Pixels: the names of the lanes, the names of the waits, a lane, the least distance of moments, a letter."""
TICK_EVERY: Final = 64.0

_STYLE: Final = """
:root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --faint: #59636e; --line: #c4cbd3; \
--wait: #fdeccb; --edge: #8a5a00;
  --dot: #0a58b0; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181d; --text: #e6e9ed; --faint: #a2adb9; \
--line: #3d4650; --wait: #46381a;
  --edge: #f0c878; --dot: #74b0f4; --bad: #ff8a80; } }
body { background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; \
margin: 1.5rem auto; padding: 0 1rem;
  max-width: 76rem; }
h1 { font-size: 1.35rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p { color: var(--faint); margin: .2rem 0 1rem; }
.lanes { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
svg { display: block; } svg text { font: 12px ui-monospace, monospace; fill: var(--text); }
svg .tick, svg .head { fill: var(--faint); } svg .head { font-weight: 600; } svg .wait { fill: var(--wait); }
svg .said { fill: var(--edge); } svg line { stroke: var(--line); stroke-width: 2; } \
svg .at { stroke-width: 1; stroke-dasharray: 2 3; }
svg .dot { fill: var(--dot); } svg .bad { fill: var(--bad); }
table { border-collapse: collapse; width: 100%; } th { text-align: left; color: var(--faint); font-weight: 600; }
thead th { white-space: nowrap; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); \
vertical-align: top; overflow-wrap: break-word; }
td:first-child, td:nth-child(2), td:nth-child(3) { white-space: nowrap; overflow-wrap: normal; }
.gap td { background: var(--wait); color: var(--edge); padding-left: .7rem; } .bad td:last-child { color: var(--bad); }
"""


def as_page(line: Timeline) -> str:
    """All that comes from the cluster is escaped."""
    subject = _safe(line.subject)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Timeline of {subject}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>Timeline of {subject}</h1>\n<p>{_safe(headline(line))}</p>",
            *_picture(line),
            *_moments(line),
            *_objects(line),
            *_unseen(line),
            "</body>\n</html>\n",
        ]
    )


def _safe(text: str) -> str:
    return html.escape(visible(text))


# -- the picture


def _picture(line: Timeline) -> Iterator[str]:
    places = places_of(line)
    bottom = TOP + ROW * len(line.lanes)
    last = LETTER * len(offset(line, len(places) - 1)) if places else 0.0
    width = math.ceil((places[-1] if places else LEFT) + max(60.0, last))
    yield '<div class="lanes" tabindex="0" role="group" aria-label="The lanes, to be scrolled sideways">'
    yield f'<svg width="{width}" height="{bottom + 30}" role="img" aria-labelledby="what">'
    yield '<title id="what">One lane for each object; the table below has the same moments as text</title>'
    yield from _waits(line, places, bottom)
    yield from _ticks(line, places, bottom)
    for number, lane in enumerate(line.lanes):
        y = TOP + ROW * number + ROW // 2
        own = [place for place, moment in zip(places, line.moments, strict=True) if moment.lane == lane.label]
        yield (
            f'<g><title>{_safe(f"{lane.kind} {lane.name}")}</title><text class="head" x="10" '
            f'y="{y + 4}">{_safe(lane.label)}</text></g>'
        )
        yield f'<line x1="{own[0]:.0f}" y1="{y}" x2="{own[-1]:.0f}" y2="{y}"/>'
    rows = {lane.label: number for number, lane in enumerate(line.lanes)}
    for number, (place, moment) in enumerate(zip(places, line.moments, strict=True)):
        y = TOP + ROW * rows[moment.lane] + ROW // 2
        said = _safe(f"{offset(line, number)} {moment.who or 'unknown'}: {moment.what}")
        yield f"<g><title>{said}</title>{_mark(place, y, is_bad=moment.is_bad)}</g>"
    yield "</svg>\n</div>"


def places_of(line: Timeline) -> list[float]:
    """The place of each moment on the axis, in pixels; a wait that is shown has room for its words."""
    gaps, places = {gap.after: gap for gap in line.gaps}, list[float]()
    for number, moment in enumerate(line.moments):
        if not number:
            places.append(LEFT + STEP)
            continue
        passed_s = int(moment.at_s) - int(line.moments[number - 1].at_s)
        room = LETTER * len(waits(gaps[number - 1])) + 2 * STEP if number - 1 in gaps else 0.0
        places.append(places[-1] + max(room, STEP + 24 * math.log2(1 + passed_s)))
    return places


def _mark(x: float, y: int, *, is_bad: bool) -> str:
    """A dot, and a square on its corner for what is bad: the form tells them apart without colour."""
    if is_bad:
        return f'<path class="bad" d="M{x:.0f} {y - 8} l8 8 l-8 8 l-8 -8 z"/>'
    return f'<circle class="dot" cx="{x:.0f}" cy="{y}" r="6"/>'


def _waits(line: Timeline, places: list[float], bottom: int) -> Iterator[str]:
    for gap in line.gaps:
        begin, end = places[gap.after] + 8, places[gap.after + 1] - 8
        yield (
            f'<rect class="wait" x="{begin:.0f}" y="{TOP - 26}" width="{end - begin:.0f}" '
            f'height="{bottom - TOP + 26}"/>'
        )
        yield f'<text class="said" x="{begin + 6:.0f}" y="{TOP - 9}">{_safe(waits(gap))}</text>'


def _ticks(line: Timeline, places: list[float], bottom: int) -> Iterator[str]:
    last, last_s = -TICK_EVERY, -1
    for number, (place, moment) in enumerate(zip(places, line.moments, strict=True)):
        if int(moment.at_s) != last_s and place - last >= TICK_EVERY:
            last, last_s = place, int(moment.at_s)
            yield f'<line class="at" x1="{place:.0f}" y1="{TOP - 26}" x2="{place:.0f}" y2="{bottom}"/>'
            yield f'<text class="tick" x="{place - 8:.0f}" y="{bottom + 18}">{_safe(offset(line, number))}</text>'


# -- the tables


def _moments(line: Timeline) -> Iterator[str]:
    gaps = {gap.after: gap for gap in line.gaps}
    yield (
        '<h2 id="moments">Moments</h2>\n<table aria-labelledby="moments">\n<thead><tr><th scope="col">Time</th><th '
        'scope="col">After</th>'
    )
    yield '<th scope="col">Object</th><th scope="col">Who</th><th scope="col">What</th></tr></thead>\n<tbody>'
    for number, moment in enumerate(line.moments):
        cells = (rfc3339(moment.at_s), offset(line, number), moment.lane, moment.who or "unknown", moment.what)
        row = "".join(f"<td>{_safe(cell)}</td>" for cell in cells)
        yield f'<tr class="bad">{row}</tr>' if moment.is_bad else f"<tr>{row}</tr>"
        if number in gaps:
            yield f'<tr class="gap"><td colspan="5">{_safe(waits(gaps[number]))}</td></tr>'
    yield "</tbody>\n</table>"


def _objects(line: Timeline) -> Iterator[str]:
    yield '<h2 id="objects">Objects</h2>\n<table aria-labelledby="objects">'
    yield '<thead><tr><th scope="col">Lane</th><th scope="col">Kind</th><th scope="col">Name</th></tr></thead>\n<tbody>'
    for lane in line.lanes:
        yield f"<tr><td>{_safe(lane.label)}</td><td>{_safe(lane.kind)}</td><td>{_safe(lane.name)}</td></tr>"
    yield "</tbody>\n</table>"


def _unseen(line: Timeline) -> Iterator[str]:
    if line.unseen:
        yield "<h2>Not seen</h2>\n<ul>"
        yield from (f"<li>{_safe(f'{one.what}: {one.why}')}</li>" for one in line.unseen)
        yield "</ul>"
