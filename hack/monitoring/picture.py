"""Writes docs/monitoring.svg: the dashboard of the whole plane over an hour of whole programs in virtual time, with two
troubles in it.

make picture

The values are Prometheus' own: promtool evaluates the dashboard's queries, and says what it got in place of what nobody
expects. Panels about processes are left out: here all programs are in one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from hack.monitoring.dashboards import DASHBOARDS
from hack.monitoring.grafana import Panel
from mooring.wire.grpc.codes import Code
from tests.support.scripted_driver import PUBLISH, Fail
from tests.support.virtual_loop import run_virtual
from tests.unit.monitoring.prometheus import name_of, promtool, value_text
from tests.unit.monitoring.world import SCRAPE_S, Scrapes, monitored

FILE: Final = Path(__file__).parents[2] / "docs" / "monitoring.svg"
MINUTES: Final = 60
COLUMNS: Final = 2
WIDTH, HEIGHT, STAT_HEIGHT, GAP = 600, 190, 80, 10
PLOT: Final = (52, 34, WIDTH - 14, HEIGHT - 52)
"""The place of a plot in its panel: left, top, right, bottom."""
COLOURS: Final = ("#3274d9", "#e0752d", "#37872d", "#c4162a", "#8f3bb8", "#b8860b", "#00838f", "#757575")

Lines = dict[str, list[tuple[float, float]]]
"""By legend, minutes and values."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    panel: Panel
    lines: Lines


def main() -> None:
    scrapes = run_virtual(_hour())
    plane = next(board for board in DASHBOARDS if board.name == "plane")
    shown = [Shown(panel, _evaluated(scrapes, panel)) for panel in plane.panels if "process_" not in panel.expr]
    FILE.write_text("\n".join(_svg(plane.title, shown)) + "\n")


async def _hour() -> Scrapes:
    async with monitored(replicas=2) as world:
        users = asyncio.create_task(world.traffic(), name="users")
        await asyncio.sleep(15 * 60)
        world.driver.always(PUBLISH, Fail(Code.INTERNAL, "the array is busy"))
        await asyncio.sleep(12 * 60)
        world.driver.forget_scripts()
        await asyncio.sleep(15 * 60)
        lost = [pod.ports.connection for name, pod in world.pods.items() if name.startswith("provisioner")]
        for connection in lost:
            connection.lose()
        await asyncio.sleep(5 * 60)
        for connection in lost:
            connection.come_back()
        await asyncio.sleep(13 * 60)
        assert not users.done(), users.exception()
        users.cancel()
    return world.scrapes


def _evaluated(scrapes: Scrapes, panel: Panel) -> Lines:
    """The panel's lines as Prometheus has them, a point each scrape; of a single value only the last."""
    expr = (
        panel.expr.replace("$namespace", ".*")
        .replace("$job", ".*")
        .replace("$container", ".*")
        .replace("$__rate_interval", "4m")
    )
    end_s = MINUTES * 60
    times = [end_s] if panel.kind == "stat" else [number * SCRAPE_S for number in range(1, int(end_s / SCRAPE_S) + 1)]
    tests = [
        {"expr": expr, "eval_time": f"{at:g}s", "exp_samples": [{"labels": '{nobody="expects"}', "value": 1}]}
        for at in times
    ]
    read = {key: values for key, values in scrapes.series.items() if key[0] in expr}
    given = [{"series": name_of(key), "values": " ".join(map(value_text, values))} for key, values in read.items()]
    content = {"tests": [{"interval": f"{SCRAPE_S:g}s", "input_series": given, "promql_expr_test": tests}]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.yaml"
        file.write_text(json.dumps(content))
        answers = re.findall(r"^ +got: *(.*)$", promtool("test", "rules", file), re.MULTILINE)
    assert len(answers) == len(times), f"{panel.title}: {len(answers)} answers to {len(times)} queries"
    lines: Lines = {}
    for at, answer in zip(times, answers, strict=True):
        for labels, value in re.findall(r"(\{[^}]*\}|\b[a-z_]+\{[^}]*\}) ([^ ,]+)", answer):
            if math.isfinite(float(value)):
                lines.setdefault(_legend(panel, labels), []).append((at / 60, float(value)))
    return lines


def _legend(panel: Panel, labels: str) -> str:
    known: Mapping[str, str] = dict(re.findall(r'(\w+)="([^"]*)"', labels))
    return re.sub(r"{{(\w+)}}", lambda match: known.get(match[1], ""), panel.legend).strip() or "none"


# -- drawing


def _svg(title: str, shown: Sequence[Shown]) -> Iterator[str]:
    stats = [one for one in shown if one.panel.kind == "stat"]
    plots = [one for one in shown if one.panel.kind != "stat"]
    rows = math.ceil(len(plots) / COLUMNS)
    width, height = COLUMNS * (WIDTH + GAP) + GAP, 50 + STAT_HEIGHT + GAP + rows * (HEIGHT + GAP) + GAP
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12" fill="#24292f">'
    )
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{width}" height="{height}" fill="#f4f5f5"/>'
    yield f'<text x="{GAP + 2}" y="30" font-size="19" font-weight="bold">{escape(title)}</text>'
    stat_width = (width - GAP) / len(stats) - GAP
    for number, one in enumerate(stats):
        yield from _stat(one, GAP + number * (stat_width + GAP), 50, stat_width)
    for number, one in enumerate(plots):
        row, column = divmod(number, COLUMNS)
        yield (
            f'<g transform="translate({GAP + column * (WIDTH + GAP)} {50 + STAT_HEIGHT + GAP + row * (HEIGHT + GAP)})">'
        )
        yield from _plot(one)
        yield "</g>"
    yield "</svg>"


def _stat(one: Shown, x: float, y: float, width: float) -> Iterator[str]:
    value = next((points[-1][1] for points in one.lines.values()), math.nan)
    yield f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{STAT_HEIGHT}" rx="3" fill="#fff" stroke="#d8d9da"/>'
    yield f'<text x="{x + 10:g}" y="{y + 20:g}" font-weight="bold">{escape(one.panel.title)}</text>'
    yield (
        f'<text x="{x + width / 2:g}" y="{y + 62:g}" font-size="32" text-anchor="middle" '
        f'fill="#37872d">{value:g}</text>'
    )


def _plot(one: Shown) -> Iterator[str]:
    left, top, right, bottom = PLOT
    highest = max((value for points in one.lines.values() for _, value in points), default=0.0) or 1.0
    order = sorted(one.lines, key=lambda name: -max(value for _, value in one.lines[name]))[: len(COLOURS)]
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="3" fill="#fff" stroke="#d8d9da"/>'
    yield f'<text x="10" y="20" font-weight="bold">{escape(one.panel.title)}</text>'
    for part in (0.0, 0.5, 1.0):
        y = bottom - part * (bottom - top)
        yield f'<path d="M{left} {y:g}H{right}" stroke="#e4e5e6"/>'
        yield (
            f'<text x="{left - 6}" y="{y + 4:g}" font-size="10" '
            f'text-anchor="end">{_amount(part * highest, one.panel.unit)}</text>'
        )
    for minute in range(0, MINUTES + 1, 15):
        x = left + minute / MINUTES * (right - left)
        anchor = "start" if minute == 0 else "end" if minute == MINUTES else "middle"
        yield f'<text x="{x:g}" y="{bottom + 13}" font-size="10" text-anchor="{anchor}">{minute} min</text>'
    for name, colour in zip(order, COLOURS, strict=False):
        line = f'<path d="{_path(one.lines[name], highest)}" fill="none" stroke="{colour}" stroke-width="1.5">'
        yield f"{line}<title>{escape(name)}</title></path>"
    yield from _legends(order)


def _path(points: Sequence[tuple[float, float]], highest: float) -> str:
    left, top, right, bottom = PLOT
    words, before = [], -math.inf
    for minute, value in points:
        place = f"{left + minute / MINUTES * (right - left):.1f} {bottom - value / highest * (bottom - top):.1f}"
        words.append(f"{'L' if minute - before <= 1.5 * SCRAPE_S / 60 else 'M'}{place}")
        before = minute
    return "".join(words)


def _legends(names: Sequence[str]) -> Iterator[str]:
    """As many as one line holds."""
    x, y = 12.0, HEIGHT - 12
    for name, colour in zip(names, COLOURS, strict=False):
        words = name.removeprefix("csi.test ").removeprefix("/csi.v1.").removeprefix("Controller/")
        width = 24 + 5.6 * len(words)
        if x + width > WIDTH:
            return
        yield f'<path d="M{x:g} {y - 4}h10" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{x + 14:g}" y="{y}" font-size="10">{escape(words)}</text>'
        x += width


def _amount(value: float, unit: str) -> str:
    match unit:
        case "bytes":
            return f"{value / 2**20:.0f} MiB"
        case "percentunit":
            return f"{value:.1%}"
        case "s" if value >= 120:
            return f"{value / 60:.3g} min"
        case "s":
            return f"{value:.3g} s"
        case "reqps" | "ops":
            return f"{value:.2g}/s"
    return f"{value:.3g}"


if __name__ == "__main__":
    main()
