"""SIGKILL under load loses nothing that anybody was told. Hundreds of times: `python -m tests.kill_apiserver`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kill_apiserver.facts import Broken, Fact, Facts
from tests.kill_apiserver.rounds import Rounds
from tests.support.rows import each_row


@pytest.mark.long
@pytest.mark.slow
def test_killed_again_and_again_the_server_keeps_its_word(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path, seed=7)
    while rounds.kills < 10:
        rounds.run()
    assert rounds.facts.acknowledged > 5
    assert rounds.lists > 0
    assert rounds.resumed > 0


OLD = Fact("a", 5, "uid", "1")
NEW = Fact("a", 6, "uid", "2")


def after(shown: bool = False, answered: bool = False) -> Facts:
    """An object was made, and a change of it was asked for."""
    facts = Facts()
    facts.asks("a", "1")
    facts.told(OLD)
    facts.asks("a", "2")
    if answered:
        facts.told(NEW)
    if shown:
        facts.saw(NEW)
    return facts


@each_row("found", [OLD, NEW])
def test_what_was_not_answered_may_have_happened_or_not(found: Fact) -> None:
    after().judge({"a": found}, 6)


@each_row(
    ("facts", "found", "version"),
    [
        (after(answered=True), OLD, 6),
        (after(shown=True), OLD, 6),
        (after(answered=True), None, 7),
        (after(shown=True), None, 7),
        (after(), None, 7),
        (after(), Fact("a", 6, "uid", "3"), 6),
        (after(), Fact("a", 6, "other", "1"), 6),
        (after(answered=True), NEW, 5),
    ],
    ids=["lost", "shown-and-lost", "gone", "shown-and-gone", "old-gone", "never-asked-for", "another", "older"],
)
def test_the_judge_finds(facts: Facts, found: Fact | None, version: int) -> None:
    with pytest.raises(Broken):
        facts.judge({} if found is None else {"a": found}, version)


def test_the_judge_finds_a_version_that_was_used_twice() -> None:
    facts = after(answered=True)
    with pytest.raises(Broken):
        facts.saw(Fact("b", 6, "uid", "2"))
