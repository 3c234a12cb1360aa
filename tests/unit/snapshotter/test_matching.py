"""Which snapshot of a group is of which volume, as a table."""

from __future__ import annotations

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.decide_after_group import Matching, as_told, matched
from tests.support.rows import each_row


def match(wanted: str, told: str) -> Matching:
    """Volumes as words; `-` for a snapshot without a source."""
    snapshots = [
        csi.Snapshot(snapshot_id=f"s{i}", source_volume_id=name.strip("-")) for i, name in enumerate(told.split())
    ]
    return matched(wanted.split(), snapshots)


@each_row(
    ("told", "volumes"),
    [
        pytest.param("b p/x", "b p/x", id="as they are"),
        pytest.param("B P/X", "b p/x", id="letters"),
        pytest.param("b x", "b p/x", id="path"),
        pytest.param("- b", "p/x b", id="the only one without a source"),
        pytest.param("B -", "b p/x", id="each in another way"),
        pytest.param("elsewhere b", "p/x b", id="the only one that is left"),
        pytest.param("b SVC:12;p=x", "b p/x", id="a wrapping"),
    ],
)
def test_each_snapshot_gets_its_volume_by_our_handle(told: str, volumes: str):
    assert Matching(tuple(volumes.split())) == match("b p/x", told)


@each_row(
    ("handles", "told"),
    [
        pytest.param("csi_a##iscsi##600c csi_b##iscsi##600d", "csi_a csi_b", id="exos x"),
        pytest.param("vol1-FC-apm00-sv_77 vol2-FC-apm00-sv_78", "sv_77 sv_78", id="unity"),
        pytest.param("3a1b5c7d-a 3a1b5c7d-b", "a b", id="powerflex"),
        pytest.param("node1:lvol-1 node1:lvol-2", "lvol-2 lvol-1", id="spdk"),
        pytest.param("projects/UNSPECIFIED/zones/z/disks/d1 d2", "projects/p/zones/z/disks/d1 x/d2", id="gce"),
        pytest.param("aa-11 bb-22", "aa11 bb22", id="without separators"),
    ],
)
def test_spellings_of_real_drivers(handles: str, told: str):
    found = match(handles, told)
    assert "" == found.problem
    assert set(handles.split()) == set(found.volumes)
    if told != "lvol-2 lvol-1":
        assert tuple(handles.split()) == found.volumes


def test_what_fits_one_volume_alone_settles_what_fits_two():
    assert ("b/x", "a/x") == match("a/x b/x", "x A/X").volumes


@each_row(
    "told",
    [
        pytest.param("- -", id="no sources"),
        pytest.param("a", id="too few"),
        pytest.param("a a", id="one twice"),
        pytest.param("A a", id="one twice, in other letters"),
        pytest.param("a p/b b", id="too many"),
        pytest.param("x y", id="none of both"),
        pytest.param("", id="none"),
    ],
)
def test_what_can_not_be_told_apart_is_a_problem(told: str):
    found = match("a b", told)
    assert ({""} if told else set(), True) == (
        set(found.volumes),
        "the driver answered with snapshots of " in found.problem,
    )


@each_row(("volumes", "is_problem"), [("a b", False), ("a a", True), ("a -", True), ("-", True)])
def test_the_snapshots_of_an_imported_group_are_told_apart_by_their_volumes_alone(volumes: str, is_problem: bool):
    """Two of one name would become one object, and a content without a source could not be deleted."""
    snapshots = [
        csi.Snapshot(snapshot_id=f"s{i}", source_volume_id=name.strip("-")) for i, name in enumerate(volumes.split())
    ]
    assert is_problem == bool(as_told(snapshots).problem)
