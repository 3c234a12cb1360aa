"""Every point of the scripts; a share of them in each run of the tests. `make sim` tries all,
`python -m tests.sim.points` one again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from tests.sim.planting import planted_of
from tests.sim.points.bugs import ALL
from tests.sim.points.ends import difference
from tests.sim.points.run import all_trials, play, recorded, tried
from tests.sim.points.table import SCRIPTS
from tests.sim.points.trial import Way, trial_of, trials_of

QUICK = 83
"""In every run of the tests, one point in so many: no divisor of how often the ways take turns."""
DEAR = {"lead-attach", "lead-move"}
"""They take half a minute each."""


TOGETHER = 8
"""Scripts in one test."""
LIGHT = [name for name in SCRIPTS if name not in DEAR]


def assert_same_end(names: Iterable[str]) -> None:
    for name in names:
        record = recorded(SCRIPTS[name])
        for trial in itertools.islice(all_trials(SCRIPTS[name], record), QUICK // 2, None, QUICK):
            outcome = tried(SCRIPTS[name], record, trial)
            assert outcome.broken is None, outcome.report()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(LIGHT), TOGETHER))
def test_some_points_of_each_script_come_to_the_same_end(first: int) -> None:
    assert_same_end(LIGHT[first : first + TOGETHER])


@pytest.mark.slow
@pytest.mark.long
def test_some_points_of_the_dear_scripts_come_to_the_same_end() -> None:
    assert_same_end(sorted(DEAR))


def test_a_run_repeats_step_by_step() -> None:
    first, second = (play(SCRIPTS["attach"]) for _ in range(2))
    assert first.story.digest() == second.story.digest()
    assert first.ends == second.ends


def test_each_trial_reaches_its_point_and_is_the_undisturbed_run_until_then() -> None:
    record = recorded(SCRIPTS["detach"])
    undisturbed = list(map(str, record.story.steps))
    for trial in all_trials(SCRIPTS["detach"], record):
        outcome = tried(SCRIPTS["detach"], record, trial)
        assert outcome.came
        if trial.way not in (Way.UNSEEN,):
            before = record.record.touches[trial.number - 1]
            told = [str(step) for step in outcome.story.steps if step.at_s < before.at_s]
            assert undisturbed[: len(told)] == told


def test_a_trial_is_named_by_script_way_and_point() -> None:
    for trial in trials_of("attach", recorded(SCRIPTS["attach"]).record, stops=True):
        assert trial == trial_of(str(trial))
    with pytest.raises(ValueError, match="only a stale view has a version"):
        trial_of("attach:lost:3@17")


def test_a_failing_point_tells_its_story_and_how_to_see_it_again() -> None:
    with planted_of(ALL, "attacher/timeout-is-success"):
        record = recorded(SCRIPTS["detach"])
        outcome = tried(SCRIPTS["detach"], record, trial_of("detach:late:5"))
    assert outcome.broken is not None
    lines = outcome.report("attacher/timeout-is-success").splitlines()
    assert "detach:late:5" == lines[0]
    assert "replay: .venv/bin/python -m tests.sim.points detach:late:5 --bug attacher/timeout-is-success" == lines[-1]
    assert str(outcome.broken) == lines[-2]


def test_another_end_is_told_by_what_differs() -> None:
    expected = {"pods default/a": '{"status": {"phase": "Running"}}', "storage volumes": "[]"}
    assert not difference(expected, dict(expected))
    assert "pods default/a is missing, undisturbed it is not" == difference(expected, {"storage volumes": "[]"})
    found = {**expected, "pods default/a": '{"status": {"phase": "Failed"}}'}
    assert 'pods default/a: status.phase is "Failed", undisturbed "Running"' == difference(expected, found)
