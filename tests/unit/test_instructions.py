"""The meter of instructions: a rise is told, a figure that was changed with a reason is not, and its stub serves a real
program.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from bench.instructions import counted, kept
from bench.instructions.kept import Figure
from bench.instructions.stub import Stub
from tests.support.programs import Program
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[2]
KEPT = {"attach": [Figure(900_000, "counted for the first time"), Figure(1_000_000, "a fresh look before each attach")]}


@each_row(
    ("instructions", "problem", "hint"),
    [
        (1_000_000, "", ""),
        (1_029_000, "", ""),
        (1_031_000, "attach takes 3.1% more instructions than the kept figure.", ""),
        (1_100_000, "attach takes 10.0% more instructions than the kept figure.", ""),
        (971_000, "", ""),
        (900_000, "", "attach takes 10.0% fewer instructions than the kept figure."),
    ],
)
def test_a_rise_of_more_than_three_percent_is_a_problem_and_a_fall_a_hint(
    instructions: int, problem: str, hint: str
) -> None:
    count = {"attach": instructions}
    for expected, texts in ((problem, kept.problems(KEPT, count)), (hint, kept.hints(KEPT, count))):
        assert [expected] * bool(expected) == [text[: len(expected)] for text in texts]


def test_a_rise_passes_once_it_is_kept_with_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_bytes(msgspec.json.encode({kept.build(): KEPT}))
    dearer = {"attach": 1_100_000}
    kept.keep(dearer, "  ", file)
    without_reason = kept.problems(kept.read(file)[kept.build()], dearer)
    assert ["attach: the kept figure of 1,100,000 has no reason"] == without_reason
    file.write_bytes(msgspec.json.encode({kept.build(): KEPT}))
    kept.keep(dearer, "the volume is read again", file)
    assert [] == kept.problems(kept.read(file)[kept.build()], dearer)
    assert [*KEPT["attach"], Figure(1_100_000, "the volume is read again")] == kept.read(file)[kept.build()]["attach"]


def test_an_operation_without_a_kept_figure_is_a_problem() -> None:
    assert ["detach: no figure is kept"] == kept.problems(KEPT, {"attach": 1_000_000, "detach": 1})
    assert "none" in kept.table(KEPT, {"detach": 1})[1]


def test_each_kept_figure_has_a_reason() -> None:
    for figures in kept.read().values():
        assert [] == kept.problems(figures, {})


@pytest.mark.slow
@pytest.mark.parametrize("name", counted.PROGRAMS)
def test_the_stub_leads_a_program_through_each_operation(name: str, tmp_path: Path) -> None:
    one = counted.PROGRAMS[name]
    stub = Stub(tmp_path, counted.driver_answers())
    program = Program([sys.executable, "-m", *counted.words(name, stub)], tmp_path / "log")
    stub.pid = program.pid
    try:
        one.prepare(stub)
        for operation in one.operations.values():
            operation(stub, 0)
        asked = len(stub.requests)
        stub.settle()
        assert asked == len(stub.requests) > 0
    finally:
        program.kill()
        stub.close()
