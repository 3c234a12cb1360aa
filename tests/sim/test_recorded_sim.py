"""A record of a life is replayed to the same decisions, byte by byte; and a life is the same with a recorder and without."""

from __future__ import annotations

import importlib

import msgspec
import pytest

from mooring.sidecars.attacher import decide
from tests.sim.recorded import PARTS, WITHOUT_DRIVER, Recordings, decisions_of, recorders
from tests.support.spans import SpansInMemory

CHUNK = 5
COUNTS = {"attacher": 20, "resizer": 20, "provisioner": 30, "snapshots": 10, "attachdetach": 30}
SLOWER = [pytest.param("binder", 0, 4)]
CHUNKS = [
    pytest.param(part, first, CHUNK, marks=pytest.mark.long if first else [])
    for part, count in COUNTS.items()
    for first in range(0, count, CHUNK)
] + SLOWER
QUICK = {"attacher", "provisioner", "resizer"}
QUICK_AND_LONG = [part if part in QUICK else pytest.param(part, marks=pytest.mark.long) for part in PARTS]


def lived(
    part: str, seed: int, monkeypatch: pytest.MonkeyPatch, spans: SpansInMemory | None = None
) -> tuple[Recordings, str]:
    """A life with recorders, and its story's digest. spans: with traces, too."""
    with recorders(part, monkeypatch, spans) as (recordings, run):
        outcome = run.run_seed(seed)
        assert outcome.broken is None, outcome.report()
        return recordings, outcome.story.digest()


@pytest.mark.slow
@pytest.mark.parametrize(("part", "first", "count"), CHUNKS)
def test_a_replay_comes_to_the_same_decisions_byte_by_byte(
    part: str, first: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the terms of a standby: their records begin with what its caches held."""
    decided = 0
    for seed in range(first, first + count):
        recordings, _ = lived(part, seed, monkeypatch)
        for one in recordings.ended():
            found = one.again()
            assert "" == found.departure, f"seed {seed}, {one.who}: {found.departure}"
            if one.record.header.whole:
                assert decisions_of(one.record) == [(made.controller, made.key, made.shown) for made in found.decisions]
                decided += len(found.decisions)
    assert decided > 100, "lives in which something is decided"


@pytest.mark.slow
@pytest.mark.long
def test_a_standbys_term_is_replayed_from_what_its_caches_held(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = same = 0
    for seed in range(40):
        recordings, _ = lived("attacher", seed, monkeypatch)
        for one in recordings.ended():
            if not one.record.header.whole:
                found = one.again()
                assert 0 == one.record.header.left_out
                decided, same = decided + len(found.decisions), same + found.same_count
    assert decided > 20
    assert same > 0.8 * decided, (same, decided)


@pytest.mark.slow
def test_a_record_that_was_cut_is_replayed_from_what_the_caches_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most decisions are those of the record; what it has no answer to is named."""
    monkeypatch.setattr("tests.sim.recorded.RING_BYTES", 2**16)
    decided = same = 0
    unanswered: list[str] = []
    for seed in range(20):
        recordings, _ = lived("attacher", seed, monkeypatch)
        for one in recordings.ended():
            record = one.record
            if not record.header.whole:
                found = one.again()
                assert "" == found.departure, f"seed {seed}, {one.who}: {found.departure}"
                assert sum(kept.kind == "decided" for kept in record.entries) >= found.same_count
                decided, same = decided + len(found.decisions), same + found.same_count
                unanswered += found.unanswered
    assert decided > 100
    assert same > 0.8 * decided, "measured: 184 of 213"
    assert any(one.startswith("patch volumeattachments") for one in unanswered)


@pytest.mark.slow
@pytest.mark.parametrize("part", QUICK_AND_LONG)
def test_a_life_is_the_same_with_a_recorder_and_without(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(101, 105):  # (the plane's life 100 is forty times as long as most)
        run = importlib.import_module(f"{PARTS[part][0]}.run")
        assert run.run_seed(seed).story.digest() == lived(part, seed, monkeypatch)[1], seed


@pytest.mark.slow
@pytest.mark.parametrize("part", QUICK_AND_LONG)
def test_a_life_and_its_records_are_the_same_with_traces(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte by byte: each clock reading, draw, request and decision."""
    spans = SpansInMemory()
    for seed in range(200, 204):
        alone, digest = lived(part, seed, monkeypatch)
        beside, digest_beside = lived(part, seed, monkeypatch, spans)
        assert digest == digest_beside, seed
        assert [one.file for one in alone.ended()] == [one.file for one in beside.ended()], seed
    traced = [span.name for span in spans.all]
    assert len(traced) > 50
    assert [name for name in traced if name.startswith("csi.v1.")] or WITHOUT_DRIVER.issuperset(PARTS[part][1])


@pytest.mark.slow
def test_a_controller_that_decides_otherwise_departs_from_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The very controllers are run: a changed one shows itself."""
    recordings, _ = lived("attacher", 4, monkeypatch)
    real = decide.decide_attachment

    def otherwise(view, name):
        found = real(view, name)
        return msgspec.structs.replace(found, actions=found.actions[:-1]) if len(found.actions) > 1 else found

    monkeypatch.setattr("mooring.sidecars.attacher.controller.decide_attachment", otherwise)
    departures = [found.departure for one in recordings.ended() if (found := one.again()).departure]
    assert departures
    assert all("where the record has" in one for one in departures), departures
