"""Draws how cost grows with the size of a cluster: `python -m bench.scale.curves RAW PICTURE`.

RAW: what `bench.scale --raw` wrote, of any number of runs. Both axes are logarithmic, so that what grows with the size
is a straight line that rises, and what does not is level.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.contender import quantile
from bench.scale.churn import ATTACH, BIND
from bench.scale.peers import EACH, GO, ONE

Json = Mapping[str, Any]

WIDTH = 440
HEIGHT = 250
PLOT = (58, 40, WIDTH - 16, HEIGHT - 44)
"""The place of a plot in its panel: left, top, right, bottom."""
COLOURS = {GO: "#757575", EACH: "#3274d9", ONE: "#e0752d"}


@dataclasses.dataclass(frozen=True)
class Panel:
    """value: of one run."""

    title: str
    value: Callable[[Json], float]


def _p99_ms(kind: str) -> Callable[[Json], float]:
    return lambda run: quantile(run["latencies"][kind], 0.99) * 1000


PANELS = (
    Panel("start → all at rest (s)", lambda run: float(run["settled_s"])),
    Panel("processor time of the start (s)", lambda run: math.fsum(run["start_cpu_s"].values())),
    Panel("memory, all processes (MiB)", lambda run: math.fsum(run["rss_mib"].values())),
    Panel("processor time under churn (s)", lambda run: math.fsum(run["churn_cpu_s"].values())),
    Panel(f"{ATTACH}, p99 (ms)", _p99_ms(ATTACH)),
    Panel(f"{BIND}, p99 (ms)", _p99_ms(BIND)),
)

Points = dict[str, dict[int, float]]
"""By contender and number of volumes."""


def picture(runs: Sequence[Json]) -> str:
    """The SVG; medians of the runs of one contender at one size."""
    columns = 2
    rows = -(-len(PANELS) // columns)
    width, height = columns * WIDTH, rows * HEIGHT + 34
    sizes = sorted({run["volumes"] for run in runs})
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            'font-size="12" role="img">'
        ),
        "<title>How the cost of the storage control plane grows with the number of volumes</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_legend([name for name in COLOURS if any(run["contender"] == name for run in runs)]),
    ]
    for number, panel in enumerate(PANELS):
        points = _points(panel, runs)
        place = f"translate({number % columns * WIDTH} {number // columns * HEIGHT + 34})"
        parts += [f'<g transform="{place}">', *_panel(panel.title, points, sizes), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _points(panel: Panel, runs: Iterable[Json]) -> Points:
    found: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        found.setdefault(run["contender"], {}).setdefault(run["volumes"], []).append(panel.value(run))
    return {
        name: {size: statistics.median(values) for size, values in by_size.items()} for name, by_size in found.items()
    }


def _legend(names: Sequence[str]) -> list[str]:
    return [
        (
            f'<circle cx="{20 + number * 180}" cy="18" r="5" fill="{COLOURS[name]}"/><text x="{32 + number * 180}" '
            f'y="22">{escape(name)}</text>'
        )
        for number, name in enumerate(names)
    ]


def _panel(title: str, points: Points, sizes: Sequence[int]) -> list[str]:
    left, top, right, bottom = PLOT
    values = [value for line in points.values() for value in line.values() if value > 0]
    low, high = _decades(values)
    across = _scale(sizes[0], sizes[-1], left + 10, right - 10)
    up = _scale(low, high, bottom, top)
    parts = [f'<text x="{left}" y="{top - 14}" font-weight="bold">{escape(title)}</text>']
    for exponent in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = up(10.0**exponent)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#e0e0e0"/>')
        parts.append(
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555555">{10.0**exponent:,g}</text>'
        )
    parts += [
        f'<text x="{across(size):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555555">{size:,}</text>'
        for size in sizes
    ]
    parts.append(f'<text x="{(left + right) / 2}" y="{bottom + 34}" text-anchor="middle" fill="#555555">volumes</text>')
    for name, line in points.items():
        at = [(across(size), up(value)) for size, value in sorted(line.items()) if value > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[name]}"/>' for x, y in at]
    return parts


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten around them."""
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = 10.0 ** math.ceil(math.log10(max(values)))
    return low, max(high, low * 10)


def _scale(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    """A logarithmic axis."""
    span = math.log10(high / low) if high > low else 1.0
    return lambda value: begin + (end - begin) * math.log10(value / low) / span


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    options.picture.write_text(picture([json.loads(line) for line in options.raw.read_text().splitlines()]))


if __name__ == "__main__":
    main()
