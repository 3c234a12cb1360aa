"""Every reason the attacher can have, in a user's words.

A reason is a frozen record of its kind, with its facts. `str()` is a sentence for people. Those that are errors carry
the text that goes into `status.attachError` or `status.detachError`, byte for byte as external-attacher writes it,
since monitoring greps it. The errors of writes and calls that failed are worded where they happen: `writes.py`,
`reconcile.py`.
"""

from __future__ import annotations

from mooring.control.reasons import reason

# -- states that are no problem


@reason('"{name}" does not exist: nothing to do')
class Gone:
    name: str


@reason('it belongs to the attacher "{attacher}": not this driver\'s business')
class Foreign:
    attacher: str


@reason('attached to node "{node_name}"')
class Attached:
    node_name: str


@reason('PersistentVolume "{pv_name}" gets the attacher\'s finalizer first, so that what a detach needs to know stays')
class Holding:
    pv_name: str


@reason('being attached to node "{node_name}" (node id "{node_id}"){lost}: waiting for the driver')
class Attaching:
    node_name: str
    node_id: str
    #: It was attached, but the backend reports that it is not.
    again: bool = False

    @property
    def lost(self) -> str:
        return ", because the backend reports that it is not attached there any more" if self.again else ""


@reason("marked attached: this driver attaches without ControllerPublishVolume")
class AttachedWithoutCall:
    pass


@reason("detached, or never attached by this driver: only other finalizers hold the object")
class Detached:
    pass


@reason('being detached from node "{node_name}" (node id "{node_id}"): waiting for the driver')
class Detaching:
    node_name: str
    node_id: str


@reason("its finalizer is dropped: this driver detaches without ControllerUnpublishVolume")
class ReleasedWithoutCall:
    pass


@reason('waits until the call of "{holder}" for volume "{volume_handle}" has ended: one call for a volume at a time')
class CallInFlight:
    volume_handle: str
    #: The attachment whose call for this volume is running.
    holder: str


@reason("waits for its turn: as many calls as --worker-threads allows are running")
class NoFreeCall:
    pass


@reason('reads the Secret "{namespace}/{name}" for the driver\'s call')
class ReadingSecret:
    namespace: str
    name: str


@reason('waits until the Secret "{namespace}/{name}" has been read, which is under way')
class SharingSecret:
    namespace: str
    name: str


@reason('its finalizer is removed without a call: "{holder}" has the same volume on the same node')
class HeldByAnother:
    """Another attachment holds the same volume on the same node, so this one's end is no detach."""

    holder: str


@reason(
    'its attachment vanished while the volume was being published on node "{node_name}" (node id "{node_id}"): '
    "that is taken back"
)
class TakingBack:
    node_name: str
    node_id: str


# -- problems


@reason("{error}: {step}")
class HeldElsewhere:
    """A volume for a single node may be published on another one, so it must be detached there first."""

    node_name: str
    holder: str
    deleting: bool

    @property
    def error(self) -> str:
        state = "is still being detached from" if self.deleting else "may be attached to"
        return f'volume for a single node {state} node "{self.node_name}" (VolumeAttachment "{self.holder}")'

    @property
    def step(self) -> str:
        return (
            "wait for its detach"
            if self.deleting
            else f'delete VolumeAttachment "{self.holder}" when the node needs it no more'
        )


@reason("{error}: its arrival wakes this attachment")
class VolumeMissing:
    pv_name: str

    @property
    def error(self) -> str:
        return f'persistentvolume "{self.pv_name}" not found'


@reason("{error}: it can't be attached any more")
class VolumeDeleting:
    pv_name: str

    @property
    def error(self) -> str:
        return f'PersistentVolume "{self.pv_name}" is marked for deletion'


@reason("{error}: the kubelet of that node creates it when the driver's node plugin registers")
class NodeNotRegistered:
    node_name: str

    @property
    def error(self) -> str:
        return f'csinode.storage.k8s.io "{self.node_name}" not found'


@reason("{error}: is the driver's node plugin running there?")
class DriverNotOnNode:
    node_name: str
    driver_name: str

    @property
    def error(self) -> str:
        return f"CSINode {self.node_name} does not contain driver {self.driver_name}"


@reason("{error}: the object must be made anew")
class BadSpec:
    """The objects can't be expressed as a CSI request."""

    error: str


# -- PersistentVolumes


@reason("not being deleted: nothing to release")
class VolumeKept:
    """The attacher's finalizer stays on a volume that is not being deleted."""


@reason("the attacher's finalizer is not on it")
class VolumeNotHeld:
    pass


@reason("VolumeAttachments still name it: {names}")
class VolumeInUse:
    #: The names of the first few.
    attachments: tuple[str, ...]

    @property
    def names(self) -> str:
        return ", ".join(f'"{name}"' for name in self.attachments)


@reason("deleted and attached nowhere: the attacher's finalizer is dropped")
class VolumeReleased:
    pass
