"""Columns of text for a terminal: as wide as their content, as far as there is room."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from mooring.dev.screen import Part

Line = tuple[Part, ...]
Row = Sequence[Part]
"""A cell for each column."""

GAP: Final = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """width: the most that it takes. leaves: it is shown only where the last column keeps so much room. right: aligned."""

    title: str
    width: int = 0
    leaves: int = 0
    right: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """The last column has what is left of the width. cut: ends text that is cut."""

    columns: Sequence[Column]
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
