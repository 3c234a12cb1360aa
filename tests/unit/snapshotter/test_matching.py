"""Which snapshot of a group is of which volume, as a table."""

from __future__ import annotations

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.decide_after_group import Matching, as_told, matched


def match(wanted: str, told: str, others: str = "") -> Matching:
    """Volumes as words; `-` for a snapshot without a source."""
    snapshots = [
        csi.Snapshot(snapshot_id=f"s{i}", source_volume_id=name.strip("-")) for i, name in enumerate(told.split())
    ]
    return matched(wanted.split(), snapshots, lambda name: name in others.split())


@pytest.mark.parametrize(
    ("told", "volumes", "warned"),
    [
        pytest.param("b p/x", "b p/x", 0, id="as they are"),
        pytest.param("B P/X", "b p/x", 2, id="letters"),
        pytest.param("b x", "b p/x", 1, id="path"),
        pytest.param("- b", "p/x b", 1, id="the only one without a source"),
        pytest.param("B -", "b p/x", 2, id="each in another way"),
    ],
)
def test_each_snapshot_gets_its_volume_by_our_handle(told: str, volumes: str, warned: int):
    found = match("b p/x", told)
    assert (tuple(volumes.split()), "", ()) == (found.volumes, found.problem, found.strangers)
    assert warned == found.warning.count("which was asked for of volume")


def test_what_fits_one_volume_alone_settles_what_fits_two():
    assert ("b/x", "a/x") == match("a/x b/x", "x A/X").volumes


@pytest.mark.parametrize(
    ("told", "volumes"),
    [
        pytest.param("- -", ("", ""), id="no sources"),
        pytest.param("a", ("a",), id="too few"),
        pytest.param("a a", ("a", "a"), id="one twice"),
        pytest.param("a p/b b", ("a", "p/b", "b"), id="too many"),
        pytest.param("", (), id="none"),
    ],
)
def test_what_can_not_be_told_apart_is_a_problem_and_ours(told: str, volumes: tuple[str, ...]):
    found = match("a b", told)
    assert (volumes, (), True) == (
        found.volumes,
        found.strangers,
        "the driver answered with snapshots of " in found.problem,
    )


@pytest.mark.parametrize(
    ("told", "others"), [("a c", ""), ("a c b", ""), ("a B", "B")], ids=["instead", "besides", "known"]
)
def test_a_snapshot_of_another_volume_makes_the_group_anothers(told: str, others: str):
    found = match("a b", told, others)
    assert (told.split()[1],) == found.strangers
    assert found.problem


@pytest.mark.parametrize(("volumes", "is_problem"), [("a b", False), ("a a", True), ("a -", True), ("-", True)])
def test_the_snapshots_of_an_imported_group_are_told_apart_by_their_volumes_alone(volumes: str, is_problem: bool):
    """Two of one name would become one object, and a content without a source could not be deleted."""
    snapshots = [
        csi.Snapshot(snapshot_id=f"s{i}", source_volume_id=name.strip("-")) for i, name in enumerate(volumes.split())
    ]
    assert is_problem == bool(as_told(snapshots).problem)
