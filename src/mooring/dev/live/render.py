"""A board as lines of styled text for a terminal of some size, its columns as wide as their content where there is
room. Pure.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.cells import cell_len, set_cell_size

from mooring.apiserver.printers.column import short_age
from mooring.base.text import visible
from mooring.dev.live.board import READY, Board, NodeRow, VolumeRow
from mooring.dev.screen import Part

WIDTH_MIN: Final = 40
HEIGHT_MIN: Final = 16
"""A smaller terminal gets one line."""
TEXT_LINES_MAX: Final = 2
"""Lines of a text that has no room beside its row."""
_INDENT: Final = 4
_HEADS: Final = 3
"""Lines that are no rows: the summary, and the titles of both tables."""

_STYLES: Final = {
    READY: "green",
    "NotReady": "bold red",
    "Unknown": "bold red",
    "Lost": "bold red",
    "Failed": "bold red",
}
_ASCII: Final = str.maketrans(
    {"…": "...", "→": "->", "─": "-", "·": "-", "—": "-", "“": '"', "”": '"', "’": "'", "‘": "'"}
)


def render(board: Board, width: int, height: int, *, ascii_only: bool = False) -> list[Line]:
    """At most half as many lines as the terminal has, each narrower than it. ascii_only: for terminals without
    Unicode.
    """
    if width < WIDTH_MIN or height < HEIGHT_MIN:
        return [((fit(plain(_summary(board), ascii_only=ascii_only), max(0, width - 1), ""), "bold"),)]
    rows = tuple(msgspec.structs.replace(row, text=plain(row.text, ascii_only=ascii_only)) for row in board.volumes)
    return list(_Page(width - 1, ascii_only).lines(Board(board.nodes, rows), height // 2))


def plain(text: str, *, ascii_only: bool) -> str:
    """Text for one line of a terminal."""
    shown = visible(text)
    return shown.translate(_ASCII).encode("ascii", "replace").decode() if ascii_only else shown


def _summary(board: Board) -> str:
    """`3 nodes, 1 not well · 7 volumes, 2 waiting`."""
    unwell, waiting = sum(not row.is_well for row in board.nodes), sum(row.waits for row in board.volumes)
    nodes = f"{_count(len(board.nodes), 'node')}{f', {unwell} not well' if unwell else ''}"
    return f"{nodes} · {_count(len(board.volumes), 'volume')}{f', {waiting} waiting' if waiting else ''}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _node_columns(width: int) -> Sequence[ScreenColumn]:
    return (
        ScreenColumn("NODE", min(40, width // 3)),
        ScreenColumn("STATE", 8),
        ScreenColumn("FOR", 6, right=True),
        ScreenColumn("ZONE", 20, leaves=14),
        ScreenColumn("VOLUMES", 9, leaves=12, right=True),
        ScreenColumn("PODS", 5, leaves=16, right=True),
        ScreenColumn("TAINTS"),
    )


def _volume_columns(width: int) -> Sequence[ScreenColumn]:
    return (
        ScreenColumn("CLAIM", min(40, width // 3)),
        ScreenColumn("VOLUME", 40, leaves=44),
        ScreenColumn("NODE", 20, leaves=16),
        ScreenColumn("STAGE", 12),
        ScreenColumn("FOR", 6, right=True),
        ScreenColumn("WAITS FOR, OR USED BY"),
    )


def _node_cells(row: NodeRow) -> Row:
    limit = "" if row.limit is None else f"/{row.limit}"
    return (
        (row.name, ""),
        (row.state, _STYLES.get(row.state, "")),
        ("" if row.for_s is None else short_age(row.for_s), "yellow"),
        (row.zone, ""),
        (f"{row.attached}{limit}", ""),
        (str(row.pods), ""),
        (", ".join(row.taints), "yellow"),
    )


def _volume_cells(row: VolumeRow) -> Row:
    return (
        (row.claim, ""),
        (row.volume, "dim"),
        (row.node, ""),
        (row.stage, _STYLES.get(row.stage, "yellow" if row.waits else "green")),
        ("" if row.for_s is None else short_age(row.for_s), "yellow"),
        (row.text, "yellow" if row.waits else "dim"),
    )


def _urgency(row: VolumeRow) -> float:
    """Sorts the longest wait first, and rows at rest last."""
    return 1.0 if row.for_s is None else -row.for_s


class _Page(msgspec.Struct, frozen=True):
    width: int
    ascii_only: bool

    @property
    def cut(self) -> str:
        """Ends text that is cut."""
        return "..." if self.ascii_only else "…"

    def lines(self, board: Board, room: int) -> Iterator[Line]:
        """The tables share the room: each has half of it at least, if it needs that."""
        yield self._rule(plain(_summary(board), ascii_only=self.ascii_only))
        rows = room - _HEADS
        wanted = sum(1 + row.waits for row in board.volumes)
        nodes = list(self._nodes(board.nodes, max(rows // 2, rows - wanted)))
        yield from nodes
        if board.volumes:
            yield from self._volumes(board.volumes, rows + 1 - len(nodes))

    def _rule(self, title: str) -> Line:
        dash = "-" if self.ascii_only else "─"
        head = fit(f"{dash * 2} {title} ", self.width, self.cut)
        return ((head, "bold"), (dash * (self.width - cell_len(head)), "dim"))

    def _nodes(self, rows: Sequence[NodeRow], room: int) -> Iterator[Line]:
        """room: lines below the titles."""
        urgent = sorted(rows, key=lambda row: row.is_well)
        shown = rows if len(rows) <= room else [row for row in rows if row in urgent[: max(0, room - 1)]]
        yield from self._table(_node_columns(self.width), [_node_cells(row) for row in shown]).lines()
        if len(rows) > len(shown):
            hidden = urgent[len(shown) :]
            yield _more(len(hidden), sum(not row.is_well for row in hidden), "not well")

    def _volumes(self, rows: Sequence[VolumeRow], room: int) -> Iterator[Line]:
        """room: lines below the titles. Those that wait are shown first, then in the order of the board."""
        urgent = sorted(range(len(rows)), key=lambda number: _urgency(rows[number]))
        waiting = sum(row.waits for row in rows)
        for most in range(TEXT_LINES_MAX, -1, -1):  # shorter texts where some that wait would not be seen otherwise
            titles, entries = self._entries([rows[number] for number in urgent[:room]], most)
            count = _fitting(entries, room, is_all=len(entries) == len(rows))
            if count >= waiting:
                break
        lines = dict(zip(urgent[:count], entries, strict=False))
        yield titles
        for number in sorted(lines):
            yield from lines[number]
        if count < len(rows):
            yield _more(len(rows) - count, sum(rows[number].waits for number in urgent[count:]), "waiting")

    def _entries(self, rows: Sequence[VolumeRow], most: int) -> tuple[Line, list[list[Line]]]:
        """The titles, and the lines of each row: a reason that has no room beside its row has so many lines below it at
        most.
        """
        cells = [_volume_cells(row) for row in rows]
        room = self._table(_volume_columns(self.width), cells).last_width()
        below = [row.text if most and row.waits and cell_len(row.text) > room else "" for row in rows]
        bare = [(*given[:-1], ("", "")) if text else given for given, text in zip(cells, below, strict=True)]
        titles, *lines = self._table(_volume_columns(self.width), bare).lines()
        return titles, [[line, *self._below(text, most)] for line, text in zip(lines, below, strict=True)]

    def _table(self, columns: Sequence[ScreenColumn], cells: Sequence[Row]) -> ScreenTable:
        return ScreenTable(columns, cells, self.width, self.cut)

    def _below(self, text: str, most: int) -> Iterator[Line]:
        width = self.width - _INDENT
        lines = _wrapped(text, width, most, self.cut) if text else []
        yield from (((" " * _INDENT, ""), (fit(line, width, self.cut), "yellow")) for line in lines)


def _wrapped(text: str, width: int, most: int, cut: str) -> list[str]:
    """The text on so many lines at the most. Its middle is left out where it has no room: an error begins with the call
    that failed, and ends with the cause.
    """
    shown, size = text, width * most
    while len(lines := textwrap.wrap(shown, width, break_on_hyphens=False)) > most and size > len(cut):
        head = (size - len(cut)) // 3
        shown = f"{text[:head].rstrip()}{cut}{text[head + len(cut) - size :].lstrip()}"
        size -= 1
    return lines[:most]


def _fitting(entries: Sequence[Sequence[Line]], room: int, *, is_all: bool) -> int:
    """How many of the entries have room, with a line for those that don't."""
    ends = list(itertools.accumulate(map(len, entries)))
    if is_all and (not ends or ends[-1] <= room):
        return len(ends)
    return sum(end <= room - 1 for end in ends)


def _more(count: int, urgent: int, word: str) -> Line:
    return ((f"+ {count} more{f', {urgent} {word}' if urgent else ''}", "bold yellow" if urgent else "dim"),)


Line = tuple[Part, ...]
Row = Sequence[Part]
"""A cell for each column."""

GAP: Final = 2


class ScreenColumn(msgspec.Struct, frozen=True):
    """width: the most that it takes. leaves: it is shown only where the last column keeps so much room. right:
    aligned.
    """

    title: str
    width: int = 0
    leaves: int = 0
    right: bool = False


class ScreenTable(msgspec.Struct, frozen=True):
    """The last column has what is left of the width. cut: ends text that is cut."""

    columns: Sequence[ScreenColumn]
    rows: Sequence[Row]
    width: int
    cut: str

    def lines(self) -> Iterator[Line]:
        """The titles, then each row."""
        shown = self._shown()
        widths = [self._wide(number) for number in shown]
        widths[-1] = max(0, self.width - sum(widths[:-1]) - GAP * len(widths[:-1]))
        yield self._line([(self.columns[number].title, "dim") for number in shown], shown, widths)
        for row in self.rows:
            yield self._line([row[number] for number in shown], shown, widths)

    def last_width(self) -> int:
        """How much room the last column has."""
        return self.width - sum(self._wide(number) + GAP for number in self._shown()[:-1])

    def _shown(self) -> list[int]:
        """The columns that have room. One without any text is left out."""
        last = len(self.columns) - 1
        shown = [number for number in range(last) if any(row[number][0] for row in self.rows)]
        for number in sorted(shown, key=lambda one: self.columns[one].leaves, reverse=True):
            if self.width - sum(self._wide(one) + GAP for one in shown) >= self.columns[number].leaves:
                break
            shown.remove(number)
        return [*shown, last]

    def _wide(self, number: int) -> int:
        column = self.columns[number]
        texts = [column.title, *(row[number][0] for row in self.rows)]
        return min(column.width, max(map(cell_len, texts)))

    def _line(self, cells: Row, shown: Sequence[int], widths: Sequence[int]) -> Line:
        parts: list[Part] = []
        for place, ((text, style), number, width) in enumerate(zip(cells, shown, widths, strict=True)):
            fitted = fit(text, width, self.cut)
            space = " " * (width - cell_len(fitted))
            is_last = place == len(shown) - 1
            parts.append((f"{space}{fitted}" if self.columns[number].right else fitted, style))
            parts.append(("" if is_last else " " * GAP if self.columns[number].right else space + " " * GAP, ""))
        return tuple(part for part in parts if part[0])


def fit(text: str, width: int, cut: str) -> str:
    """The text, cut where it is too wide."""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(cut)
    return set_cell_size(text, room).rstrip() + cut if room > 0 else set_cell_size(text, max(0, width))
