"""Names made of a driver and a volume's handle: of VolumeAttachments, and of volumes in a Node's status."""

from __future__ import annotations

import functools
import hashlib
from typing import Final

from mooring.api.core import PersistentVolumeSpec
from mooring.api.pods import Volume

PLUGIN: Final = "kubernetes.io/csi"
ISCSI: Final = "kubernetes.io/iscsi"
FC: Final = "kubernetes.io/fc"


def digest(*parts: str) -> str:
    """SHA-256 of the parts, one after the other, as 64 lower-case hex digits."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()


@functools.lru_cache(maxsize=1024)
def attachment_name(driver: str, handle: str, node: str) -> str:
    """The name of the VolumeAttachment of a volume on a node."""
    return f"csi-{digest(handle, driver, node)}"


def unique_name(driver: str, handle: str) -> str:
    """The name of a PersistentVolume's volume, as in node.status.volumesInUse. A handle may have a ^, a driver's name
    has none.
    """
    return f"{PLUGIN}/{driver}^{handle}"


def split_unique_name(name: str) -> tuple[str, str] | None:
    """Driver and handle, None for a name that is not of a PersistentVolume's CSI volume."""
    driver, found, handle = name.removeprefix(f"{PLUGIN}/").partition("^")
    return (driver, handle) if found and name.startswith(f"{PLUGIN}/") else None


def name_of_node_attached(source: PersistentVolumeSpec | Volume) -> str:
    """The name, in a Node's status, of an iSCSI or Fibre Channel volume, which nodes attach themselves; "" for others.

    source: a PersistentVolume's spec, or a pod's volume.
    """
    if (iscsi := source.iscsi) is not None:
        return f"{ISCSI}/{iscsi.target_portal}:{iscsi.iqn}:{iscsi.lun}"
    if (fc := source.fc) is None:
        return ""
    if fc.target_wwns and fc.lun is not None:
        return f"{FC}/[{' '.join(fc.target_wwns)}]:{fc.lun}"
    return f"{FC}/[{' '.join(fc.wwids)}]" if fc.wwids else ""


def is_node_attached(name: str) -> bool:
    """name: in a Node's status."""
    return name.startswith((f"{ISCSI}/", f"{FC}/"))
