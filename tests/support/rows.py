"""Rows of a table that share one test: `each_row` is written as `parametrize` is, and makes one test of all rows."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from tests.support.virtual_loop import VirtualLoop

Test = TypeVar("Test", bound=Callable[..., Any])
Rows = Iterable[Any] | Callable[[], Iterable[Any]]
Ids = Iterable[object] | Callable[[Any], object] | None

_OF_NO_LOOP: Final = {"name", "tmp_path", "monkeypatch", "capsys", "capfd", "caplog", "request", "tmp_path_factory"}


def each_row(
    names: str | Sequence[str], rows: Rows, *, ids: Ids = None, parts: int = 1, fresh: Sequence[Any] = ()
) -> Callable[[Test], Test]:
    """Makes one test that goes through all rows, also after one has failed; a failure names its row.

    Two above each other give the product, as with `parametrize`. The fixtures are those of the whole test, but for
    `name`, `tmp_path` and `monkeypatch`, which each row has for itself, and those of `fresh`. What `capsys` and
    `caplog` have caught is let go before each row. A coroutine function has a loop of its own for each row, unless it
    has other fixtures, which may live on a loop.

    rows: or a function that returns them, which is called when the test runs. parts: the number of tests into which
    the rows are dealt, so that workers share what takes seconds; the uppermost `each_row` says it. fresh: fixtures of
    the test (the functions) that are made for each row, those that others need first.
    """
    columns = tuple(one.strip() for one in names.split(",")) if isinstance(names, str) else tuple(names)
    made = rows if callable(rows) else functools.partial(iter, tuple(rows))
    table = _Table(columns, isinstance(names, str) and len(columns) == 1, made, ids)
    fixtures = tuple((one.name, one.__wrapped__) for one in fresh)

    def decorate(test: Test) -> Test:
        inner: _Course | None = getattr(test, "course", None)
        course = _Course(test, (table,), fixtures, parts)
        if inner:
            course = replace(
                course,
                test=inner.test,
                tables=(table, *inner.tables),
                fresh=tuple(dict.fromkeys((*inner.fresh, *fixtures))),
            )
        assert inner is None or inner.parts == 1, "the uppermost says into how many parts"
        return course.as_test(test)  # type: ignore[return-value]

    return decorate


@dataclass(frozen=True)
class _Table:
    """single: a row is the only column's value, not a tuple of values."""

    columns: tuple[str, ...]
    single: bool
    rows: Callable[[], Iterable[Any]]
    ids: Ids

    def labelled(self) -> Iterator[tuple[list[str], dict[str, Any]]]:
        """Each row as a failure calls it, and as arguments of the test."""
        given = iter(self.ids) if self.ids is not None and not callable(self.ids) else None
        for row in self.rows():
            if isinstance(row, type(pytest.param())):
                assert not row.marks, "a row has no marks of its own"
                values, label = row.values, [row.id]
            else:
                values, label = (row,) if self.single else tuple(row), []
            if given is not None:
                label = [next(given)]
            elif callable(self.ids):
                label = [self.ids(value) for value in values]
            yield [str(word) for word in label if word is not None], dict(zip(self.columns, values, strict=True))


@dataclass(frozen=True)
class _Course:
    """A test, the tables whose product it goes through, and the fixtures that are made for each row."""

    test: Callable[..., Any]
    tables: tuple[_Table, ...]
    fresh: tuple[tuple[str, Callable[..., Any]], ...]
    parts: int

    def as_test(self, decorated: Callable[..., Any]) -> Callable[..., Any]:
        """What pytest collects. decorated: the test with the marks that it has so far."""

        def all_rows(**arguments: Any) -> None:
            __tracebackhide__ = True
            results = _Results(arguments.pop("subtests"))
            for label, values, life in self._lives(**arguments):
                with results.of(label, values), self._made(life) as whole:
                    self.test(**whole)
            results.end()

        def all_rows_on_loops(**arguments: Any) -> None:
            __tracebackhide__ = True
            results = _Results(arguments.pop("subtests"))
            virtual = arguments["request"].node.get_closest_marker("virtual_time")
            for label, values, life in self._lives(**arguments):
                runner = asyncio.Runner(loop_factory=VirtualLoop if virtual else asyncio.new_event_loop)
                with results.of(label, values), self._made(life) as whole, runner:
                    runner.run(self.test(**whole))
            results.end()

        async def all_rows_on_a_loop(**arguments: Any) -> None:
            __tracebackhide__ = True
            results = _Results(arguments.pop("subtests"))
            for label, values, life in self._lives(**arguments):
                with results.of(label, values), self._made(life) as whole:
                    await self.test(**whole)
            results.end()

        way = all_rows
        if inspect.iscoroutinefunction(self.test):
            way = all_rows_on_loops if self._loops() else all_rows_on_a_loop  # type: ignore[assignment]
        found: Any = functools.wraps(decorated)(way)
        found.course = self
        found.__signature__ = self._signature()
        return pytest.mark.parametrize("part", range(self.parts))(found) if self.parts > 1 else found

    def _fixtures(self) -> dict[str, inspect.Parameter]:
        """What pytest gives to the test, and to the fixtures that are made for each row."""
        given = {name for table in self.tables for name in table.columns}
        made = dict(self.fresh)
        functions = (self.test, *(fixture for _, fixture in self.fresh))
        wanted = {k: v for function in functions for k, v in inspect.signature(function).parameters.items()}
        return {name: one for name, one in wanted.items() if name not in given and name not in made}

    def _loops(self) -> bool:
        return inspect.iscoroutinefunction(self.test) and self._fixtures().keys() <= _OF_NO_LOOP

    def _signature(self) -> inspect.Signature:
        """The fixtures of the test, and what goes through the rows needs."""
        kept = self._fixtures()
        added = [name for name, needed in (("part", self.parts > 1), ("request", self._loops())) if needed]
        names = [name for name in (*kept, "subtests", *added) if name not in kept]
        new = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
        return inspect.Signature([one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in kept.values()] + new)

    def _lives(self, part: int = 0, **fixtures: Any) -> Iterator[tuple[str | None, dict[str, Any], dict[str, Any]]]:
        """Each row of this part: as a failure calls it, its values, and all that pytest and the row give."""
        product = enumerate(itertools.product(*(table.labelled() for table in self.tables)))
        rows = 0
        for number, row in itertools.islice(product, part, None, self.parts):
            rows += 1
            values = {name: value for _, one in row for name, value in one.items()}
            label = " ".join(word for words, _ in row for word in words)
            yield label or None, values, fixtures | _of_a_row(fixtures, number) | values
        assert rows, "a test without a row"

    @contextlib.contextmanager
    def _made(self, life: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """All arguments of the test, among them the fixtures that live as long as the row."""
        with contextlib.ExitStack() as stack:
            if "monkeypatch" in life:
                life["monkeypatch"] = stack.enter_context(pytest.MonkeyPatch.context())
            for name, fixture in self.fresh:
                needed = _wanted(fixture, life)
                if inspect.isgeneratorfunction(fixture):
                    life[name] = stack.enter_context(_alive(fixture(**needed)))
                else:
                    life[name] = fixture(**needed)
            yield _wanted(self.test, life)


@contextlib.contextmanager
def _alive(fixture: Iterator[Any]) -> Iterator[Any]:
    """What a fixture yields. As with pytest it ends in the same way whatever has become of its test."""
    try:
        yield next(fixture)
    finally:
        assert next(fixture, fixture) is fixture, "a fixture yields once"


def _wanted(function: Callable[..., Any], life: dict[str, Any]) -> dict[str, Any]:
    return {name: life[name] for name in inspect.signature(function).parameters if name in life}


def _of_a_row(fixtures: dict[str, Any], number: int) -> dict[str, Any]:
    """The fixtures of pytest that are a row's own."""
    found: dict[str, Any] = {}
    if "name" in fixtures:
        found["name"] = f"{fixtures['name']}-{number}"
    if "tmp_path" in fixtures:
        folder: Path = fixtures["tmp_path"] / f"row-{number}"
        folder.mkdir()
        found["tmp_path"] = folder
    for caught in fixtures.keys() & {"capsys", "capfd"}:
        fixtures[caught].readouterr()
    if "caplog" in fixtures:
        fixtures["caplog"].clear()
    return found


@dataclass
class _Results:
    """What came of the rows. A row that passes is not reported: a report costs a worker and its master 1 ms."""

    subtests: Any
    skips: list[BaseException] = field(default_factory=list)

    @contextlib.contextmanager
    def of(self, label: str | None, values: dict[str, Any]) -> Iterator[None]:
        __tracebackhide__ = True
        try:
            yield
        except pytest.skip.Exception as skip:
            self.skips.append(skip)
        except (Exception, pytest.fail.Exception):
            with self.subtests.test(label, **values):
                raise

    def end(self) -> None:
        """Says what could not be tested."""
        __tracebackhide__ = True
        if self.skips:
            raise self.skips[0]
