"""Folders that an agent has begun, or not quite removed, when it was killed: the next one removes them, as far as
nothing is in them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.node.layout import KubeletLayout
from mooring.node.volumes.leftovers import remove_pod_folder
from mooring.node.volumes.state import folders
from mooring.node.volumes.state.folders import LeftOver, VolumeFiles
from mooring.node.volumes.state.on_disk import remove_unrecorded
from tests.support.fake_mounts import FakeMounts
from tests.support.node_habits import LEAVINGS
from tests.support.rows import each_row
from tests.unit.node.volume_world import VolumesWorld, world

UNFINISHED = ".vol_data.json.tmp"


@pytest.fixture
def mounts(world: VolumesWorld) -> FakeMounts:
    return world.mounts


@pytest.fixture
def layout(world: VolumesWorld) -> KubeletLayout:
    return world.layout


def below(layout: KubeletLayout) -> list[str]:
    """All that is there but the folders that stay."""
    stays = {
        layout.csi,
        *layout.csi.parents,
        layout.csi / "d1",
        layout.block,
        layout.block / "staging",
        layout.block / "publish",
    }
    return sorted(str(path.relative_to(layout.root)) for path in layout.root.rglob("*") if path not in stays)


def made(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True)


def test_folders_without_a_record_go(layout: KubeletLayout) -> None:
    begun, ended = layout.staging("d1", "begun"), layout.staging("d1", "ended").parent
    made(begun, ended, layout.block_record_folder("b1"), layout.block_volume("b2"), layout.block_map("b3"))
    made(layout.block_publish("b3", "pod").parent)
    (begun.parent / UNFINISHED).write_text("{")
    (layout.block_record_folder("b1") / UNFINISHED).write_text("{")
    remove_unrecorded(layout)
    assert [] == below(layout)


def test_what_has_a_record_or_a_mount_or_content_stays(layout: KubeletLayout, mounts: FakeMounts) -> None:
    recorded, mounted, full, broken = (layout.staging("d1", name) for name in ("recorded", "mounted", "full", "broken"))
    made(recorded, full, broken, layout.block_record_folder("b1"))
    folders.write_record(recorded.parent, folders.staging_record("d1", "recorded"))
    folders.write_record(layout.block_record_folder("b1"), folders.staging_record("d1", "b1"))
    mounts.mount(mounted)
    (full / "file").write_text("a user's")
    (broken.parent / folders.RECORD).write_text("{")
    before = below(layout)
    remove_unrecorded(layout)
    assert before == below(layout)


def test_the_folder_of_a_pod_goes_with_a_record_that_was_not_finished(layout: KubeletLayout) -> None:
    folder = layout.target("uid", "v").parent
    made(folder)
    (folder / UNFINISHED).write_text("{")
    remove_pod_folder(layout, "uid")
    assert not layout.pod("uid").exists()


@each_row("leaves", LEAVINGS, fresh=[world, layout])
def test_what_a_driver_has_left_at_the_target_goes_with_the_folder_of_a_pod(layout: KubeletLayout, leaves: str) -> None:
    """The record was lost, and so the volume was not taken back for the pod."""
    target = layout.target("uid", "v")
    made(target.parent)
    LEAVINGS[leaves](target)
    remove_pod_folder(layout, "uid")
    assert not layout.pod("uid").exists()


def test_folders_that_are_nested_deeper_than_any_stack_go(layout: KubeletLayout) -> None:
    """Any pod can make them."""
    deepest = layout.pod("uid") / "volumes" / "kubernetes.io~empty-dir"
    made(deepest)
    for _ in range(1500):
        deepest /= "d"
        made(deepest)
    remove_pod_folder(layout, "uid")
    assert not layout.pod("uid").exists()


def test_the_folder_of_a_pod_stays_with_a_record(layout: KubeletLayout) -> None:
    folder = layout.target("uid", "v").parent
    made(folder)
    (folder / folders.RECORD).write_text("{")
    with pytest.raises(folders.BadRecord):
        remove_pod_folder(layout, "uid")
    assert (folder / folders.RECORD).exists()


def test_what_a_kubelet_has_left_beside_the_volumes_goes(layout: KubeletLayout) -> None:
    """As it leaves the folder of a pod that an agent has taken over."""
    folder = layout.pod("uid")
    made(
        layout.target("uid", "v").parent,
        folder / "containers" / "c",
        folder / "volumes" / "kubernetes.io~projected" / "token",
    )
    made(folder / "plugins" / "kubernetes.io~empty-dir" / "wrapped_token", folder / "volume-subpaths" / "v")
    (folder / "containers" / "c" / "2f1d4c3a").write_text("the end of a log")
    (folder / "etc-hosts").write_text("127.0.0.1 localhost")
    (folder / "plugins" / "kubernetes.io~empty-dir" / "wrapped_token" / "ready").touch()
    remove_pod_folder(layout, "uid")
    assert not folder.exists()


@each_row(
    "place",
    [
        "volumes/kubernetes.io~empty-dir/data/file",
        "volumes/kubernetes.io~csi/v/mount/file",
        "volume-subpaths/v/c/0",
        "plugins/x/ready",
        "unknown",
        "containers/c/link",
        "volumeDevices/kubernetes.io~csi/v",
    ],
    fresh=[world, layout],
)
def test_what_may_be_a_user_s_stays_and_is_named(layout: KubeletLayout, place: str) -> None:
    outside = layout.root / "outside"
    made(outside)
    path = layout.pod("uid") / place
    path.parent.mkdir(parents=True)
    if path.name == "link":
        path.symlink_to(outside)
    else:
        path.write_text("a user's")
    with pytest.raises(LeftOver, match=re.escape(str(path))):
        remove_pod_folder(layout, "uid")
    assert path.exists()
    assert outside.exists()


def test_nothing_goes_from_a_folder_with_a_mount_below(layout: KubeletLayout, mounts: FakeMounts) -> None:
    folder = layout.pod("uid")
    made(folder / "containers" / "c")
    (folder / "etc-hosts").touch()
    mounts.mount(folder / "volumes" / "kubernetes.io~projected" / "token")
    before = below(layout)
    with pytest.raises(LeftOver, match="token is still mounted"):
        remove_pod_folder(layout, "uid")
    assert before == below(layout)


def test_a_mount_is_not_looked_into_when_its_volume_is_begun_again(
    layout: KubeletLayout, mounts: FakeMounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = layout.staging("d1", "v")
    mounts.mount(staging)
    touched: list[Path] = []
    for name in ("chmod", "stat"):
        monkeypatch.setattr(Path, name, lambda path, *args, **options: touched.append(path))
    VolumeFiles(layout).begin(staging.parent, folders.staging_record("d1", "v"), staging.name)
    assert staging not in touched


def test_work_that_hangs_does_not_keep_the_process_from_its_end() -> None:
    """In a process of its own: it is the interpreter that would wait."""
    code = """
import asyncio, time
from mooring.node.volumes.steps.threads import Threads

async def main():
    threads = Threads()
    for work in (lambda: 1, lambda: 1 / 0, lambda: time.sleep(1000)):
        try:
            print(await threads.run("d1", work, limit_s=0.1))
        except (ZeroDivisionError, TimeoutError) as error:
            print(type(error).__name__)
    threads.close()

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ["1", "ZeroDivisionError", "TimeoutError"] == done.stdout.split()
