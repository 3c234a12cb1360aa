"""Bugs to plant in the node agent: in records and folders, and in what a new agent makes of those that it finds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

from mooring.control.result import Result
from mooring.node.volumes import controller
from mooring.node.volumes.leftovers import PodFolders
from mooring.node.volumes.reasons import PodGone
from mooring.node.volumes.state import folders, on_disk
from mooring.node.volumes.state.actual import Stand, VolumeState
from mooring.node.volumes.state.folders import VolumeFiles
from mooring.node.volumes.steps.block import BlockFiles
from mooring.node.volumes.steps.file_system import FileSystemSteps
from mooring.node.volumes.steps.threads import Threads
from tests.sim.node.mended import LEFT
from tests.sim.planting import Bug

Planted = contextlib.AbstractContextManager[Any]


def _records_go_first() -> Planted:
    """The record of a publication is removed before the driver takes the volume back."""
    unpublish = FileSystemSteps.unpublish

    async def hasty(self: FileSystemSteps, state: VolumeState, uid: str) -> None:
        target = self._layout.target(uid, state.publications[uid].spec_name)
        await self._on_disk(state.volume, "TearDown", folders.remove_record, target.parent)
        await unpublish(self, state, uid)

    return mock.patch.object(FileSystemSteps, "unpublish", hasty)


def _records_come_last() -> Planted:
    """The record of a publication is written after the driver's answer."""

    def begin(self: VolumeFiles, folder: Path, record: Mapping[str, str], own: str = "") -> None:
        folder.joinpath(own).mkdir(parents=True, exist_ok=True)

    return mock.patch.object(VolumeFiles, "begin", begin)


def _found_volumes_are_mounted() -> Planted:
    """What records tell of after a restart is taken for done."""
    find_volumes = on_disk.find_volumes

    def sure(*args: Any) -> on_disk.OnDisk:
        volumes = find_volumes(*args)
        for state in volumes.states:
            for publication in state.publications.values():
                publication.stand = Stand.DONE
        return volumes

    return mock.patch.object(controller, "find_volumes", sure)


def _nothing_is_found() -> Planted:
    """An agent begins as if nothing was on the disk."""
    return mock.patch.object(controller, "find_volumes", return_value=on_disk.OnDisk())


def _devices_leave_no_mark() -> Planted:
    """Before the driver makes a device for a pod, nothing on the disk says so."""
    original = BlockFiles.map

    def begin_publish(self: BlockFiles, spec_name: str, uid: str) -> None:
        self._layout.block_publish(spec_name, uid).parent.mkdir(parents=True, exist_ok=True)

    def mapped(self: BlockFiles, spec_name: str, uid: str) -> None:
        file = self._layout.block_map(spec_name) / uid
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        original(self, spec_name, uid)

    return mock.patch.multiple(BlockFiles, begin_publish=begin_publish, map=mapped)


def _files_are_cleared() -> Planted:
    """Before the driver is asked to take a volume back, its folder is cleared."""
    original = FileSystemSteps.unpublish

    def cleared(folder: Path) -> None:
        for path in sorted(folder.rglob("*"), reverse=True):
            os.unlink(path)

    async def unpublish(self: FileSystemSteps, state: VolumeState, uid: str) -> None:
        await self._on_disk(
            state.volume, "TearDown", cleared, self._layout.target(uid, state.publications[uid].spec_name)
        )
        await original(self, state, uid)

    return mock.patch.object(FileSystemSteps, "unpublish", unpublish)


def _folders_are_tried_once() -> Planted:
    """The folder of a pod that is gone is left where it could not be removed at once."""
    return mock.patch.object(PodFolders, "_clean_up", mock.AsyncMock(return_value=Result(PodGone())))


def _late_work_is_not_awaited() -> Planted:
    """Work on files that was given up may come to its end after what was begun later."""
    return mock.patch.object(Threads, "_leave", return_value=None)


DISK_BUGS: Final[Mapping[str, Bug]] = {
    "devices-unmarked": Bug(_devices_leave_no_mark, {"pod-dropped", *LEFT}),
    "records-first": Bug(_records_go_first, {"record-dropped"}),
    "records-missing": Bug(_records_come_last, {"unrecorded"}),
    "found-trusted": Bug(_found_volumes_are_mounted, {"running-without", "pod-stuck"}),
    "nothing-found": Bug(_nothing_is_found, {"pod-dropped", "not-in-use", "detached-in-use", *LEFT}),
    "files-cleared": Bug(_files_are_cleared, {"deleted-in-mount"}),
    "folders-tried-once": Bug(_folders_are_tried_once, {"folder-left"}),
    "late-work-unawaited": Bug(_late_work_is_not_awaited, {"record-dropped", "unrecorded", *LEFT}),
}
