"""Records and names on the disk that nobody would write: the agent starts, says what is wrong, and every other volume
goes on.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mooring.api.pods import PODS
from mooring.api.volume_names import attachment_name, digest
from mooring.node.layout import BadName, KubeletLayout
from mooring.node.volumes import leftovers
from mooring.node.volumes.state import folders, on_disk
from mooring.node.volumes.steps import file_system
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import Bound, VolumesWorld, world

HOSTILE = ["..", "../..", "../../../../outside", "a/../../b", "/etc", "x" * 256, "ä" * 128, "a\0b", "."]
BROKEN = ["", "{", "[]", "null", '{"driverName":"d1"}', "\0", '{"driverName":1,"volumeHandle":"x"}', '{"a":' * 5000]
FOREIGN = [
    '{"driverName":"d1","volumeHandle":"\\ud800","specVolID":"x"}',
    '{"driverName":"\\udfff","volumeHandle":"h","specVolID":"x"}',
]


def put(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / folders.RECORD).write_text(text)


def a_record(spec_name: str, driver: str = "d1", handle: str = "h", mode: str = "Persistent") -> str:
    name = attachment_name(driver, handle, "n")
    return json.dumps(folders.publish_record(driver, handle, spec_name=spec_name, node="n", attachment=name, mode=mode))


@each_row("name", HOSTILE)
def test_no_name_leads_out_of_its_folder(name: str) -> None:
    """Slashes become tildes, as in the kubelet; what is still no single folder is refused."""
    layout = KubeletLayout(Path("/r"))
    try:
        found = layout.target("uid", name)
    except BadName:
        pass
    else:
        assert (Path("/r/pods/uid/volumes/kubernetes.io~csi"), "..") == (found.parent.parent, "..")
        assert found.parent.name not in ("..", ".")
    with pytest.raises(BadName):
        layout.pod(name if "/" in name or name in ("..", ".") or "\0" in name or len(name) > 127 else "")


async def goes_on(world: VolumesWorld, volume: Bound) -> None:
    """Another pod gets its volume, and gives it back."""
    async with world.agent():
        pod = await world.running_pod(volume)
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)


@each_row("text", BROKEN + FOREIGN, fresh=[world])
@each_row("place", ["pods/uid-old/volumes/kubernetes.io~csi/x", "plugins/kubernetes.io/csi/d1/aa", "block"])
@in_virtual_time
async def test_a_broken_record_is_named_and_left_as_it_is(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture, place: str, text: str
) -> None:
    folder = world.layout.block_record_folder("x") if place == "block" else world.layout.root / place
    put(folder, text)
    await goes_on(world, await world.volume())
    assert text == (folder / folders.RECORD).read_text()
    assert "put it right" in caplog.text
    assert str(folder) in caplog.text


@in_virtual_time
async def test_a_raw_device_s_record_with_a_slash_in_its_name_keeps_no_agent_from_starting(world: VolumesWorld) -> None:
    """Its folder's name fits, and yet the name is that of no single folder."""
    put(world.layout.block_record_folder("a~b"), a_record("a/b", mode=""))
    async with world.agent():
        await world.running_pod(await world.volume())


@each_row("name", HOSTILE, fresh=[world])
@each_row("place", ["pods", "block"])
@in_virtual_time
async def test_a_record_with_another_volume_s_name_leads_nowhere(world: VolumesWorld, place: str, name: str) -> None:
    mode = "Persistent" if place == "pods" else ""
    if place == "pods":
        put(world.layout.target("uid-old", "x").parent, a_record(name))
    else:
        put(world.layout.block_record_folder("x"), a_record(name, mode=mode))
    await goes_on(world, await world.volume())
    assert {"handle-vol"} == {
        call.request.volume_id for call in world.driver.calls if call.method != "NodeGetCapabilities"
    }


@each_row("driver", ["..", "../../..", "/", "x" * 256, "d2"], fresh=[world])
@in_virtual_time
async def test_a_staging_record_of_another_driver_s_folder_is_not_believed(world: VolumesWorld, driver: str) -> None:
    folder = world.layout.csi / "d1" / digest("h")
    put(folder, json.dumps(folders.staging_record(driver, "h")))
    await goes_on(world, await world.volume())
    assert (folder / folders.RECORD).is_file()
    assert {"handle-vol"} == {
        call.request.volume_id for call in world.driver.calls if call.method != "NodeGetCapabilities"
    }


@each_row("driver", ["..", "../../..", "/", "x" * 256, ""], fresh=[world])
@in_virtual_time
async def test_a_publish_record_with_no_driver_s_name_ends_nothing(world: VolumesWorld, driver: str) -> None:
    put(world.layout.target("uid-old", "x").parent, a_record("x", driver))
    await goes_on(world, await world.volume())


@in_virtual_time
async def test_folders_with_names_that_are_no_text_end_nothing(world: VolumesWorld) -> None:
    world.layout.pods.mkdir(parents=True)
    for name in (b"\xff\xfe", b"a\nb", b" ", "\u202e".encode(), b"\xc3" * 255):
        os.makedirs(os.path.join(os.fsencode(world.layout.pods), name, b"volumes", b"kubernetes.io~csi", b"\xff"))
    await goes_on(world, await world.volume())


@each_row("kind", ["file", "link", "pipe", "socket", "folder"], fresh=[world])
@in_virtual_time
async def test_things_in_the_place_of_folders_and_records_are_passed_over(world: VolumesWorld, kind: str) -> None:
    outside = world.layout.root.parent / "outside"
    put(outside / "kubernetes.io~csi" / "x", a_record("x"))
    folder = world.layout.target("uid-old", "x").parent
    folder.mkdir(parents=True)
    for path in (folder / folders.RECORD, world.layout.csi / "d1" / "aa", world.layout.pods / "uid-b"):
        path.parent.mkdir(parents=True, exist_ok=True)
        match kind:
            case "file":
                path.write_text("")
            case "link":
                path.symlink_to(outside)
            case "pipe":
                os.mkfifo(path)
            case "socket":
                os.mknod(path, 0o140600)
            case "folder":
                path.mkdir()
    await goes_on(world, await world.volume())
    assert (outside / "kubernetes.io~csi" / "x" / folders.RECORD).is_file()


@in_virtual_time
async def test_a_broken_publish_record_of_a_pod_that_is_there_is_written_anew(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume())
    folder = world.target(pod, "vol").parent
    (folder / folders.RECORD).write_text("{")
    world.driver.calls.clear()
    async with world.agent():
        await world.until_calls(STAGE, PUBLISH)
        assert "vol" == (world.record(folder) or {})["specVolID"]
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        assert [] == world.left()


@each_row("text", BROKEN, fresh=[world])
@in_virtual_time
async def test_a_volume_whose_staging_record_broke_stays_in_use_until_it_is_put_right(
    world: VolumesWorld, text: str
) -> None:
    """The pod went while the agent was away. Whoever forgets the volume here lets it be detached under its mount."""
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
    folder = world.staging(volume).parent
    (folder / folders.RECORD).write_text(text)
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    world.driver.calls.clear()
    async with world.agent():
        await world.until_calls(UNPUBLISH)
        await world.settle(30.0)
        assert ([UNPUBLISH], [volume.unique]) == (world.driver.calls_for_volumes(), await world.in_use())
    world.driver.calls.clear()
    async with world.agent():  # now the pod's record is gone, too: the Node's own list tells whose folder it is
        await world.settle(30.0)
        assert ([], [volume.unique]) == (world.driver.calls_for_volumes(), await world.in_use())
        folders.write_record(folder, folders.staging_record("d1", volume.handle))
        await world.until_calls(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


@in_virtual_time
async def test_a_temporary_file_of_a_record_that_was_cut_off_is_removed(world: VolumesWorld) -> None:
    folder = world.layout.target("uid-old", "x").parent
    folder.mkdir(parents=True)
    (folder / f".{folders.RECORD}.tmp").write_text('{"driver')
    await goes_on(world, await world.volume())
    assert not world.layout.pod("uid-old").exists()


@each_row("is_found_broken", [True, False], ids=["broken", "can-t-be-read"], fresh=[world])
@in_virtual_time
async def test_a_publish_record_of_a_pod_that_is_gone_is_waited_for(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_found_broken: bool
) -> None:
    """It is told again and again, with its path; once it can be read the volume is taken back, without a restart."""
    async with world.agent():
        volume, other = await world.volume(), await world.volume("other")
        pod = await world.running_pod(volume)
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    world.driver.calls.clear()
    folder, read = world.target(pod, "vol").parent, folders.read_record

    def fails(place: Path) -> dict[str, str] | None:
        if place != folder:
            return read(place)
        raise folders.BadRecord(f"{place}: broken") if is_found_broken else OSError(5, "Input/output error", str(place))

    with monkeypatch.context() as patched:
        for module in (file_system, on_disk, leftovers):
            patched.setattr(module, "read_record", fails)
        async with world.agent():
            await world.running_pod(other)
            await world.settle(5.0)
            caplog.clear()
            await world.settle(60.0)
            assert "is tried again" in caplog.text
            assert str(folder) in caplog.text
            assert {"handle-other"} == {
                call.request.volume_id for call in world.driver.made(UNPUBLISH, UNSTAGE, STAGE, PUBLISH)
            }
            assert volume.unique in await world.in_use()
            patched.undo()
            await world.until_called(UNSTAGE)
            assert [str(world.target(pod, "vol"))] == [
                call.request.target_path for call in world.driver.made(UNPUBLISH)
            ]
            await world.settle(5.0)
            assert not world.layout.pod(pod["metadata"]["uid"]).exists()
            assert [other.unique] == await world.in_use()


@each_row("is_alive", [True, False], fresh=[world])
@in_virtual_time
async def test_a_pod_s_folder_that_can_t_be_listed_holds_up_no_other(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_alive: bool
) -> None:
    async with world.agent():
        volume, other = await world.volume(), await world.volume("other")
        pod, gone = await world.running_pod(volume), await world.running_pod(other)
    await world.users.delete(PODS, gone["metadata"]["name"], "default", grace_period_s=0)
    if not is_alive:
        await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    world.driver.calls.clear()
    folder, scandir = world.layout.pod_volumes(pod["metadata"]["uid"]), os.scandir

    def fails(place: Any = ".") -> Any:
        if str(place) == str(folder):
            raise OSError(5, "Input/output error", str(place))
        return scandir(place)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", fails)
        async with world.agent():
            await world.until_called(UNSTAGE)
            await world.settle(30.0)
            assert {"handle-other"} == {call.request.volume_id for call in world.driver.made(UNPUBLISH, UNSTAGE)}
            assert str(folder) in caplog.text
            assert volume.unique in await world.in_use()
            patched.undo()
            if is_alive:
                await world.delete_pod(pod)
            await world.until_called(UNSTAGE, 2)
            await world.settle(5.0)
            assert ([], [], []) == (world.left(), world.mounts.points, await world.in_use())
