"""The use of a volume, from Kubernetes' words for it to CSI's; access modes as the Go library csi-lib-utils has
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.base.errors import MooringError
from mooring.csi.proto import csi_pb2 as csi

_Mode = csi.VolumeCapability.AccessMode

SINGLE_NODE_MODES: Final = frozenset(
    {
        _Mode.SINGLE_NODE_WRITER,
        _Mode.SINGLE_NODE_READER_ONLY,
        _Mode.SINGLE_NODE_SINGLE_WRITER,
        _Mode.SINGLE_NODE_MULTI_WRITER,
    }
)

RWO, ROX, RWX, RWOP = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"
_RWOP_MIXED: Final = (
    "Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume"
)
_ROX_AND_RWO: Final = "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume"


class AccessModeError(MooringError):
    """The access modes can't be expressed in CSI. The text is shown to users as it is."""


def access_mode(modes: Iterable[str] | None, single_node_multi_writer: bool) -> int:
    """The CSI access mode of a set of Kubernetes' ones; first match wins. Raises AccessModeError.

    single_node_multi_writer: the driver has that capability and so tells one writer from several on one node.
    """
    listed = list(modes or ())
    wanted = set(listed)
    if RWOP in wanted:
        if len(wanted) > 1:
            raise AccessModeError(_RWOP_MIXED)
        return _Mode.SINGLE_NODE_SINGLE_WRITER if single_node_multi_writer else _Mode.SINGLE_NODE_WRITER
    if RWX in wanted:
        return _Mode.MULTI_NODE_MULTI_WRITER
    if {ROX, RWO} <= wanted:
        raise AccessModeError(_ROX_AND_RWO)
    if ROX in wanted:
        return _Mode.MULTI_NODE_READER_ONLY
    if RWO in wanted:
        return _Mode.SINGLE_NODE_MULTI_WRITER if single_node_multi_writer else _Mode.SINGLE_NODE_WRITER
    raise AccessModeError(f"unsupported AccessMode combination: [{' '.join(listed)}]")


def volume_capability(
    modes: Iterable[str] | None,
    volume_mode: str | None,
    fs_type: str,
    mount_options: Iterable[str] | None,
    single_node_multi_writer: bool,
) -> csi.VolumeCapability:
    """Mode, and block or mount. Raises AccessModeError."""
    mode = _Mode(mode=access_mode(modes, single_node_multi_writer))  # type: ignore[arg-type]
    if volume_mode == "Block":
        return csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    mount = csi.VolumeCapability.MountVolume(fs_type=fs_type, mount_flags=mount_options or ())
    return csi.VolumeCapability(access_mode=mode, mount=mount)
