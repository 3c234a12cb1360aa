"""What is on the disk at a start: every record is a volume that may be mounted, and so are the folders of pods that are no more.

Reads records and the mount table; what is mounted itself is never touched. Source: kubelet 1.36, reconstruct.go. Differs: staged volumes
whose pods' records are gone are found, too, by the records beside their staging paths.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from mooring.base.log import logger
from mooring.node import records
from mooring.node.layout import Layout, digest, escaped, inline_unique_name, is_folder_name, split_unique_name, unique_name
from mooring.node.volumes.files import LeftOver, read_mount_table, remove_folder
from mooring.node.volumes.state import Publication, Stand, VolumeState
from mooring.node.volumes.volume import Volume

_log = logger(__name__)


@dataclasses.dataclass(slots=True)
class Found:
    """records_count, unread_count: records that were tried, and those of them that could not be read."""

    states: list[VolumeState] = dataclasses.field(default_factory=list)
    records_count: int = 0
    unread_count: int = 0

    def read(self, folder: Path, fits: Callable[[Mapping[str, str], Path], bool]) -> dict[str, str] | None:
        """The record of a folder, None where there is none that can be read. fits: whether a record belongs into a folder."""
        try:
            record = records.read(folder)
            if record is not None and not fits(record, folder):
                raise records.BadRecord(f"{folder / records.NAME}: it is another volume's: {record}")
        except (records.BadRecord, OSError) as error:
            _log.error("A volume's record can't be read; put it right, or remove it and what is mounted beside it", error=error)
            self.records_count += 1
            self.unread_count += 1
            return None
        self.records_count += record is not None
        return record


def find_volumes(layout: Layout, known_names: Iterable[str] = ()) -> Found:
    """Every volume that a record tells of, as uncertain. Blocks. Raises OSError when the folders themselves can't be read.

    known_names: of volumes that are attached, or were in use: they tell which one is staged where a record can't be read.
    """
    found, states = Found(), dict[str, VolumeState]()
    known = [parts for name in known_names if (parts := split_unique_name(name)) is not None]
    owners = {(driver, digest(handle)): records.staging_record(driver, handle) for driver, handle in known}
    for folder in _folders(layout.pods):
        for volume_folder in _folders(layout.pod_volumes(folder.name)):
            if (record := found.read(volume_folder, _is_published)) is not None:
                _published(states, layout, folder.name, record)
    for driver_folder in _folders(layout.csi):
        for volume_folder in _folders(driver_folder):
            record = found.read(volume_folder, _is_staged)
            if record is None and _has_record(volume_folder):
                record = owners.get((driver_folder.name, volume_folder.name))
            if record is not None:
                _staged(states, record)
    for spec_folder in _folders(layout.block):
        record = found.read(spec_folder / "data", _is_mapped)
        if record is not None:
            _mapped(states, layout, record)
    found.states = list(states.values())
    return found


def remove_unrecorded(layout: Layout) -> None:
    """Removes the folders of volumes that have no record, as far as they are empty and nothing is mounted below them.

    They were begun and not recorded, or taken back but for the folder, when the agent ended. Blocks. Raises OSError.
    """
    for driver_folder in _folders(layout.csi):
        if driver_folder != layout.block:
            for folder in _folders(driver_folder):
                _remove_unless_recorded(folder, folder / "globalmount", folder)
    for folder in _folders(layout.block):
        name = folder.name
        if folder not in (layout.block_staging(name).parent, layout.block_publish(name, "pod").parent.parent):
            others = (layout.block_staging(name), layout.block_publish(name, "pod").parent, layout.block_map(name))
            _remove_unless_recorded(folder / "data", *others, folder / "data", folder)


def _remove_unless_recorded(record_folder: Path, *folders: Path) -> None:
    try:
        if records.read(record_folder) is not None or any(read_mount_table().below(str(folder)) for folder in folders):
            return
        records.remove(record_folder)  # one that was not finished
        for folder in folders:
            remove_folder(folder)
    except (records.BadRecord, LeftOver) as error:
        _log.error("A folder without a volume's record can't be removed", error=error)


def remove_pod_folder(layout: Layout, uid: str) -> bool:
    """True when it is gone. Removes the folder of a pod that is no more, bottom up, if every folder is empty and nothing is mounted below.

    Blocks. Raises OSError and BadRecord for a folder that has something in it: nothing is ever removed with what it holds.
    """
    folder, own = layout.pod(uid), (layout.pod_volumes(uid), layout.pod_devices(uid))
    if read_mount_table().below(str(folder)):
        return False
    for path in (folder, own[0].parent, own[0], own[1].parent, own[1]):
        if path.is_symlink():
            raise OSError(errno.ELOOP, "a link in the place of a folder: look where it leads, and remove it by hand", str(path))
    for volume_folder in _folders(own[0]):
        if records.read(volume_folder) is None:
            records.remove(volume_folder)  # one that was not finished
    for path in sorted((*_tree(own[0]), *_tree(own[1])), key=lambda path: len(path.parts), reverse=True):
        os.rmdir(path)
    for path in (own[0].parent, own[1].parent, folder):
        if path.is_dir() and not any(path.iterdir()):
            os.rmdir(path)
    return not folder.exists()


def _tree(folder: Path) -> Iterator[Path]:
    if folder.is_dir() and not folder.is_symlink():
        yield folder
        for path in folder.iterdir():
            yield from _tree(path)


def _folders(folder: Path) -> Iterator[Path]:
    """Its folders, by name; links are passed over."""
    if not folder.is_dir():
        return
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)


def _is_published(record: Mapping[str, str], folder: Path) -> bool:
    return _spec_folder(record) == folder.name and is_folder_name(record["driverName"])


def _is_staged(record: Mapping[str, str], folder: Path) -> bool:
    return (record["driverName"], digest(record["volumeHandle"])) == (folder.parent.name, folder.name)


def _is_mapped(record: Mapping[str, str], folder: Path) -> bool:
    return _spec_folder(record) == folder.parent.name and is_folder_name(record["driverName"])


def _spec_folder(record: Mapping[str, str]) -> str:
    return escaped(record.get("specVolID", ""))


def _has_record(folder: Path) -> bool:
    """True also for one that can't be read."""
    return os.path.lexists(folder / records.NAME)


def _published(states: dict[str, VolumeState], layout: Layout, uid: str, record: dict[str, str]) -> None:
    driver, handle, spec_name = record["driverName"], record["volumeHandle"], record.get("specVolID", "")
    is_inline = record.get("volumeLifecycleMode") == records.EPHEMERAL
    unique = inline_unique_name(uid, spec_name) if is_inline else unique_name(driver, handle)
    volume = Volume(unique, driver, handle, spec_name, is_inline=is_inline, is_known=False)
    state = states.setdefault(unique, VolumeState(volume))
    state.publications[uid] = Publication(spec_name, Stand.UNCERTAIN, was_found=True)
    if not is_inline and _has_record(layout.staging(driver, handle).parent):
        state.device, state.device_was_found = Stand.UNCERTAIN, True
    state.label = record.get(records.LABEL, state.label)


def _mapped(states: dict[str, VolumeState], layout: Layout, record: dict[str, str]) -> None:
    """A raw device, with every pod for which a file or a link of it is there."""
    driver, handle, spec_name = record["driverName"], record["volumeHandle"], record.get("specVolID", "")
    unique = unique_name(driver, handle)
    state = VolumeState(Volume(unique, driver, handle, spec_name, is_block=True, is_known=False), Stand.UNCERTAIN, device_was_found=True)
    states[unique] = state
    linked = {folder.name for folder in _folders(layout.pods) if layout.block_link(folder.name, spec_name).is_symlink()}
    published = layout.block_publish(spec_name, "pod").parent
    for uid in sorted(linked | _names(published) | _names(layout.block_map(spec_name))):
        state.publications[uid] = Publication(spec_name, Stand.UNCERTAIN, was_found=True)


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()


def _staged(states: dict[str, VolumeState], record: dict[str, str]) -> None:
    driver, handle = record["driverName"], record["volumeHandle"]
    unique = unique_name(driver, handle)
    state = states.setdefault(unique, VolumeState(Volume(unique, driver, handle, "", is_known=False)))
    state.device, state.device_was_found = Stand.UNCERTAIN, True
    state.label = record.get(records.LABEL, state.label)
