"""Spoilt requests, the same each time. An hour: `make fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.steps import Step
from tests.fuzz.attacks import attacks
from tests.fuzz.judge import Judge, judging
from tests.support.rows import each_row

SEEDS = 60


@pytest.mark.long
@pytest.mark.slow
def test_no_spoilt_request_stalls_the_server_or_takes_its_memory(tmp_path: Path) -> None:
    with judging(tmp_path) as judge:
        schemas = judge.target.schemas()
        for seed in range(SEEDS):
            finding = judge.finding(tuple(attacks(seed, schemas)))
            assert not finding, f"python -m tests.fuzz --seed {seed}\n{finding}"
    assert judge.requests > 5 * SEEDS, "most of the sequences were carried out"


def test_the_judge_sees_a_turn_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the server does: the rule is set to nothing."""
    monkeypatch.setattr("tests.fuzz.judge.TURN_S_MAX", -1.0)
    with judging(tmp_path) as judge:
        assert "a turn of" in _seen_by(judge)


def test_the_judge_sees_memory_that_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.judge.MEMORY_BASE_BYTES", -1)
    monkeypatch.setattr("tests.fuzz.judge.MEMORY_FACTOR", 0)
    with judging(tmp_path) as judge:
        assert "MiB for a request of" in _seen_by(judge)


@each_row("letter", ["e", "ü"])
def test_every_name_that_is_taken_has_room_in_a_path(tmp_path: Path, letter: str) -> None:
    """Only Events may have very long names. This one is held until its finalizer is taken off."""
    with judging(tmp_path) as judge:
        for size, status in ((16 * 1024, 201), (16 * 1024 + 2, 422)):
            name = letter * (size // len(letter.encode()))
            metadata = {"name": name, "namespace": "one", "finalizers": ["example.com/hold"]}
            event = {"metadata": metadata, "involvedObject": {"kind": "Pod", "namespace": "one", "name": "p"}}
            assert status == judge.target.request("POST", "/api/v1/namespaces/one/events", event)[0]
            assert not judge.finding((Step(0, "GET", "/api/v1/events"),))
            assert [] == judge.target.request("GET", "/api/v1/events")[1]["items"]


def _seen_by(judge: Judge) -> str:
    return judge.finding((Step(0, "GET", "/api/v1/nodes"),))
