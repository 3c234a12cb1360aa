"""Every reason that deletion can have, in a user's words.

Those that are problems carry the text of the event `VolumeFailedDelete`, as external-provisioner has it, since people search for it.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol


class Because(Protocol):
    """A reason; str() tells it to people."""

    def __str__(self) -> str: ...


class Problem(Because, Protocol):
    """A reason that keeps the volume from being deleted, until something changes. error: the event's text."""

    @property
    def error(self) -> str: ...


# -- nothing to do


@dataclasses.dataclass(frozen=True, slots=True)
class Gone:
    pv_name: str

    def __str__(self) -> str:
        return f'PersistentVolume "{self.pv_name}" does not exist: nothing to do'


@dataclasses.dataclass(frozen=True, slots=True)
class Foreign:
    driver_name: str

    def __str__(self) -> str:
        return f'it is no volume of the driver "{self.driver_name}"'


@dataclasses.dataclass(frozen=True, slots=True)
class Elsewhere:
    node_name: str

    def __str__(self) -> str:
        return f'its node affinity leaves out node "{self.node_name}": the provisioner of another node deletes it'


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    policy: str

    def __str__(self) -> str:
        return f'its reclaim policy is "{self.policy}": the volume stays'


@dataclasses.dataclass(frozen=True, slots=True)
class InUse:
    """phase: of the PersistentVolume."""

    phase: str

    def __str__(self) -> str:
        return f'its phase is "{self.phase}": a volume is deleted once it is Released'


@dataclasses.dataclass(frozen=True, slots=True)
class LetGo:
    def __str__(self) -> str:
        return "it is being deleted without this driver's finalizer: the volume is gone, or somebody gave it up"


@dataclasses.dataclass(frozen=True, slots=True)
class Deleted:
    def __str__(self) -> str:
        return "its volume is deleted in the backend: the object follows"


# -- work


@dataclasses.dataclass(frozen=True, slots=True)
class Deleting:
    handle: str

    def __str__(self) -> str:
        return f'it was released and its policy is "Delete": volume "{self.handle}" is deleted'


# -- problems


@dataclasses.dataclass(frozen=True, slots=True)
class StillAttached:
    """The end of the attachments wakes it."""

    pv_name: str
    node_names: tuple[str, ...]

    @property
    def error(self) -> str:
        return f"persistentvolume {self.pv_name} is still attached to node {self.node_names[0]}"

    def __str__(self) -> str:
        return f"still attached to {', '.join(self.node_names)}: the volume is deleted when the last VolumeAttachment is gone"


@dataclasses.dataclass(frozen=True, slots=True)
class NoCapability:
    error: str

    def __str__(self) -> str:
        return self.error


@dataclasses.dataclass(frozen=True, slots=True)
class NotCSI:
    error: str = "invalid CSI PV"

    def __str__(self) -> str:
        return "it has no csi source: no CSI driver can delete it"


@dataclasses.dataclass(frozen=True, slots=True)
class Untranslatable:
    """why: what its in-tree source says that the CSI driver has no word for."""

    why: str

    @property
    def error(self) -> str:
        return f"failed to translate in-tree PV to CSI: {self.why}"

    def __str__(self) -> str:
        return self.error


@dataclasses.dataclass(frozen=True, slots=True)
class UntranslatableClass:
    """Of an in-tree plugin; its CSI driver's parameters would tell the secret."""

    error: str

    def __str__(self) -> str:
        return f"its StorageClass can't be read as its CSI driver reads it: {self.error}"


@dataclasses.dataclass(frozen=True, slots=True)
class NoSecret:
    """The class's templates can't be resolved: what they name is gone with the claim."""

    pv_name: str
    why: str

    @property
    def error(self) -> str:
        return f"failed to get secretreference for volume {self.pv_name}: {self.why}"

    def __str__(self) -> str:
        return self.error
