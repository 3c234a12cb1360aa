"""The places of a `mooring dev`, for calls that somebody makes by hand from another terminal: the driver's sockets, and
the paths of a volume on a node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api.volume_names import digest
from mooring.dev.plane import Plane
from mooring.node.layout import TARGET, KubeletLayout
from mooring.node.volumes.state.folders import BadRecord, read_record

WHERE: Final = "where"
"""The question for a plane's places, beside the turns of power."""
_BY_HAND: Final = "by-hand"
"""Stands for a pod's uid in the targets of calls by hand."""
_STAGING: Final = "staging_target_path"
_MADE_BY_CALLER: Final = ("NodeStageVolume", "NodePublishVolume")
"""Calls before which CSI wants the caller to make the staging folder, and the folder above the target."""


class NodePlace(msgspec.Struct, frozen=True):
    """socket: of the node's driver. root: the folder that is laid out as a kubelet's."""

    socket: str
    root: str


class Places(msgspec.Struct, frozen=True):
    """driver: its name. controller: the socket for calls of the controller. nodes: by name, {} for a driver without a
    node service.
    """

    driver: str
    controller: str
    nodes: dict[str, NodePlace]


def places_of(plane: Plane) -> Places:
    nodes = plane.nodes
    sockets: Mapping[str, Path] = {} if nodes is None else nodes.sockets
    roots: Mapping[str, Path] = {} if nodes is None else nodes.roots
    return Places(
        plane.driver_name,
        str(plane.socket),
        {name: NodePlace(str(socket), str(roots[name])) for name, socket in sockets.items()},
    )


def fill_paths(rpc: str, request: Any, driver: str, root: str) -> dict[str, Path]:
    """Set the empty path fields of a node call's request, and give those that were set.

    The target is that of a pod that has the volume, or one of its own; NodePublishVolume has its own in any case. The
    staging path is given where something is staged, and to the calls that stage and unstage.
    """
    layout, handle = KubeletLayout(Path(root)), request.volume_id if "volume_id" in _fields(request) else ""
    if not handle:
        return {}
    own, staging = layout.target(_BY_HAND, digest(handle)), layout.staging(driver, handle)
    target = own if rpc == "NodePublishVolume" or own.exists() else next(_targets(layout, driver, handle), own)
    paths = {"target_path": target, "volume_path": target}
    if rpc in ("NodeStageVolume", "NodeUnstageVolume") or staging.exists():
        paths[_STAGING] = staging
    paths = {name: path for name, path in paths.items() if name in _fields(request) and not getattr(request, name)}
    for name, path in paths.items():
        setattr(request, name, str(path))
    return paths


def make_folders(rpc: str, paths: Mapping[str, Path]) -> None:
    """Make what the caller of this call has to make before it."""
    for name, path in paths.items() if rpc in _MADE_BY_CALLER else ():
        (path if name == _STAGING else path.parent).mkdir(parents=True, exist_ok=True)


def _targets(layout: KubeletLayout, driver: str, handle: str) -> Iterator[Path]:
    """Where pods see the volume, by the records of the node's agent."""
    for folder in sorted(layout.pods.glob("*/volumes/*/*")):
        with contextlib.suppress(BadRecord, OSError):
            found = read_record(folder)
            if found is not None and (driver, handle) == (found["driverName"], found["volumeHandle"]):
                yield folder / TARGET


def _fields(request: Any) -> Mapping[str, object]:
    fields: Mapping[str, object] = request.DESCRIPTOR.fields_by_name
    return fields
