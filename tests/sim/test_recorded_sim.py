"""A record of a life is replayed to the same decisions, byte by byte; and a life is the same with a recorder and without."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.csi.in_process import InProcessDriver
from mooring.sidecars.attacher import decide
from mooring.sidecars.attacher.controller import Attacher
from tests.sim import life, run
from tests.sim.course import Outcome
from tests.sim.endpoint import Endpoint, info_of
from tests.sim.line import Line
from tests.sim.mortal import Mortal
from tests.sim.recorded import Recordings, decisions_of
from tests.sim.run import run_seed
from tests.sim.standing import outside
from tests.sim.world import SimWorld
from tests.support.seeds import chunks

SEEDS = 40
CHUNK = 10


def attachers_recorded(recordings: Recordings) -> Callable[[SimWorld, Mortal], life.Made]:
    """As `life.attacher`, with a recorder beside it."""

    def attacher(world: SimWorld, mortal: Mortal) -> life.Made:
        plan, tears = world.plan, world.laws.tears
        tears.living = number = mortal.number
        line = Line(world, mortal)
        line.on_shown = lambda plural, version: tears.shown(plural, version) if tears.living == number else None
        runtime = Runtime(outside(line), mortal.clock, Random(plan.seed * 1000 + number), world.metrics)
        driver = InProcessDriver(Endpoint(world, mortal), clock=world.clock)
        info, options = info_of(plan), life.options_of(plan)
        return recordings.beside(mortal, runtime, driver, lambda ports, called: Attacher(ports, called, info, options)), line

    return attacher


@contextmanager
def recorders(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recordings]:
    recordings = Recordings()
    rest = run._Life._rest

    async def to_the_end(self: run._Life, world: SimWorld, actor: run.Actor) -> None:
        await rest(self, world, actor)
        for one in recordings.found:
            one.end()

    with monkeypatch.context() as patched:
        patched.setattr(life, "attacher", attachers_recorded(recordings))
        patched.setattr(run._Life, "_rest", to_the_end)
        yield recordings


def lived_with_recorders(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Outcome, Recordings]:
    with recorders(monkeypatch) as recordings:
        return run_seed(seed), recordings


@pytest.mark.slow
@pytest.mark.parametrize("first", chunks(SEEDS, CHUNK))
def test_a_replay_comes_to_the_same_decisions_byte_by_byte(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    for seed in range(first, first + CHUNK):
        outcome, recordings = lived_with_recorders(seed, monkeypatch)
        assert outcome.broken is None, outcome.report()
        for one in recordings.ended():
            found = one.again()
            assert "" == found.departure, f"seed {seed}, {one.who}: {found.departure}"
            assert decisions_of(one.record) == [(made.controller, made.key, made.shown) for made in found.decisions]
            count += len(found.decisions)
    assert count > 100, "lives in which something is decided"


@pytest.mark.slow
def test_a_life_is_the_same_with_a_recorder_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(100, 110):
        assert run_seed(seed).story.digest() == lived_with_recorders(seed, monkeypatch)[0].story.digest(), seed


@pytest.mark.slow
def test_a_controller_that_decides_otherwise_departs_from_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The very controllers are run: a changed one shows itself."""
    _, recordings = lived_with_recorders(4, monkeypatch)
    real = decide.decide_attachment

    def otherwise(view, name):
        found = real(view, name)
        return dataclasses.replace(found, actions=found.actions[:-1]) if len(found.actions) > 1 else found

    monkeypatch.setattr("mooring.sidecars.attacher.controller.decide_attachment", otherwise)
    departures = [found.departure for one in recordings.ended() if (found := one.again()).departure]
    assert departures
    assert all("where the record has" in one for one in departures), departures
