"""What `mooring driver new` begins with: the rest of it is tested by the tests that come with it."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.skeleton.driver import Skeleton

MOUNTED = csi.VolumeCapability(mount={}, access_mode={"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER})


def modes_in(place: Path) -> dict[str, int]:
    return {
        path.relative_to(place).as_posix(): path.stat().st_mode & 0o777 for path in place.rglob("*") if path.is_dir()
    }


async def test_its_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    """A volume itself is open, for pods of any user: no other user of the node must come that far, whatever the
    umask.
    """
    before = os.umask(0)
    try:
        driver = Skeleton(tmp_path / "volumes", "here")
        made = await driver.create_volume(csi.CreateVolumeRequest(name="a", volume_capabilities=[MOUNTED]))
    finally:
        os.umask(before)
    modes = modes_in(tmp_path)
    volume = modes.pop(f"volumes/data/{made.volume.volume_id}")
    assert {"volumes": 0o700, "volumes/data": 0o700, "volumes/records": 0o700} == modes
    assert 0o777 == volume
