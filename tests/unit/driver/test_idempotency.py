"""Ids, sizes, pages: the same for a call that comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.idempotency import check_same, check_size, id_of, is_id, page, size_for
from mooring.driver.records import Records
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row


def a_range(required: int = 0, limit: int = 0) -> csi.CapacityRange:
    return csi.CapacityRange(required_bytes=required, limit_bytes=limit)


@each_row("name", ["pvc-1", "../../etc", "ü" * 60, "a/b\n", ""])
def test_the_id_of_a_name_is_fit_for_a_path_and_always_the_same(name: str) -> None:
    assert id_of(name) == id_of(name)
    assert is_id(id_of(name))
    assert is_id(id_of(name, "snap"), "snap")
    assert id_of(name) != id_of(name + "x")


@each_row(
    "text", ["", "vol-", "../x", "vol-" + "0" * 33, "vol-" + "0" * 32 + "\n", "vol-" + "G" * 32, "snap-" + "0" * 32]
)
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_id(text)


@each_row(
    ("wanted", "size"),
    [
        (a_range(), 100),
        (a_range(limit=60), 60),
        (a_range(limit=69), 60),
        (a_range(limit=205), 100),
        (a_range(required=70), 70),
        (a_range(required=1), 50),
        (a_range(required=71, limit=80), 80),
        (a_range(required=200), 200),
    ],
)
def test_the_smallest_size_that_fits(wanted: csi.CapacityRange, size: int) -> None:
    assert size == size_for(wanted, default=100, least=50, most=200, multiple=10)


@each_row("wanted", [a_range(required=201), a_range(limit=40), a_range(required=71, limit=79)])
def test_no_size_fits(wanted: csi.CapacityRange) -> None:
    with pytest.raises(DriverError, match="OutOfRange"):
        size_for(wanted, default=100, least=50, most=200, multiple=10)


def test_a_volume_of_another_size_is_another_volume() -> None:
    check_size("v", 50, a_range())
    check_size("v", 50, a_range(required=50, limit=50))
    for wanted in (a_range(required=51), a_range(limit=49)):
        with pytest.raises(DriverError, match="AlreadyExists"):
            check_size("v", 50, wanted)


def test_what_differs_is_named_and_not_shown() -> None:
    check_same("s", source=("a", "a"), parameters=({}, {}))
    with pytest.raises(DriverError) as caught:
        check_same("s", source=("a", "a"), parameters=({}, {"secret": "canary"}))
    assert (Code.ALREADY_EXISTS, "'s' exists with another parameters") == (caught.value.code, caught.value.message)


def test_pages_are_stable_while_volumes_come_and_go() -> None:
    first, second, third = sorted(id_of(name) for name in "abc")
    shown, token = page([third, first, second], csi.ListVolumesRequest(max_entries=2))
    assert ([first, second], second) == (shown, token)
    assert ([third], "") == page(
        [first, third], csi.ListVolumesRequest(max_entries=2, starting_token=token)
    )  # the second one is deleted
    assert ([first, second], "") == page([first, second], csi.ListSnapshotsRequest())
    with pytest.raises(DriverError, match="Aborted"):
        page([], csi.ListVolumesRequest(starting_token="invalid-token"))


def test_records_outlive_their_reader(tmp_path: Path) -> None:
    records = Records(tmp_path / "a" / "records")
    records.put("b", {"size": 5})
    records.put("a", {"name": "ü"})
    records.put("a", {"name": "ä"})
    records.remove("b")
    records.remove("b")
    again = Records(tmp_path / "a" / "records")
    assert ({"name": "ä"}, None, ["a"]) == (again.get("a"), again.get("b"), again.ids())


def test_a_record_that_can_not_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    records, bad = Records(tmp_path), {"size": object()}
    records.put("a", {"size": 1})
    with pytest.raises(TypeError):
        records.put("a", bad)
    assert {"size": 1} == records.get("a")
    assert ["a.json"] == [path.name for path in tmp_path.iterdir()]


@each_row("text", ["", "[]", "{"])
def test_a_broken_record_is_no_missing_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError):
        Records(tmp_path).get("a")


@each_row("record_id", ["../a", "a/b", "/a"])
def test_an_id_that_is_a_path_is_refused(tmp_path: Path, record_id: Any) -> None:
    with pytest.raises(AssertionError):
        Records(tmp_path).get(record_id)
