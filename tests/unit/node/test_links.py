"""A node whose folders an administrator has led elsewhere by links: root, plugins and pods, each and together. The
kernel gives mounts their paths without links, and the agent has them by way of the links.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.api.pods import PODS
from mooring.mounts import targets
from tests.support.fake_mounts import FakeMounts
from tests.support.node_driver import STAGE, UNPUBLISH, UNSTAGE
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import VolumesWorld

LED = ("root", "root/plugins", "root/plugins/kubernetes.io", "root/plugins/kubernetes.io/csi", "root/pods")


class LedMounts(FakeMounts):
    """As the kernel has them."""

    def mount(self, point: str | Path, **how: str) -> None:
        super().mount(str(targets.plain(point)), **how)

    def unmount(self, point: str | Path, **how: bool) -> None:
        super().unmount(str(targets.plain(point)), **how)


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMounts:
    found = LedMounts(tmp_path / "mountinfo")
    monkeypatch.setattr(targets, "MOUNTINFO", found.file)
    return found


@each_row("led", [*((one,) for one in LED), (LED[1], LED[4]), LED[:2], LED], fresh=[mounts])
@in_virtual_time
async def test_a_volume_comes_and_goes_by_way_of_links(
    tmp_path: Path, mounts: FakeMounts, caplog: pytest.LogCaptureFixture, led: tuple[str, ...]
) -> None:
    for number, name in enumerate(led):
        (elsewhere := tmp_path / "elsewhere" / str(number)).mkdir(parents=True)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(elsewhere)
    world = VolumesWorld(tmp_path, mounts)
    async with world.agent():
        pod = await world.running_pod(await world.volume())
    world.driver.lies = True
    async with world.agent():  # which finds the volume on the disk
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH, 2)
        assert f"but {world.target(pod, 'vol')} is still mounted" in caplog.text
        world.driver.lies = False
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
    assert [] == mounts.points
    assert 1 <= len(world.driver.made(STAGE)) <= 2
    assert not [one for one in (tmp_path / "elsewhere").rglob("*") if not one.is_dir() and not one.is_symlink()]
