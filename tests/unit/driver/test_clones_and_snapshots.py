"""Clones, snapshots and what is restored from them: what the source had at that moment, whoever waits for it."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath import statefile
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.statefile import StateFolder, read_state
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import (
    GIB,
    a_capability,
    a_creation,
    a_deletion,
    a_driver,
    a_publication,
    a_snapshot_of,
    created,
    driver,
    refused,
    snapshotted,
)

BLOCK = {"volume_capabilities": [a_capability(block=True)]}


def of_volume(volume_id: str) -> dict[str, Any]:
    return {"volume_content_source": {"volume": {"volume_id": volume_id}}}


def of_snapshot(snapshot_id: str) -> dict[str, Any]:
    return {"volume_content_source": {"snapshot": {"snapshot_id": snapshot_id}}}


def files(driver: HostPath, record_id: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in driver._folder.data(record_id).iterdir()}


async def a_volume_with_data(driver: HostPath, name: str = "source") -> str:
    volume_id = await created(driver, name)
    (driver._folder.data(volume_id) / "file").write_text("old")
    return volume_id


async def listed(driver: HostPath, **fields: Any) -> list[str]:
    answer = await driver.list_snapshots(csi.ListSnapshotsRequest(**fields))
    return [entry.snapshot.snapshot_id for entry in answer.entries]


# What they have


async def test_a_clone_has_what_its_source_had_and_goes_its_own_way(driver: HostPath) -> None:
    source = await a_volume_with_data(driver)
    answer = await driver.create_volume(a_creation("clone", **of_volume(source)))
    clone = answer.volume.volume_id
    assert source == answer.volume.content_source.volume.volume_id
    (driver._folder.data(source) / "file").write_text("new")
    assert {"file": "old"} == files(driver, clone)
    await driver.delete_volume(a_deletion(source))
    assert answer == await driver.create_volume(a_creation("clone", **of_volume(source))), (
        "also when the source is gone"
    )


async def test_a_restored_volume_has_what_was_there_when_the_snapshot_was_taken(driver: HostPath) -> None:
    source = await a_volume_with_data(driver)
    snapshot = await snapshotted(driver, source)
    (driver._folder.data(source) / "file").write_text("new")
    await driver.delete_volume(a_deletion(source))
    answer = await driver.create_volume(a_creation("restored", **of_snapshot(snapshot)))
    assert snapshot == answer.volume.content_source.snapshot.snapshot_id
    assert {"file": "old"} == files(driver, answer.volume.volume_id)


async def test_block_volumes_are_files_and_are_cloned_and_restored_as_such(driver: HostPath, tmp_path: Path) -> None:
    source = await created(driver, "source", capacity_range={"required_bytes": 1000}, **BLOCK)
    assert 1024 == driver._folder.data(source).stat().st_size == read_state(tmp_path).volumes[source].capacity_bytes
    with driver._folder.data(source).open("r+b") as file:
        file.write(b"boot")
    snapshot = await snapshotted(driver, source)
    larger = {"capacity_range": {"required_bytes": 4096}, **BLOCK}
    for name, content in (("clone", of_volume(source)), ("restored", of_snapshot(snapshot))):
        data = driver._folder.data(await created(driver, name, **larger, **content)).read_bytes()
        assert b"boot" + bytes(4092) == data
    await refused(
        driver.create_volume(a_creation("folder", **of_volume(source))), Code.INVALID_ARGUMENT, "is of type block"
    )
    await driver.delete_volume(a_deletion(source))
    assert not driver._folder.data(source).exists()


@each_row(
    ("content", "code", "text"),
    [
        (of_volume("vol-unknown"), Code.NOT_FOUND, "there is no volume 'vol-unknown'"),
        (of_snapshot("../../etc"), Code.NOT_FOUND, "there is no snapshot '../../etc'"),
        ({"volume_content_source": {}}, Code.INVALID_ARGUMENT, "either snapshot or volume is required"),
        (of_volume(""), Code.NOT_FOUND, "there is no volume ''"),
    ],
    fresh=[driver],
)
async def test_a_source_that_is_not_there_is_refused(
    driver: HostPath, tmp_path: Path, content: Any, code: Code, text: str
) -> None:
    await refused(driver.create_volume(a_creation("clone", **content)), code, text)
    assert [] == list((tmp_path / "volumes").iterdir())


async def test_a_copy_is_never_smaller_than_its_source(driver: HostPath) -> None:
    source = await created(driver, "source", capacity_range={"required_bytes": 3 * GIB})
    for smaller in ({"required_bytes": GIB}, {"limit_bytes": GIB}):
        request = a_creation("clone", capacity_range=smaller, **of_volume(source))
        await refused(
            driver.create_volume(request),
            Code.INVALID_ARGUMENT,
            f"{GIB} bytes are less than the {3 * GIB} of the source",
        )
    answer = await driver.create_volume(a_creation("clone", capacity_range=None, **of_volume(source)))
    assert 3 * GIB == answer.volume.capacity_bytes


async def test_the_same_name_with_another_source_exists_already(driver: HostPath) -> None:
    one, two = await a_volume_with_data(driver, "one"), await a_volume_with_data(driver, "two")
    snapshot = await snapshotted(driver, one)
    await created(driver, "clone", **of_volume(one))
    for other in (of_volume(two), of_snapshot(snapshot), {}):
        await refused(
            driver.create_volume(a_creation("clone", **other)), Code.ALREADY_EXISTS, f"the content of '{one}'"
        )
    await refused(driver.create_volume(a_creation("one", **of_volume(two))), Code.ALREADY_EXISTS, "no content source")
    await refused(
        driver.create_volume(a_creation("clone", **of_volume(one), **BLOCK)), Code.ALREADY_EXISTS, "the type mount"
    )


# Snapshots as such


async def test_the_same_name_gives_the_same_snapshot_of_one_volume(driver: HostPath) -> None:
    one, two = await created(driver, "one"), await created(driver, "two")
    answer = await driver.create_snapshot(a_snapshot_of(one))
    assert (one, GIB, True) == (
        answer.snapshot.source_volume_id,
        answer.snapshot.size_bytes,
        answer.snapshot.ready_to_use,
    )
    assert answer == await driver.create_snapshot(a_snapshot_of(one))
    await refused(driver.create_snapshot(a_snapshot_of(two)), Code.ALREADY_EXISTS, f"of volume '{one}'")
    await refused(driver.create_snapshot(a_snapshot_of("vol-x", "other")), Code.NOT_FOUND, "'vol-x'")
    strange = a_snapshot_of(one, "other", parameters={"ignoreFailedRead": "perhaps"})
    await refused(driver.create_snapshot(strange), Code.INVALID_ARGUMENT, "must be true or false")


async def test_a_snapshot_is_ready_after_the_delay(tmp_path: Path) -> None:
    clock = LoopClock(epoch_s=1_700_000_000.0 - asyncio.get_running_loop().time())
    with a_driver(tmp_path, snapshot_delay_s=60.0, clock=clock) as driver:
        source = await a_volume_with_data(driver)
        answer = await driver.create_snapshot(a_snapshot_of(source))
        snapshot = answer.snapshot.snapshot_id
        assert not answer.snapshot.ready_to_use
        assert 1_700_000_000 == answer.snapshot.creation_time.seconds
        await refused(
            driver.create_volume(a_creation("r", **of_snapshot(snapshot))), Code.FAILED_PRECONDITION, "not ready yet"
        )
    later = LoopClock(epoch_s=1_700_000_061.0 - asyncio.get_running_loop().time())
    with a_driver(tmp_path, clock=later, randomness=Random(8)) as driver:
        answer = await driver.create_snapshot(a_snapshot_of(source))
        assert answer.snapshot.ready_to_use, "the delay is the snapshot's own"
        await created(driver, "r", **of_snapshot(snapshot))


async def test_snapshots_are_listed_by_page_by_volume_and_by_id(driver: HostPath) -> None:
    one, two = await created(driver, "one"), await created(driver, "two")
    of_one = sorted([await snapshotted(driver, one, f"one-{number}") for number in range(3)])
    of_two = [await snapshotted(driver, two, "two-1")]
    assert sorted([*of_one, *of_two]) == await listed(driver)
    assert of_one == await listed(driver, source_volume_id=one)
    assert of_two == await listed(driver, snapshot_id=of_two[0])
    assert [] == await listed(driver, snapshot_id=of_two[0], source_volume_id=one)
    assert [] == await listed(driver, snapshot_id="no-snapshot")
    page = await driver.list_snapshots(csi.ListSnapshotsRequest(source_volume_id=one, max_entries=2))
    assert of_one[:2] == [entry.snapshot.snapshot_id for entry in page.entries]
    await driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=of_one[1]))
    assert of_one[2:] == await listed(driver, source_volume_id=one, starting_token=page.next_token, max_entries=2)
    await refused(
        driver.list_snapshots(csi.ListSnapshotsRequest(starting_token="7")), Code.ABORTED, "start from the beginning"
    )


async def test_a_deleted_snapshot_leaves_nothing_and_deleting_again_is_fine(driver: HostPath, tmp_path: Path) -> None:
    source = await a_volume_with_data(driver)
    snapshot = await snapshotted(driver, source)
    await driver.get_snapshot(csi.GetSnapshotRequest(snapshot_id=snapshot))
    for snapshot_id in (snapshot, snapshot, "never-was", "../../precious", source):
        await driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=snapshot_id))
    await refused(driver.get_snapshot(csi.GetSnapshotRequest(snapshot_id=snapshot)), Code.NOT_FOUND, snapshot)
    await driver.delete_volume(a_deletion(snapshot))
    assert [source] == os.listdir(tmp_path / "volumes")
    assert [] == os.listdir(tmp_path / "snapshots")


# While a copy is on its way


class Gate:
    """Holds each copy after its first entry, until opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        self.copies = 0
        real = statefile.copy_folder

        def held(source: str, target: str, check: Callable[[], None]) -> None:
            self.copies += 1
            self.reached.set()
            while not self._open.wait(0.001):
                check()
            real(source, target, check)

        monkeypatch.setattr(statefile, "copy_folder", held)

    async def reach(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 10)

    def open(self) -> None:
        self._open.set()


async def test_a_caller_who_gives_up_finds_his_clone_when_he_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    with a_driver(tmp_path) as driver:
        source = await a_volume_with_data(driver)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await driver.create_volume(a_creation("clone", **of_volume(source)))
        await gate.reach()
        gate.open()
        clone = await created(driver, "clone", **of_volume(source))
        assert {"file": "old"} == files(driver, clone)
        assert 1 == gate.copies


async def test_what_a_copy_needs_is_kept_until_it_has_ended(driver: HostPath, monkeypatch: pytest.MonkeyPatch) -> None:
    source = await a_volume_with_data(driver)
    snapshot = await snapshotted(driver, source)
    gate = Gate(monkeypatch)
    async with asyncio.TaskGroup() as group:
        clone = group.create_task(created(driver, "clone", **of_volume(source)), name="clone")
        restored = group.create_task(created(driver, "restored", **of_snapshot(snapshot)), name="restored")
        await gate.reach()
        while gate.copies < 2:
            await asyncio.to_thread(gate.reached.wait, 0.001)
        await refused(driver.delete_volume(a_deletion(source)), Code.ABORTED, "is being copied to")
        await refused(
            driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=snapshot)), Code.ABORTED, "is being copied to"
        )
        entries = (await driver.list_volumes(csi.ListVolumesRequest())).entries
        filling = [
            one.volume.volume_id
            for one in entries
            if one.status.volume_condition.message == "the volume's data is being copied"
        ]
        assert 2 == len(filling)
        for call in (
            driver.delete_volume(a_deletion(filling[0])),
            driver.controller_publish_volume(a_publication(filling[0])),
            driver.create_snapshot(a_snapshot_of(filling[0], "too-early")),
        ):
            await refused(call, Code.ABORTED, "try again when that is done")
        await refused(
            driver.create_volume(a_creation("c", **of_volume(filling[0]))), Code.FAILED_PRECONDITION, "not ready"
        )
        gate.open()
    await driver.delete_volume(a_deletion(source))
    await driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=snapshot))
    assert [{"file": "old"}] * 2 == [files(driver, one.result()) for one in (clone, restored)]


async def test_a_driver_that_ends_leaves_no_half_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with a_driver(tmp_path) as driver:
        source = await a_volume_with_data(driver)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await driver.create_volume(a_creation("clone", **of_volume(source)))
        await gate.reach()
    assert 2 == len(read_state(tmp_path).volumes), "until the next start it is known as unfinished"
    with a_driver(tmp_path, randomness=Random(8)) as driver:
        gate.open()
        assert [source] == os.listdir(tmp_path / "volumes")
        assert [source] == list(read_state(tmp_path).volumes)
        assert {"file": "old"} == files(driver, await created(driver, "clone", **of_volume(source)))


@each_row(
    ("error", "code", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), Code.RESOURCE_EXHAUSTED, "can't be copied: No space left"),
        (
            PermissionError(errno.EPERM, "Operation not permitted"),
            Code.INTERNAL,
            "can't be copied: Operation not permitted",
        ),
    ],
)
async def test_a_copy_that_fails_leaves_nothing_and_is_tried_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, code: Code, text: str
) -> None:
    with a_driver(tmp_path) as driver:
        source = await a_volume_with_data(driver)
        request = a_creation("clone", **of_volume(source))
        with monkeypatch.context() as patch:

            def fail(_source: str, target: str, _check: object) -> None:
                (Path(target) / "half").write_text("half")
                raise error

            patch.setattr(statefile, "copy_folder", fail)
            await refused(driver.create_volume(request), code, text)
            await refused(driver.create_snapshot(a_snapshot_of(source)), code, text)
        assert [source] == os.listdir(tmp_path / "volumes")
        assert [] == os.listdir(tmp_path / "snapshots")
        assert [source] == [
            one.volume.volume_id for one in (await driver.list_volumes(csi.ListVolumesRequest())).entries
        ]
        assert {"file": "old"} == files(driver, (await driver.create_volume(request)).volume.volume_id)
        await snapshotted(driver, source)


async def test_a_copy_whose_record_the_disk_refuses_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_state: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    with a_driver(tmp_path) as driver:
        source = await a_volume_with_data(driver)
        with monkeypatch.context() as patch:
            patch.setattr(statefile, "encoded", full)
            patch.setattr(StateFolder, "copy", None)
            await refused(
                driver.create_volume(a_creation("clone", **of_volume(source))),
                Code.RESOURCE_EXHAUSTED,
                "save its state",
            )
        await created(driver, "clone", **of_volume(source))


async def test_a_copy_whose_caller_gives_up_begins_once_its_record_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another write goes on. The disk may refuse the record yet: what was copied by then would be nobody's, for
    ever.
    """
    begun, may_end, error = threading.Event(), threading.Event(), [OSError(errno.ENOSPC, "No space left on device")]
    encoded, copies = statefile.encoded, Gate(monkeypatch)

    def slow(state: Any) -> bytes:
        begun.set()
        assert may_end.wait(20)
        if error:
            raise error[0]
        return encoded(state)

    async def given_up(driver: HostPath) -> None:
        begun.clear()
        may_end.clear()
        other = asyncio.create_task(driver.create_volume(a_creation("other")), name="other")
        await asyncio.to_thread(begun.wait, 20)
        clone = asyncio.create_task(driver.create_volume(a_creation("clone", **of_volume(source))), name="clone")
        await asyncio.sleep(0)
        clone.cancel()
        await asyncio.sleep(0.05)
        assert 0 == copies.copies
        may_end.set()
        await asyncio.wait([other, clone])
        assert (bool(error), True) == (other.exception() is not None, clone.cancelled())

    copies.open()
    with a_driver(tmp_path) as driver:
        source = await a_volume_with_data(driver)
        monkeypatch.setattr(statefile, "encoded", slow)
        await given_up(driver)
        assert [source] == os.listdir(tmp_path / "volumes")
        error.clear()
        await given_up(driver)
        await copies.reach()


async def test_a_copy_has_ended_also_where_the_disk_refuses_to_hear_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record would be of a copy that is under way, which nobody makes: it could be neither used nor deleted before
    the next start.
    """
    encoded = statefile.encoded

    def torn(state: Any) -> bytes:
        if not any(state.filling()):
            raise OSError(errno.EIO, "Input/output error")
        return encoded(state)

    with a_driver(tmp_path) as driver:
        source = await a_volume_with_data(driver)
        with monkeypatch.context() as patch:
            patch.setattr(statefile, "encoded", torn)
            await refused(driver.create_snapshot(a_snapshot_of(source)), Code.INTERNAL, "Input/output error")
        [found] = (await driver.list_snapshots(csi.ListSnapshotsRequest())).entries
        assert found.snapshot.ready_to_use
        await driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=found.snapshot.snapshot_id))
        assert [] == os.listdir(tmp_path / "snapshots")


async def test_what_a_failed_copy_leaves_is_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_source: str, target: str, _check: object) -> None:
        (Path(target) / "half").write_text("half")
        monkeypatch.setattr(statefile, "remove_tree", fail_too)
        raise OSError(errno.EIO, "Input/output error")

    def fail_too(_path: Path) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    with a_driver(tmp_path) as driver:
        source = await a_volume_with_data(driver)
        monkeypatch.setattr(statefile, "copy_folder", fail)
        await refused(driver.create_volume(a_creation("clone", **of_volume(source))), Code.INTERNAL, "can't be copied")
        monkeypatch.undo()
        (left,) = set(os.listdir(tmp_path / "volumes")) - {source}
        other = await created(driver, "other")
    with a_driver(tmp_path, randomness=Random(8)):
        assert sorted((source, other)) == sorted(os.listdir(tmp_path / "volumes")), left
