"""Names made of a driver and a volume's handle: of VolumeAttachments, and of volumes in a Node's status."""

from __future__ import annotations

import functools
import hashlib
from typing import Final

PLUGIN: Final = "kubernetes.io/csi"


def digest(*parts: str) -> str:
    """SHA-256 of the parts, one after the other, as 64 lower-case hex digits."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()


@functools.lru_cache(maxsize=1024)
def attachment_name(driver: str, handle: str, node: str) -> str:
    """The name of the VolumeAttachment of a volume on a node."""
    return f"csi-{digest(handle, driver, node)}"


def unique_name(driver: str, handle: str) -> str:
    """The name of a PersistentVolume's volume, as in node.status.volumesInUse. A handle may have a ^, a driver's name has none."""
    return f"{PLUGIN}/{driver}^{handle}"


def split_unique_name(name: str) -> tuple[str, str] | None:
    """Driver and handle, None for a name that is not of a PersistentVolume's CSI volume."""
    driver, found, handle = name.removeprefix(f"{PLUGIN}/").partition("^")
    return (driver, handle) if found and name.startswith(f"{PLUGIN}/") else None
