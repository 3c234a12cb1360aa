"""Where everything of a node lies below its root folder, and the names that are made of handles. Pure.

It is the kubelet's layout to the letter, so that the agent and a kubelet can take over each other's mounts on the same
root. Names that come from the API (handles, volume names, pod uids) are hashed, or checked here: none leads out of its
folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from mooring.api.volume_names import PLUGIN, digest
from mooring.base.errors import MooringError

_PLUGIN_FOLDER: Final = PLUGIN.replace("/", "~")
NAME_BYTES_MAX: Final = 255
TARGET: Final = "mount"
"""The name, in the folder of a pod's volume, of the place where the driver publishes."""


class BadName(MooringError):
    """A name from the API that can't be a folder's."""


def inline_volume_id(pod_uid: str, volume_name: str) -> str:
    """The volume id of an inline volume, which only its pod has."""
    return f"csi-{digest(pod_uid, volume_name)}"


def inline_unique_name(pod_uid: str, volume_name: str) -> str:
    return f"{PLUGIN}/{pod_uid}-{volume_name}"


class KubeletLayout(msgspec.Struct, frozen=True):
    """Paths below root, which is absolute. spec_name: the PersistentVolume's name, or the pod's name for an inline
    volume.

    Methods raise BadName for a name that can't be one folder's.
    """

    root: Path

    @property
    def registry(self) -> Path:
        """Where registration sockets appear."""
        return self.root / "plugins_registry"

    @property
    def csi(self) -> Path:
        """The folder of staged volumes, by driver; block volumes stand apart."""
        return self.root / "plugins" / PLUGIN

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    @property
    def folders_of_volumes(self) -> tuple[Path, ...]:
        """The folders that an administrator may have led elsewhere by links, for room."""
        return self.root / "plugins", self.csi.parent, self.csi, self.pods

    def staging(self, driver: str, handle: str) -> Path:
        """The staging path of a volume with a file system. Its record lies beside it."""
        return self.csi / _folder(driver) / digest(handle) / "globalmount"

    def pod(self, uid: str) -> Path:
        return self.pods / _folder(uid)

    def pod_volumes(self, uid: str) -> Path:
        """The volumes with a file system of one pod."""
        return self.pod(uid) / "volumes" / _PLUGIN_FOLDER

    def target(self, uid: str, spec_name: str) -> Path:
        """The publish path of a volume with a file system. The driver makes it; its record lies beside it."""
        return self.pod_volumes(uid) / _folder(escaped(spec_name)) / TARGET

    def spec_folder_of(self, target: str) -> str:
        """The name of the volume's folder, in any pod's, of which this is the publish path; "" for another path."""
        parts = target.removeprefix(f"{self.pods}/").split("/")
        match parts:
            case [_, "volumes", folder, name, last] if folder == _PLUGIN_FOLDER and last == TARGET:
                return name
        return ""

    def sub_paths(self, uid: str, spec_name: str) -> Path:
        """Where a kubelet binds parts of the volume for the pod's containers; this agent starts none."""
        return self.pod(uid) / "volume-subpaths" / _folder(escaped(spec_name))

    @property
    def block(self) -> Path:
        return self.csi / "volumeDevices"

    def block_volume(self, spec_name: str) -> Path:
        return self.block / _folder(escaped(spec_name))

    def block_record_folder(self, spec_name: str) -> Path:
        return self.block_volume(spec_name) / "data"

    def block_map(self, spec_name: str) -> Path:
        """The folder with a file for each pod, on which the device is mounted."""
        return self.block_volume(spec_name) / "dev"

    def block_staging(self, spec_name: str) -> Path:
        return self.block / "staging" / _folder(spec_name)

    def block_publish(self, spec_name: str, uid: str) -> Path:
        """The device file for one pod, which the driver makes."""
        return self.block / "publish" / _folder(spec_name) / _folder(uid)

    def pod_devices(self, uid: str) -> Path:
        return self.pod(uid) / "volumeDevices" / _PLUGIN_FOLDER

    def block_link(self, uid: str, spec_name: str) -> Path:
        """The link to the device file, which the pod's runtime opens."""
        return self.pod_devices(uid) / _folder(spec_name)


def escaped(name: str) -> str:
    """The name as a folder's."""
    return name.replace("/", "~")


def is_folder_name(name: str) -> bool:
    """True for the name of exactly one folder."""
    return (
        bool(name)
        and name not in (".", "..")
        and not {"/", "\0"} & set(name)
        and len(os.fsencode(name)) <= NAME_BYTES_MAX
    )


def _folder(name: str) -> str:
    """The name. Raises BadName unless it is that of exactly one folder."""
    if not is_folder_name(name):
        raise BadName(
            f"{name!r} can't be the name of a folder: it is empty, has a slash or is longer than {NAME_BYTES_MAX} bytes"
        )
    return name
