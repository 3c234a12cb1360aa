"""Every reason the attacher can have, in a user's words.

A `Because` is a frozen record: what kind of reason, and the facts. `str()` is a sentence for people. Those that are errors carry the
text that goes into `status.attachError` or `status.detachError`, byte for byte as external-attacher writes it, since monitoring
greps it. The errors of writes that failed are worded where they happen: `writes.py`, `actions.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol


class Because(Protocol):
    """A reason; str() tells it to people."""

    def __str__(self) -> str: ...


class Problem(Because, Protocol):
    """A reason that keeps the work from being done. error: the text for the object's status."""

    @property
    def error(self) -> str: ...


# -- the settled and the moving


@dataclasses.dataclass(frozen=True, slots=True)
class Gone:
    name: str

    def __str__(self) -> str:
        return f'"{self.name}" does not exist: nothing to do'


@dataclasses.dataclass(frozen=True, slots=True)
class Foreign:
    attacher: str

    def __str__(self) -> str:
        return f'it belongs to the attacher "{self.attacher}": not this driver\'s business'


@dataclasses.dataclass(frozen=True, slots=True)
class Attached:
    node_name: str

    def __str__(self) -> str:
        return f'attached to node "{self.node_name}"'


@dataclasses.dataclass(frozen=True, slots=True)
class Holding:
    pv_name: str

    def __str__(self) -> str:
        return f'PersistentVolume "{self.pv_name}" gets the attacher\'s finalizer first, so that what a detach needs to know stays'


@dataclasses.dataclass(frozen=True, slots=True)
class Attaching:
    """again: it was attached, but the backend reports it is not."""

    node_name: str
    node_id: str
    again: bool = False

    def __str__(self) -> str:
        lost = ", because the backend reports that it is not attached there any more" if self.again else ""
        return f'being attached to node "{self.node_name}" (node id "{self.node_id}"){lost}: the driver\'s move'

    @property
    def done(self) -> str:
        """What is said once the driver has done it."""
        return f"attached to {self.node_name}{' again, where the backend had lost it,' if self.again else ''}"


@dataclasses.dataclass(frozen=True, slots=True)
class AttachedWithoutCall:
    def __str__(self) -> str:
        return "marked attached: this driver attaches without ControllerPublishVolume"


@dataclasses.dataclass(frozen=True, slots=True)
class Detached:
    def __str__(self) -> str:
        return "detached, or never attached by this driver: only other finalizers hold the object"


@dataclasses.dataclass(frozen=True, slots=True)
class Detaching:
    node_name: str
    node_id: str

    def __str__(self) -> str:
        return f'being detached from node "{self.node_name}" (node id "{self.node_id}"): the driver\'s move'

    @property
    def done(self) -> str:
        return f"detached from {self.node_name}"


@dataclasses.dataclass(frozen=True, slots=True)
class ReleasedWithoutCall:
    def __str__(self) -> str:
        return "its finalizer is dropped: this driver detaches without ControllerUnpublishVolume"


@dataclasses.dataclass(frozen=True, slots=True)
class CallInFlight:
    """holder: the attachment whose call for this volume is running."""

    volume_handle: str
    holder: str

    def __str__(self) -> str:
        return f'waits until the call of "{self.holder}" for volume "{self.volume_handle}" has ended: one call for a volume at a time'


@dataclasses.dataclass(frozen=True, slots=True)
class NoFreeCall:
    def __str__(self) -> str:
        return "waits for its turn: as many calls as --worker-threads allows are running"


@dataclasses.dataclass(frozen=True, slots=True)
class HeldByAnother:
    """Another attachment holds the same volume on the same node, so this one's end is no detach."""

    holder: str

    def __str__(self) -> str:
        return f'let go without a call: "{self.holder}" holds the same volume on the same node'


# -- problems


@dataclasses.dataclass(frozen=True, slots=True)
class HeldElsewhere:
    """A volume for a single node may be published on another one, so it must be detached there first."""

    node_name: str
    holder: str
    deleting: bool

    @property
    def error(self) -> str:
        state = "is still being detached from" if self.deleting else "may be attached to"
        return f'volume for a single node {state} node "{self.node_name}" (VolumeAttachment "{self.holder}")'

    def __str__(self) -> str:
        step = "wait for its detach" if self.deleting else f'delete VolumeAttachment "{self.holder}" when the node needs it no more'
        return f"{self.error}: {step}"


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeMissing:
    pv_name: str

    @property
    def error(self) -> str:
        return f'persistentvolume "{self.pv_name}" not found'

    def __str__(self) -> str:
        return f"{self.error}: its arrival wakes this attachment"


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeDeleting:
    pv_name: str

    @property
    def error(self) -> str:
        return f'PersistentVolume "{self.pv_name}" is marked for deletion'

    def __str__(self) -> str:
        return f"{self.error}: it can't be attached any more"


@dataclasses.dataclass(frozen=True, slots=True)
class NodeNotRegistered:
    node_name: str

    @property
    def error(self) -> str:
        return f'csinode.storage.k8s.io "{self.node_name}" not found'

    def __str__(self) -> str:
        return f"{self.error}: the kubelet of that node creates it when the driver's node plugin registers"


@dataclasses.dataclass(frozen=True, slots=True)
class DriverNotOnNode:
    node_name: str
    driver_name: str

    @property
    def error(self) -> str:
        return f"CSINode {self.node_name} does not contain driver {self.driver_name}"

    def __str__(self) -> str:
        return f"{self.error}: is the driver's node plugin running there?"


@dataclasses.dataclass(frozen=True, slots=True)
class BadSpec:
    """What the objects say can't be turned into a CSI request."""

    error: str

    def __str__(self) -> str:
        return f"{self.error}: the object must be made anew"


# -- PersistentVolumes


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeKept:
    """The attacher's finalizer stays on a volume that nobody has deleted."""

    def __str__(self) -> str:
        return "not being deleted: nothing to release"


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeNotHeld:
    def __str__(self) -> str:
        return "the attacher's finalizer is not on it"


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeInUse:
    """attachments: names, the first few."""

    attachments: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.attachments)
        return f"VolumeAttachments still name it: {names}"


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeReleased:
    def __str__(self) -> str:
        return "deleted and attached nowhere: the attacher's finalizer is dropped"
