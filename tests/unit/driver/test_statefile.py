"""What the disk has is what was answered, whatever happened in between."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.base.errors import ConfigError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath import statefile
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.journal import StateJournal
from mooring.driver.hostpath.state import State, Volume
from mooring.driver.hostpath.statefile import StateFolder, decoded, encoded, read_state
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import a_creation, a_driver, a_publication, created, published_nodes, refused

ID = "vol-00000000-0000-4000-8000-000000000001"
OTHER_ID = "vol-00000000-0000-4000-8000-000000000002"


def a_volume(volume_id: str = ID, name: str = "pvc-1") -> Volume:
    return Volume(volume_id, name, 5, {})


def kept(folder: Path, state: State, *folders: str) -> None:
    """A state folder that a driver has left behind."""
    opened, _ = StateFolder.opened(folder)
    opened.write(state)
    opened.close()
    for name in folders:
        (folder / "volumes" / name).mkdir()


async def test_a_new_driver_takes_over_what_the_last_one_had(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        volume_id = await created(driver)
        before = await driver.controller_publish_volume(a_publication(volume_id))
        listed = await driver.list_volumes(csi.ListVolumesRequest())
    with a_driver(tmp_path) as driver:
        assert listed == await driver.list_volumes(csi.ListVolumesRequest())
        assert volume_id == await created(driver)
        assert before == await driver.controller_publish_volume(a_publication(volume_id))


def test_what_is_written_is_read_again() -> None:
    volume = Volume(ID, "ünicode name", 5, {"a": "b"})
    state = (
        State()
        .with_volume(volume)
        .with_publication(volume, "node-1", 1, readonly=True)
        .with_volume(a_volume(OTHER_ID, "gone"))
    )
    state = state.without(OTHER_ID)
    assert state == decoded(encoded(state))


def test_a_second_driver_is_kept_out(tmp_path: Path) -> None:
    with a_driver(tmp_path), pytest.raises(ConfigError, match=r"is in use by the driver of process \d+: stop it"):
        a_driver(tmp_path)
    with a_driver(tmp_path):
        pass


def test_a_driver_starts_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of its process, which the lock tells others, may have no room there."""
    with a_driver(tmp_path):
        pass
    pwrite = os.pwrite

    def full(descriptor: int, text: bytes, place: int) -> int:
        if place + len(text) > os.fstat(descriptor).st_size:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, text, place)

    monkeypatch.setattr(os, "pwrite", full)
    with (
        a_driver(tmp_path),
        pytest.raises(ConfigError, match=rf"is in use by the driver of process {os.getpid()}: stop it"),
    ):
        a_driver(tmp_path)


@each_row(
    ("text", "reason"),
    [
        (b"", "truncated"),
        (b'{"format":1,"state":{"volumes":{', "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[]", "Expected `object`"),
        (b'{"format":4,"state":{}}', "it has format 4, and this version reads formats 1 to 3"),
        (b'{"format":1,"state":{},"more":1}', "more"),
        (
            b'{"format":1,"state":{"volumes":{"../x":{"id":"../x","name":"n","capacity_bytes":1,"parameters":{}}}}}',
            "is no volume id",
        ),
        (b'{"format":1,"state":{"deleting":["../../etc"]}}', "is nothing that could be on its way out"),
        (encoded(State(volumes={ID: a_volume(OTHER_ID)})), "is no volume id"),
        (encoded(State(volumes={ID: a_volume(), OTHER_ID: a_volume(OTHER_ID)})), "two volumes have one name"),
        (encoded(State(volumes={ID: Volume(ID, "n", -1, {})})), "negative size"),
    ],
)
def test_a_damaged_state_file_is_refused_and_left_as_it_is(tmp_path: Path, text: bytes, reason: str) -> None:
    kept(tmp_path, State(), ID)
    (tmp_path / "state.json").write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        a_driver(tmp_path)
    assert f"state file '{tmp_path}/state.json' is damaged: " in str(caught.value)
    assert reason in str(caught.value)
    assert text == (tmp_path / "state.json").read_bytes()
    assert (tmp_path / "volumes" / ID).is_dir()


def test_volumes_without_a_state_file_are_not_taken_for_rubbish(tmp_path: Path) -> None:
    kept(tmp_path, State(), ID)
    (tmp_path / "state.json").unlink()
    with pytest.raises(ConfigError, match=r"has volumes and no state\.json"):
        a_driver(tmp_path)
    assert (tmp_path / "volumes" / ID).is_dir()
    assert not (tmp_path / "state.json").exists()


def test_a_folder_that_can_not_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="can't be used: Not a directory"):
        a_driver(tmp_path / "file" / "state")


def test_what_a_kill_left_behind_is_put_right(tmp_path: Path) -> None:
    """An unanswered creation and an unfinished deletion vanish; data that nobody owns, and foreign folders, stay."""
    unfinished, unowned = OTHER_ID, ID[:-1] + "3"
    kept(tmp_path, State().with_volume(a_volume(unfinished)).without(unfinished), ID, unfinished, unowned, "lost+found")
    for name in (unfinished, unowned):
        (tmp_path / "volumes" / name / "data").write_text("data")
    with a_driver(tmp_path):
        assert ["lost+found", unowned] == sorted(entry.name for entry in (tmp_path / "volumes").iterdir())


async def test_a_state_file_names_nothing_that_is_gone(driver: HostPath, tmp_path: Path) -> None:
    """People look there for whether the driver is empty."""
    for name in ("one", "two"):
        await driver.delete_volume(csi.DeleteVolumeRequest(volume_id=await created(driver, name)))
    assert State() == read_state(tmp_path)


async def test_a_volume_whose_folder_is_gone_is_still_known(tmp_path: Path) -> None:
    kept(tmp_path, State().with_volume(a_volume()))
    with a_driver(tmp_path) as driver:
        answer = await driver.controller_get_volume(csi.ControllerGetVolumeRequest(volume_id=ID))
        assert answer.status.volume_condition.abnormal


def test_a_disk_that_is_full_from_the_start_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(statefile, "encoded", _disk_full)
        with pytest.raises(ConfigError, match="can't be used: No space left on device"):
            a_driver(tmp_path)
    with a_driver(tmp_path):  # nothing holds the lock
        pass


def test_a_state_file_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").mkdir()
    with pytest.raises(ConfigError, match=r"can't be used: Is a directory: '.*/state\.json'"):
        a_driver(tmp_path)


async def test_a_full_disk_undoes_the_change_and_the_driver_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_driver(tmp_path) as driver:
        volume_id = await created(driver)
        with monkeypatch.context() as patch:
            patch.setattr(statefile, "encoded", _disk_full)
            await refused(
                driver.create_volume(a_creation("two")),
                Code.RESOURCE_EXHAUSTED,
                "could not save its state: No space left",
            )
            await refused(driver.controller_publish_volume(a_publication(volume_id)), Code.RESOURCE_EXHAUSTED)
        assert [] == await published_nodes(driver, volume_id)
        assert [volume_id] == [entry.name for entry in (tmp_path / "volumes").iterdir()]
        await created(driver, "two")
    assert {"pvc-1", "two"} == {volume.name for volume in read_state(tmp_path).volumes.values()}


def _disk_full(state: State) -> bytes:
    raise OSError(errno.ENOSPC, "No space left on device")


# The journal alone


class Disk:
    """Writes when the test lets it, and fails when told to."""

    def __init__(self) -> None:
        self.written: list[State] = []
        self.error: OSError | None = None
        self.on_write: Callable[[], None] = lambda: None

    def write(self, state: State) -> None:
        self.on_write()
        if self.error is not None:
            raise self.error
        self.written.append(state)


async def test_changes_made_together_travel_in_one_write() -> None:
    disk = Disk()
    journal = StateJournal(State(), disk.write)

    async def change(number: int) -> None:
        journal.put(journal.state.with_volume(a_volume(f"{ID[:-3]}{number:03}", f"pvc-{number}")))
        await journal.flushed()
        assert f"{ID[:-3]}{number:03}" in disk.written[-1].volumes

    await asyncio.gather(*(change(number) for number in range(50)))
    assert 50 == len(disk.written[-1].volumes)
    assert len(disk.written) <= 2


async def test_nothing_changed_is_nothing_written() -> None:
    disk = Disk()
    await StateJournal(State(), disk.write).flushed()
    assert [] == disk.written


async def test_a_change_put_during_a_failing_write_fails_with_it() -> None:
    """It was built on what is undone."""
    disk, loop = Disk(), asyncio.get_running_loop()
    journal = StateJournal(State(), disk.write)
    second: list[asyncio.Future[None]] = []
    disk.error = OSError(errno.EIO, "Input/output error")

    async with asyncio.TaskGroup() as group:

        async def change() -> None:
            journal.put(journal.state.with_volume(a_volume(OTHER_ID, "two")))
            await refused(journal.flushed(), Code.INTERNAL, "Input/output error")

        async def begin() -> None:
            second.append(group.create_task(change(), name="second"))

        disk.on_write = lambda: asyncio.run_coroutine_threadsafe(begin(), loop).result(5)
        journal.put(journal.state.with_volume(a_volume()))
        await refused(journal.flushed(), Code.INTERNAL, "Input/output error")
    assert second[0].done()
    assert State() == journal.state
    disk.error, disk.on_write = None, lambda: None
    journal.put(journal.state.with_volume(a_volume()))
    await journal.flushed()
    assert [ID] == list(disk.written[-1].volumes)


async def test_a_cancelled_caller_lets_the_write_end_and_nobody_writes_over_it() -> None:
    disk, loop = Disk(), asyncio.get_running_loop()
    journal = StateJournal(State(), disk.write)
    journal.put(journal.state.with_volume(a_volume()))
    caller = asyncio.ensure_future(journal.flushed())
    disk.on_write = lambda: loop.call_soon_threadsafe(caller.cancel) and None
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert [ID] == list(disk.written[0].volumes)
    await journal.flushed()
    assert 1 == len(disk.written)
