"""Tables of medians, one column a contender, as bench/RESULTS.md has them."""

from __future__ import annotations

import asyncio
import functools
import json
import statistics
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from bench.contender import machine
from bench.interpreter import interpreter
from mooring import __version__

R = TypeVar("R")


def print_parts(parts: AsyncIterator[str]) -> None:
    """Prints each part of the results when it is known."""

    async def printed() -> None:
        async for part in parts:
            print(part, end="\n\n", flush=True)

    asyncio.run(printed())


class Table(Generic[R]):
    """runs: the rounds, by contender."""

    def __init__(self, title: str, runs: Mapping[str, Sequence[R]]) -> None:
        self._runs = runs
        self._lines = [f"### {title}", "", "| | " + " | ".join(runs) + " |", "|---" * (len(runs) + 1) + "|"]

    def row(self, label: str, form: str, value: Callable[[R], float], *, each_round: bool = False) -> None:
        """Medians; with each_round a line below with what they are of. A contender that was not done has a dash."""
        found = [[value(run) for run in many] for many in self._runs.values()]
        self._line(label, (form.format(statistics.median(values)) if values else "-" for values in found))
        if each_round and any(len(values) > 1 for values in found):
            self._line("… each round", (", ".join(form.format(value) for value in values) for values in found))

    def rows(self, label: str, form: str, counts: Callable[[R], Mapping[str, float]]) -> None:
        """One for each key that any run has. label: with {} for the key. What is hardly ever there is left out."""
        keys = {
            key for many in self._runs.values() for run in many for key, value in counts(run).items() if value >= 0.005
        }
        for key in sorted(keys):
            self.row(label.format(key), form, functools.partial(_count, counts, key))

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def _line(self, label: str, cells: Iterable[str]) -> None:
        self._lines.append(f"| {label} | " + " | ".join(cells) + " |")


def _count(counts: Callable[[R], Mapping[str, float]], key: str, run: R) -> float:
    return counts(run).get(key, 0.0)


def one_row(title: str, label: str, values: Mapping[str, Sequence[float]], form: str) -> str:
    """A table of one row: medians, and what they are of."""
    cells = (
        f"{form.format(statistics.median(many))} ({', '.join(form.format(value) for value in many)})"
        for many in values.values()
    )
    return (
        f"### {title}\n\n| | {' | '.join(values)} |\n|{'---|' * (len(values) + 1)}\n| {label} | {' | '.join(cells)} |"
    )


def heading(beside: str) -> str:
    """Which versions ran on which machine."""
    return f"Mooring {__version__}, {interpreter()}, beside {beside}. Machine: `{json.dumps(machine())}`."
