"""Memory after much was loaded."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mooring.base import heap


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_is_there_is_left_alone_and_what_comes_later_is_not():
    kept: list[list[object]] = [[] for _ in range(1000)]
    heap.settle()
    assert gc.get_freeze_count() >= 1000
    assert len(gc.get_objects()) < 1000
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() >= 1
    assert kept


def test_a_fresh_cycle_is_collected_before_all_is_left_alone():
    gc.collect()
    cycle: list[object] = []
    cycle.append(cycle)
    name = id(cycle)
    del cycle
    heap.settle()
    gc.unfreeze()
    assert name not in {id(one) for one in gc.get_objects()}


@pytest.mark.long
def test_what_has_ended_is_freed_after_a_thaw():
    cycle: list[object] = []
    cycle.append(cycle)
    name = id(cycle)
    heap.settle()
    del cycle
    gc.collect()
    gc.unfreeze()
    assert name in {id(one) for one in gc.get_objects()}
    heap.thaw()
    gc.collect()
    assert name not in {id(one) for one in gc.get_objects()}


def test_free_memory_is_given_back_or_nothing_happens():
    heap.trim()
    heap.trim()


@pytest.mark.parametrize("ran", [True, False])
def test_what_is_built_is_left_alone_and_nothing_is_collected_meanwhile(ran: bool):
    gc.enable() if ran else gc.disable()
    before = gc.get_stats()[2]["collections"], gc.get_stats()[0]["collections"]
    try:
        with heap.building():
            kept: list[list[object]] = [[] for _ in range(100_000)]
            assert before == (gc.get_stats()[2]["collections"], gc.get_stats()[0]["collections"])
            assert not gc.isenabled()
        assert gc.get_freeze_count() >= len(kept)
        assert gc.isenabled() == ran
    finally:
        gc.enable()
