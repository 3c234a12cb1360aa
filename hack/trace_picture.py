"""Writes docs/tracing.svg: the trace of one volume's life on a real plane, as a trace viewer shows it: decisions with
what followed below.

make picture
"""

from __future__ import annotations

import asyncio
import html
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from tests.support.spans import SpansInMemory
from tests.support.traced_plane import a_life, traced_plane

DOCS: Final = Path(__file__).parent.parent / "docs"
LEFT, WIDTH, ROW, TOP = 470, 330, 16, 34
_FORM: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="what">
<title id="what">The trace of one volume, from its claim to its end</title>
<style>
svg {{ color-scheme: light dark; --ground: #fff; --text: #1b1f24; --faint: #59636e; --line: #e3e8ed; \
--decided: #9aa7b5; --done: #0a58b0;
  --bad: #b3261e; background: var(--ground); }}
@media (prefers-color-scheme: dark) {{ svg {{ --ground: #14181d; --text: #e6e9ed; --faint: #a2adb9; \
--line: #2a313a; --decided: #6b7785;
  --done: #74b0f4; --bad: #ff8a80; }} }}
text {{ font: 11px ui-monospace, monospace; fill: var(--text); }} .faint {{ fill: var(--faint); }}
line {{ stroke: var(--line); }} .decided {{ fill: var(--decided); }} \
.done {{ fill: var(--done); }} .bad {{ fill: var(--bad); }}
</style>
{rows}
</svg>
"""


def rows_of(spans: Sequence[ReadableSpan]) -> Iterator[tuple[ReadableSpan, bool]]:
    """Decisions from which something followed, each with that below it. True for the latter."""
    below: dict[int, list[ReadableSpan]] = {}
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        if span.parent is not None:
            below.setdefault(span.parent.span_id, []).append(span)
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        if span.context.span_id in below:
            yield span, False
            yield from ((one, True) for one in below[span.context.span_id])


def drawn(spans: Sequence[ReadableSpan]) -> str:
    rows = list(rows_of(spans))
    began, ended = min(span.start_time or 0 for span, _ in rows), max(span.end_time or 0 for span, _ in rows)

    def place(at: int | None) -> float:
        return LEFT + WIDTH * ((at or 0) - began) / (ended - began)

    parts = []
    for tick in range(int((ended - began) / 500_000_000) + 1):
        x = place(began + tick * 500_000_000)
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="22" y2="{TOP + ROW * len(rows)}"/>')
        parts.append(f'<text class="faint" x="{x:.0f}" y="16" text-anchor="middle">{tick * 0.5:g} s</text>')
    for number, (span, is_below) in enumerate(rows):
        y, failed = TOP + ROW * number, span.status.status_code is StatusCode.ERROR
        program = "" if is_below else str(span.resource.attributes["service.name"])
        name = span.name.removeprefix("csi.v1.")
        mark = "bad" if failed else "done" if is_below else "decided"
        parts.append(f'<text class="faint" x="8" y="{y + 10}">{html.escape(program)}</text>')
        parts.append(f'<text x="{170 if is_below else 150}" y="{y + 10}">{html.escape(name)}</text>')
        width = max(2.0, place(span.end_time) - place(span.start_time))
        parts.append(
            f'<rect class="{mark}" x="{place(span.start_time):.1f}" y="{y + 2}" width="{width:.1f}" height="9" rx="1"/>'
        )
    return _FORM.format(width=LEFT + WIDTH + 20, height=TOP + ROW * len(rows) + 8, rows="\n".join(parts))


async def main() -> None:
    spans = SpansInMemory()
    with tempfile.TemporaryDirectory() as folder:
        async with traced_plane(Path(folder), spans) as plane:
            uid = await a_life(plane)
    (DOCS / "tracing.svg").write_text(drawn(spans.in_trace(uid)))


if __name__ == "__main__":
    asyncio.run(main())
