"""Defects of the reference driver that were mended, planted again: the simulation must find each by a law that tells of
it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.base.folders import sync_folder
from mooring.csi.errors import DriverError
from mooring.driver import guard
from mooring.driver.hostpath import creating, kept_file, statefile, volumes
from mooring.driver.hostpath.core import Core
from mooring.driver.hostpath.filling import Filling
from mooring.driver.hostpath.kept_file import KeptFile
from mooring.driver.hostpath.node import images, mounting
from mooring.driver.hostpath.node import targets as node_targets
from mooring.driver.hostpath.node.figures import Figures
from mooring.driver.hostpath.node.mount_mode import MountMode
from mooring.driver.hostpath.node.part import NodePart
from mooring.mounts import filesystems, loops, targets
from mooring.mounts.mountinfo import MountTable
from mooring.wire.grpc.codes import Code
from tests.sim.planting import Bug, both

Planted = contextlib.AbstractContextManager[Any]


def _copies_thaw_each_other() -> Planted:
    """The end of a copy lets the file system go on, also where another copy is under way."""

    @contextlib.contextmanager
    def held_still(file: Path, table: MountTable) -> Iterator[None]:
        loops.flush(file)
        frozen: tuple[int, ...] = ()
        with contextlib.suppress(Exception):  # it is frozen already
            frozen = images._frozen(file, table)
        try:
            yield
        finally:
            images._let_go(frozen)

    return mock.patch.object(images, "held_still", held_still)


def _copies_do_not_freeze() -> Planted:
    """A file system that is mounted is copied while it is written."""

    @contextlib.contextmanager
    def moving(self: MountMode, file: Path) -> Iterator[None]:
        yield

    return mock.patch.object(MountMode, "held_still", moving)


def _removals_cross_mounts() -> Planted:
    """What others have mounted in a volume's folder is removed with it."""
    return mock.patch.object(
        statefile, "remove_tree", lambda path: shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    )


def _unknown_is_empty() -> Planted:
    """A device on which blkid finds nothing is formatted."""
    return both(
        mock.patch.object(filesystems, "check_empty", return_value=None),
        mock.patch.object(filesystems, "signature_on", lambda device: _known(device)),
    )


def _known(device: Path) -> tuple[str, bool]:
    from mooring.mounts import system

    text = system.run("blkid", "-p", "-o", "export", str(device), allowed=(0, 2))
    return ("ext4", True) if "TYPE=ext4" in text else ("", False)


def _no_room_is_kept() -> Planted:
    """The state is written to a file that is made anew each time."""

    def write(self: KeptFile, content: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._twin)
        descriptor = os.open(self._twin, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, content, 0)
        finally:
            os.close(descriptor)
        self._twin.replace(self._path)
        sync_folder(self._path.parent)

    return both(
        mock.patch.object(KeptFile, "write", write), mock.patch.object(KeptFile, "keep_room", return_value=None)
    )


def _first_steps_are_all() -> Planted:
    """A mount that was to become read-only is taken for done."""
    return both(
        mock.patch.object(targets, "complete", return_value=None),
        mock.patch.object(mounting.targets, "complete", return_value=None),
    )


def _devices_have_one_path() -> Planted:
    """How full a block volume is can be asked only at the path that the driver has published."""

    async def mapped(self: Figures, volume: Any, path: Path) -> bool:
        return False

    return mock.patch.object(Figures, "_is_mapped", mapped)


def _unknown_parameters_are_refused() -> Planted:
    """A class may have no parameter that the driver does not know."""

    def tell(parameters: Mapping[str, str], *known: str) -> None:
        if unknown := sorted(set(parameters) - set(known[:-1])):
            raise DriverError(Code.INVALID_ARGUMENT, f"parameters: unknown: {unknown}")

    return both(mock.patch.object(volumes, "tell_ignored", tell), mock.patch.object(creating, "tell_ignored", tell))


def _ends_are_undone() -> Planted:
    """A write that fails takes back that a copy has ended: it is called under way for ever."""
    return mock.patch.object(Filling, "_with_ends", lambda self, state: state)


def _state_is_not_synced() -> Planted:
    """The new state takes its place before the disk has it."""

    def write(self: KeptFile, content: bytes) -> None:
        with kept_file._opened(self._twin) as twin:
            kept_file._overwrite(twin, kept_file._padded(content, os.fstat(twin).st_size))
        kept_file._exchange(self._twin, self._path)
        self._keep(kept_file._room(content))

    return mock.patch.object(KeptFile, "write", write)


def _uses_are_not_kept() -> Planted:
    """A volume is mounted, and no record says so."""
    return mock.patch.object(NodePart, "save_use", return_value=None)


def _ready_at_once() -> Planted:
    """A snapshot is called ready before its data is there."""
    described = Core.described_snapshot
    return mock.patch.object(
        Core,
        "described_snapshot",
        lambda self, snapshot: described(self, msgspec.structs.replace(snapshot, is_filling=False)),
    )


def _sources_go() -> Planted:
    """What is being copied can be deleted."""
    return mock.patch.object(Core, "check_unread", return_value=None)


def _exact_sizes_are_refused() -> Planted:
    def fault(request: Any, advertised: Any) -> str | None:
        size = getattr(request, "capacity_range", None)
        return (
            "no such size"
            if size is not None and 0 < size.limit_bytes == size.required_bytes
            else request_fault(request, advertised)
        )

    request_fault = guard.request_fault
    return mock.patch.object(guard, "request_fault", fault)


def _groups_are_forgotten() -> Planted:
    """What is made later in a volume is not its group's."""
    return mock.patch.object(node_targets, "_give_to_group", lambda path, group: os.chown(path, -1, group))


BUGS: Final[Mapping[str, Bug]] = {
    "ends-undone": Bug(_ends_are_undone, {"refused"}),
    "copies-thaw": Bug(_copies_thaw_each_other, {"torn"}),
    "copies-unfrozen": Bug(_copies_do_not_freeze, {"torn"}),
    "removals-cross-mounts": Bug(_removals_cross_mounts, {"deleted-in-mount"}),
    "unknown-is-empty": Bug(_unknown_is_empty, {"formatted-over"}),
    "no-room-kept": Bug(_no_room_is_kept, {"refused"}),
    "first-steps-are-all": Bug(_first_steps_are_all, {"readonly-written"}),
    "devices-have-one-path": Bug(_devices_have_one_path, {"refused"}),
    "state-unsynced": Bug(_state_is_not_synced, {"unsynced"}),
    "uses-unkept": Bug(_uses_are_not_kept, {"unrecorded"}),
    "ready-at-once": Bug(_ready_at_once, {"early-ready"}),
    "sources-go": Bug(_sources_go, {"deleted-under-copy"}),
    "exact-sizes-refused": Bug(_exact_sizes_are_refused, {"refused"}),
    "groups-forgotten": Bug(_groups_are_forgotten, {"group-lost"}),
    "parameters-refused": Bug(_unknown_parameters_are_refused, {"refused"}),
}
