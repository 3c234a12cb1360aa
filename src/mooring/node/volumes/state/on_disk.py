"""The volumes on the disk at a start: every record is a volume that may be mounted, and so are the folders of pods that
are gone.

Reads records and the mount table; what is mounted itself is never touched. Source: kubelet 1.36, reconstruct.go.
Differs: staged volumes whose pods' records are gone are found, too, by the records beside their staging paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mooring.api.volume_names import digest, split_unique_name, unique_name
from mooring.base.log import logger
from mooring.mounts.mountinfo import MountTable
from mooring.node.layout import KubeletLayout, escaped, inline_unique_name, is_folder_name
from mooring.node.volumes.state.actual import Device, Publication, Stand, VolumeState
from mooring.node.volumes.state.desired import Volume
from mooring.node.volumes.state.folders import (
    EPHEMERAL,
    LABEL,
    RECORD,
    BadRecord,
    LeftOver,
    mounts_of,
    read_record,
    remove_folder,
    remove_record,
    staging_record,
)
from mooring.node.volumes.state.in_use import Places

_log = logger(__name__)

_STAYS: Final = "A folder without a volume's record can't be removed"


class OnDisk(msgspec.Struct):
    """records_count, unread_count: records that were tried, and those of them that could not be read.

    unread: where something may be of which no record tells.
    """

    states: list[VolumeState] = msgspec.field(default_factory=list)
    unread: Places = msgspec.field(default_factory=Places)
    records_count: int = 0
    unread_count: int = 0

    def read(self, folder: Path, fits: Callable[[Mapping[str, str], Path], bool]) -> dict[str, str] | None:
        """The record of a folder, None where there is none that can be read. fits: whether a record belongs into a
        folder.
        """
        try:
            record = read_record(folder)
            if record is not None and not fits(record, folder):
                raise BadRecord(f"{folder / RECORD}: it is another volume's: {record}")
        except (BadRecord, OSError) as error:
            _log.error(
                "A volume's record can't be read; put it right, or remove it and what is mounted beside it", error=error
            )
            self.records_count += 1
            self.unread_count += 1
            return None
        self.records_count += record is not None
        return record


def find_volumes(layout: KubeletLayout, known_names: Iterable[str] = ()) -> OnDisk:
    """Every volume that a record tells of, as uncertain. Blocks. Raises OSError when the folders of all pods or drivers
    can't be listed.

    known_names: of volumes that are attached, or were in use: they tell which one is staged where a record can't be
    read.
    """
    found, states, mounts = OnDisk(), dict[str, VolumeState](), mounts_of(layout)
    known = [parts for name in sorted(known_names) if (parts := split_unique_name(name)) is not None]
    owners = {(driver, digest(handle)): staging_record(driver, handle) for driver, handle in known}
    for folder in folders_in(layout.pods):
        try:
            _read_pod(found, states, layout, folder.name, mounts)
        except OSError as error:
            _log.error(
                "The volumes in a pod's folder can't be listed; that is tried again", error=error, folder=str(folder)
            )
            found.unread.unlisted_pods.add(folder.name)
            if mounted := _mounted_in(layout.pod_volumes(folder.name), mounts):
                found.unread.in_pods[folder.name] = mounted
    for driver_folder in folders_in(layout.csi):
        try:
            volume_folders = list(folders_in(driver_folder))
        except OSError as error:
            _log.error("The volumes of a driver can't be listed; those that are attached count as staged", error=error)
            volume_folders = [driver_folder / name for driver, name in owners if driver == driver_folder.name]
        for volume_folder in volume_folders:
            record = found.read(volume_folder, _is_staged)
            if record is None and (_has_record(volume_folder) or mounts.below(str(volume_folder))):
                record = owners.get((driver_folder.name, volume_folder.name))
            if record is not None:
                _staged(states, record)
    for spec_folder in folders_in(layout.block):
        _read_device(found, states, layout, spec_folder.name, mounts)
    found.states = list(states.values())
    return found


def names_on_disk(layout: KubeletLayout) -> list[str]:
    """The volumes that records tell of, as a Node names those in use; pods bring inline ones along. Blocks. Raises
    OSError.
    """
    return sorted(state.volume.unique for state in find_volumes(layout).states if not state.volume.is_inline)


def find_in_pod(layout: KubeletLayout, uid: str) -> OnDisk:
    """The volumes that records in one pod's folder tell of. Blocks. Raises OSError when they can't be listed."""
    found, states = OnDisk(), dict[str, VolumeState]()
    _read_pod(found, states, layout, uid, mounts_of(layout))
    found.states = list(states.values())
    return found


def find_device(layout: KubeletLayout, folder: str) -> OnDisk:
    """The raw device that the record in its folder tells of. Blocks. Raises OSError."""
    found, states = OnDisk(), dict[str, VolumeState]()
    _read_device(found, states, layout, folder, mounts_of(layout))
    found.states = list(states.values())
    return found


def _read_pod(
    found: OnDisk, states: dict[str, VolumeState], layout: KubeletLayout, uid: str, mounts: MountTable
) -> None:
    unread = set(_mounted_in(layout.pod_volumes(uid), mounts))
    for volume_folder in list(folders_in(layout.pod_volumes(uid))):
        if (record := found.read(volume_folder, _is_published)) is not None:
            _published(states, layout, uid, record)
            unread.discard(volume_folder.name)
        elif _has_record(volume_folder):
            unread.add(volume_folder.name)
    if unread:
        _log.error(
            "Volumes may be mounted in a pod's folder, and no record tells which", pod_uid=uid, folders=sorted(unread)
        )
        found.unread.in_pods[uid] = frozenset(unread)


def _read_device(
    found: OnDisk, states: dict[str, VolumeState], layout: KubeletLayout, folder: str, mounts: MountTable
) -> None:
    record_folder = layout.block_record_folder(folder)
    if (record := found.read(record_folder, _is_mapped)) is not None:
        try:
            _mapped(states, layout, record)
        except OSError as error:
            _log.error(
                "The pods of a raw device can't be listed; it stays until they can",
                error=error,
                folder=str(record_folder.parent),
            )
    elif record_folder.parent not in _shared_by_devices(layout):
        try:
            pods = _pods_of_device(layout, folder)
            may_be_here = bool(pods) or _has_record(record_folder) or not _is_absent(layout.block_staging(folder))
        except OSError:
            pods, may_be_here = (), True
        if may_be_here:
            _log.error(
                "A raw device may be here, and no record tells which volume it is", folder=str(record_folder.parent)
            )
            found.unread.devices[folder] = pods


def remove_unrecorded(layout: KubeletLayout) -> list[tuple[Path, ...]]:
    """Removes the folders of volumes that have no record, as far as they are empty and nothing is mounted below them.

    They were begun and not recorded, or taken back but for the folder, when the agent ended. Gives those that the disk
    did not remove: for each volume the folders in it, and its own. Blocks. Raises OSError when the folders of all
    drivers can't be listed.
    """
    left: list[tuple[Path, ...]] = []
    for driver_folder in folders_in(layout.csi):
        if driver_folder != layout.block:
            left += _remove_unrecorded_of(layout, driver_folder)
    for folder in folders_in(layout.block):
        name = folder.name
        if folder not in _shared_by_devices(layout) and _is_absent(
            layout.block_staging(name)
        ):  # that comes after the record, and goes before
            others = (layout.block_staging(name), layout.block_publish(name, "pod").parent, layout.block_map(name))
            left += _remove_unless_recorded(layout, folder / "data", *others, folder / "data", folder)
    return left


def _remove_unrecorded_of(layout: KubeletLayout, driver_folder: Path) -> list[tuple[Path, ...]]:
    try:
        folders = list(folders_in(driver_folder))
    except OSError as error:
        _log.error("The volumes of a driver can't be listed; what was left unfinished stays", error=error)
        return []
    return [
        left for folder in folders for left in _remove_unless_recorded(layout, folder, folder / "globalmount", folder)
    ]


def _remove_unless_recorded(layout: KubeletLayout, record_folder: Path, *folders: Path) -> list[tuple[Path, ...]]:
    """These folders, where the disk failed. One with something in it is for people to look at."""
    try:
        if read_record(record_folder) is not None:
            return []
        mounts = mounts_of(layout)
        if any(mounts.below(str(folder)) for folder in folders):
            return []
        remove_record(record_folder)  # one that was not finished
        for folder in folders:
            remove_folder(folder)
    except (BadRecord, LeftOver) as error:
        _log.error(_STAYS, error=error)
    except OSError as error:
        _log.error(_STAYS, error=error)
        return [folders]
    return []


def _shared_by_devices(layout: KubeletLayout) -> tuple[Path, ...]:
    """Folders beside those of raw devices, which are of none of them."""
    return layout.block_staging("pv").parent, layout.block_publish("pv", "pod").parent.parent


def folders_in(folder: Path) -> Iterator[Path]:
    """The folders in it, by name; links are passed over. Nothing where it is no folder. Raises OSError for one that
    can't be listed.
    """
    try:
        entries = entries_in(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from (path for path, is_folder in entries if is_folder)


def entries_in(folder: Path) -> list[tuple[Path, bool]]:
    """The entries of the folder, by name; each with whether it is a folder, and no link to one. Raises OSError."""
    with os.scandir(folder) as listed:
        return sorted((Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in listed)


def _is_published(record: Mapping[str, str], folder: Path) -> bool:
    return _spec_folder(record) == folder.name and is_folder_name(record["driverName"])


def _is_staged(record: Mapping[str, str], folder: Path) -> bool:
    return (record["driverName"], digest(record["volumeHandle"])) == (folder.parent.name, folder.name)


def _is_mapped(record: Mapping[str, str], folder: Path) -> bool:
    return record.get("specVolID") == folder.parent.name and is_folder_name(record["driverName"])


def _spec_folder(record: Mapping[str, str]) -> str:
    return escaped(record.get("specVolID", ""))


def _has_record(folder: Path) -> bool:
    """True also for one that can't be read, and where that can't be found out."""
    return not _is_absent(folder / RECORD)


def _mounted_in(folder: Path, mounts: MountTable) -> frozenset[str]:
    """The names of the folders in it, at or below which something is mounted."""
    below = (Path(mount.point).relative_to(folder).parts for mount in mounts.below(str(folder)))
    return frozenset(parts[0] for parts in below if parts)


def _published(states: dict[str, VolumeState], layout: KubeletLayout, uid: str, record: dict[str, str]) -> None:
    driver, handle, spec_name = record["driverName"], record["volumeHandle"], record.get("specVolID", "")
    is_inline = record.get("volumeLifecycleMode") == EPHEMERAL
    unique = inline_unique_name(uid, spec_name) if is_inline else unique_name(driver, handle)
    volume = Volume(unique, driver, handle, spec_name, is_inline=is_inline, is_known=False)
    state = states.setdefault(unique, VolumeState(volume))
    state.publications[uid] = Publication(spec_name, Stand.FOUND)
    if not is_inline and _has_record(layout.staging(driver, handle).parent):
        state.device = Device.UNCERTAIN
    state.label = record.get(LABEL, state.label)


def _mapped(states: dict[str, VolumeState], layout: KubeletLayout, record: dict[str, str]) -> None:
    """A raw device, with every pod for which a file or a link of it is there."""
    driver, handle, spec_name = record["driverName"], record["volumeHandle"], record.get("specVolID", "")
    unique = unique_name(driver, handle)
    device = Device.BEGUN if _is_absent(layout.block_staging(spec_name)) else Device.UNCERTAIN
    state = VolumeState(Volume(unique, driver, handle, spec_name, is_block=True, is_known=False), device)
    states[unique] = state
    for uid in _pods_of_device(layout, spec_name):
        state.publications[uid] = Publication(spec_name, Stand.FOUND)


def _pods_of_device(layout: KubeletLayout, spec_name: str) -> tuple[str, ...]:
    """The pods for which a file or a link of the device is there. Raises OSError."""
    linked = {
        folder.name for folder in folders_in(layout.pods) if layout.block_link(folder.name, spec_name).is_symlink()
    }
    published = layout.block_publish(spec_name, "pod").parent
    return tuple(sorted(linked | _names(published) | _names(layout.block_map(spec_name))))


def _is_absent(path: Path) -> bool:
    """False also where that can't be found out."""
    try:
        path.lstat()
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False


def _names(folder: Path) -> set[str]:
    """Raises OSError for a folder that can't be listed."""
    try:
        return set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _staged(states: dict[str, VolumeState], record: dict[str, str]) -> None:
    driver, handle = record["driverName"], record["volumeHandle"]
    unique = unique_name(driver, handle)
    state = states.setdefault(unique, VolumeState(Volume(unique, driver, handle, "", is_known=False)))
    state.device = Device.UNCERTAIN
    state.label = record.get(LABEL, state.label)
