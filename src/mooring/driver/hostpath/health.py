"""The condition of a volume, in csi-driver-host-path's words where something is wrong. Everything here blocks, for moments."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.node.mounting import Mounts, Source
from mooring.driver.hostpath.state import Volume


def controller_condition(volume: Volume, data: Path) -> csi.VolumeCondition:
    """As the controller sees it: the data is there, and the file system below has room for it."""
    if volume.is_filling:
        return csi.VolumeCondition(message="the volume's data is being copied")
    try:
        below = os.statvfs(data)
    except OSError:
        return csi.VolumeCondition(abnormal=True, message="The source path of the volume doesn't exist")
    if volume.capacity_bytes > below.f_blocks * below.f_frsize:
        return csi.VolumeCondition(abnormal=True, message="The capacity of volume is greater than actual storage")
    if not below.f_bavail:
        return csi.VolumeCondition(abnormal=True, message="The free space of the volume is insufficient")
    return csi.VolumeCondition(message=f"the volume's {'file' if volume.is_file else 'folder'} is there")


def node_condition(mounts: Mounts, source: Source, path: Path) -> csi.VolumeCondition:
    """As a node sees it: the data is there, and at the path. Raises OSError."""
    if not source.path.exists():
        return csi.VolumeCondition(abnormal=True, message="The source path of the volume doesn't exist")
    if not mounts.shows(source, path):
        return csi.VolumeCondition(abnormal=True, message="The volume isn't mounted")
    return csi.VolumeCondition(message="the volume is mounted")
