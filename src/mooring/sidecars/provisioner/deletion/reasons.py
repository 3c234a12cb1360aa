"""Every reason that deletion can have, in a user's words.

Those that are problems carry the text of the event `VolumeFailedDelete`, as external-provisioner has it, since people
search for it.
"""

from __future__ import annotations

from mooring.control.reasons import reason

# -- nothing to do


@reason('PersistentVolume "{pv_name}" does not exist: nothing to do')
class Gone:
    pv_name: str


@reason('it is no volume of the driver "{driver_name}"')
class Foreign:
    driver_name: str


@reason('its node affinity leaves out node "{node_name}": the provisioner of another node deletes it')
class Elsewhere:
    node_name: str


@reason('its reclaim policy is "{policy}": the volume stays')
class Kept:
    policy: str


@reason('its phase is "{phase}": a volume is deleted once it is Released')
class InUse:
    """phase: of the PersistentVolume."""

    phase: str


@reason("it is being deleted without this driver's finalizer: the volume is gone, or somebody gave it up")
class WithoutFinalizer:
    pass


@reason("its volume is deleted in the backend: the object follows")
class Deleted:
    pass


# -- work


@reason('it was released and its policy is "Delete": volume "{handle}" is deleted')
class Deleting:
    handle: str


# -- problems


@reason("still attached to {shown}: the volume is deleted when the last VolumeAttachment is gone")
class StillAttached:
    pv_name: str
    node_names: tuple[str, ...]

    @property
    def shown(self) -> str:
        return ", ".join(self.node_names)

    @property
    def error(self) -> str:
        return f"persistentvolume {self.pv_name} is still attached to node {self.node_names[0]}"


@reason('volume "{handle}" is being stored for another claim, too: it is looked at again after that')
class BeingStored:
    handle: str

    @property
    def error(self) -> str:
        return f'the volume "{self.handle}" is being stored for another claim'


@reason(
    'the volume is left to PersistentVolume "{pv_name}", which names it, too: it is deleted with the last that does'
)
class LeftToAnother:
    pv_name: str


@reason("{error}")
class NoCapability:
    error: str


@reason("it has no csi source: no CSI driver can delete it")
class NotCSI:
    error: str = "invalid CSI PV"


@reason("{error}")
class Untranslatable:
    """why: the part of its in-tree source that has no CSI equivalent."""

    why: str

    @property
    def error(self) -> str:
        return f"failed to translate in-tree PV to CSI: {self.why}"


@reason("its StorageClass can't be read as its CSI driver reads it: {error}")
class UntranslatableClass:
    """The class of an in-tree plugin can't be translated; the CSI driver's parameters would name the Secret."""

    error: str


@reason("{error}")
class NoSecret:
    """The class's templates can't be resolved: they name parts of a claim that is gone."""

    pv_name: str
    why: str

    @property
    def error(self) -> str:
        return f"failed to get secretreference for volume {self.pv_name}: {self.why}"
