"""The lives of all parts: `make test` takes a few of each, `make test-long` more.

More seeds: `python -m tests.sim --part plane --seeds 20000`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.sim.course import STORY_STEPS
from tests.sim.disorder import DISORDER_FROM
from tests.sim.driver import world as driver_world
from tests.sim.node import world as node_world
from tests.sim.parts import PARTS
from tests.sim.plane.attachment_laws import TWOFOLD
from tests.sim.plane.plan import plan_of


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """quick, all: how many lives of the part `make test` takes, and both take together. disorderly: the same of lives
    whose queues have no order. failed_before: seeds that showed defects.
    """

    quick: int
    all: int
    disorderly: tuple[int, int] = (2, 100)
    failed_before: tuple[int, ...] = ()


TRIED: Final = {
    "attacher": Tried(10, 200),
    # A refused PersistentVolume took a volume along that its user had taken out of its claim to keep it; two claims
    # deleted one volume that the driver had answered both with; a claim whose object was written by hand was asked for
    # in a loop; an object of the claim's own name that was written by hand in the last moment did not keep its volume.
    "provisioner": Tried(5, 80, failed_before=(383, 515, 1290, 1435, 1887)),
    "node": Tried(5, 60),
    "driver": Tried(10, 100, disorderly=(0, 0)),
    "plane": Tried(3, 150),
    "resizer": Tried(
        10,
        100,
        failed_before=(
            # A size overtook the one that the process before had asked for when it died; a node's part, shown by an
            # answer, was not noticed.
            *(4, 173, 198, 293, 307, 877, 1201),
            # A class overtook one that was applied already; a refusal took a volume from its node.
            *(2816, 3625, 4076, 4170, 5786, 7221, 7661, 12078),
            # With a server that was set back: a cache did not notice it, or what it knew was believed, of a volume's
            # class, of a claim's size, of a node's turn.
            *(2782, 3957, 4299, 6436, 7129, 8617, 8868, 9248, 9634, 10088, 10526, 11419, 11452, 11518, 11837, 14098),
            # A mark that a dead process had sent was carried out during the next one's call, and another size overtook
            # that.
            *(3337, 9166),
        ),
    ),
    # A deletion that the answer to a write showed was not noticed; a content deleted by hand was tried without
    # back-off; a held content was made again after its deletion; a snapshot was made while the mark of its creation was
    # gone, and the cache showed it; a mark stayed on what was ready; what could not be written was silent. In 308 and
    # 1202 a content goes while another one is let go for its sake: nobody can know it.
    "snapshots": Tried(5, 60, failed_before=(142, 195, 312, 468, 873, 322, 583, 308, 1202)),
}
CHUNK: Final = 30
"""Lives in one of the long tests, which run side by side: at most twenty seconds."""
KILLED_SEEDS_MAX: Final = 600


def assert_unbroken(part: str, seeds: Iterable[int]) -> None:
    """The report of a life that is broken ends with the command that repeats it."""
    for seed in seeds:
        outcome = PARTS[part].run_seed(seed)
        assert outcome.broken is None, outcome.report()


def test_all_parts_are_tried() -> None:
    assert PARTS.keys() == TRIED.keys()


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_no_invariant_is_broken(part: str) -> None:
    assert_unbroken(part, range(TRIED[part].quick))


@pytest.mark.slow
def test_no_invariant_is_broken_where_queues_have_no_order() -> None:
    for part, tried in TRIED.items():
        assert_unbroken(part, range(DISORDER_FROM, DISORDER_FROM + tried.disorderly[0]))


@pytest.mark.slow
def test_defects_of_claims_do_not_come_back() -> None:
    assert_unbroken("provisioner", TRIED["provisioner"].failed_before)


def _more(part: str) -> list[int]:
    """The seeds of the long tests."""
    tried = TRIED[part]
    first, last = tried.disorderly
    return [*tried.failed_before, *range(tried.quick, tried.all), *range(DISORDER_FROM + first, DISORDER_FROM + last)]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("part", "start"), [(part, at) for part in PARTS for at in range(0, len(_more(part)), CHUNK)])
def test_no_invariant_is_broken_in_more_lives(part: str, start: int) -> None:
    assert_unbroken(part, _more(part)[start : start + CHUNK])


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 5), marks=pytest.mark.long)], ids=["quick", "long"])
def test_a_seed_lives_the_same_life_again(seeds: range) -> None:
    for part in PARTS.values():
        for seed in seeds:
            first, second = part.run_seed(seed), part.run_seed(seed)
            assert first.story.steps == second.story.steps, f"{part.name}, seed {seed}"


def test_a_failure_shows_the_end_of_its_story_and_how_to_see_it_again() -> None:
    outcome = PARTS["attacher"].run_seed(0, bug="publish-before-finalizer")
    assert outcome.broken is not None
    lines = outcome.report().splitlines()
    assert "seed 0" == lines[0]
    assert str(outcome.broken) == lines[-2]
    assert "replay: .venv/bin/python -m tests.sim --part attacher --seed 0 --bug publish-before-finalizer" == lines[-1]
    assert len(lines) <= STORY_STEPS + 4
    assert "publish-no-finalizer" in lines[-3]


def test_a_life_leaves_nothing_on_the_disk_of_whoever_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_world, "MEMORY", tmp_path)
    monkeypatch.setattr(node_world, "MEMORY", tmp_path)
    PARTS["driver"].run_seed(0)
    assert PARTS["node"].run_seed(0, bug="records-missing").broken is not None
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.long
def test_two_attachments_after_a_kill_in_a_post_are_reported_and_published_once() -> None:
    """The process is killed, its POST comes late, and the next one has attached the volume elsewhere meanwhile. The
    laws say the rest.
    """
    for seed in range(KILLED_SEEDS_MAX):
        if "lose_request" in plan_of(seed).manners.acts:
            outcome = PARTS["plane"].run_seed(seed)
            assert outcome.broken is None, outcome.report()
            if any(TWOFOLD in step.what for step in outcome.story.steps):
                return
    raise AssertionError("no POST came when the volume was attached elsewhere")
