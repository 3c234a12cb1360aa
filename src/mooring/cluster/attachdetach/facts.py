"""The facts of a decision: one volume on one node, beside the other nodes that have it, or may have it."""

from __future__ import annotations

import msgspec

from mooring.api.core import ObjectReference, PersistentVolumeSpec
from mooring.api.meta import is_deleting
from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach.memory import Deletion, NodeRecord, Record


class Wish(msgspec.Struct, frozen=True):
    """A pod, and the volume as its claim names it. workload: as in "Deployment web", "" for a pod without an owner.

    inline: the volume's spec where the pod itself defines it, and no claim does; pv_name is then the name of no object.
    """

    ref: ObjectReference
    pv_name: str
    created: str = ""
    is_deleting: bool = False
    workload: str = ""
    inline: PersistentVolumeSpec | None = None


class NodeFacts(msgspec.Struct, frozen=True):
    name: str
    #: The Node exists.
    is_there: bool = True
    #: It is Ready.
    is_healthy: bool = True
    #: It has the out-of-service taint.
    is_out_of_service: bool = False


class Place(msgspec.Struct, frozen=True):
    """The volume on one node."""

    node: NodeFacts
    record: Record = msgspec.field(default_factory=Record)
    node_record: NodeRecord = msgspec.field(default_factory=NodeRecord)
    #: Pods that want it there.
    wishes: tuple[Wish, ...] = ()
    #: Pods that may want it: their claim can't be followed to a volume just now.
    doubts: tuple[ObjectReference, ...] = ()
    #: Pods that used it there and have ended.
    finished: tuple[ObjectReference, ...] = ()
    #: The node has it in use.
    mounted: bool = False
    #: Seconds for which the node may have it mounted though it does not say so: `silence.unsaid_s`.
    unsaid_s: float = 0.0
    #: The Node's status lists it as attached.
    reported: bool = False
    #: The attachment under the name that this controller gives; is_former: under the one that it gave when the
    #: PersistentVolume named another volume. A former one adds nothing to the report.
    attachment: VolumeAttachment | None = None
    is_former: bool = False
    #: The attachment is about this volume and node.
    intact: bool = True
    #: This process has asked for the attachment's deletion.
    deletion: Deletion | None = None
    #: Names of others' attachments.
    foreign: tuple[str, ...] = ()
    #: Seconds for which it is unwanted on a node that is not ready, as the attachment says; None where it does not.
    waited_s: float | None = None

    @property
    def matters(self) -> bool:
        """False for a node that has nothing to do with the volume."""
        return self.is_wanted or self.is_held

    @property
    def is_wanted(self) -> bool:
        return bool(self.wishes or self.doubts)

    @property
    def is_held(self) -> bool:
        """True when the volume is attached here, or may be: one that is being detached is, too."""
        return self.attachment is not None or bool(self.foreign) or self.record.creating

    @property
    def is_ending(self) -> bool:
        """True once the attachment is being deleted, also by a DELETE of ours that no watch has shown yet."""
        if self.attachment is None:
            return False
        return is_deleting(self.attachment) or (self.deletion is not None and self.deletion.answered)

    @property
    def delete_may_be_under_way(self) -> bool:
        """True while a DELETE of the attachment may be under way: one whose answer was lost, or of an earlier process.

        This process has neither made the attachment, nor fenced it since.
        """
        return self.attachment is not None and self.record.fenced_uid != self.attachment.metadata.uid


class Volume(msgspec.Struct, frozen=True):
    """A volume on one node, and what keeps it from that node."""

    #: Its name in a Node's status.
    unique: str
    driver: str
    handle: str
    place: Place
    #: One of the PersistentVolumes that mean it, "" for none.
    pv_name: str = ""
    single_node: bool = True
    #: The other nodes that have a single-node volume, or may have it.
    rivals: tuple[Place, ...] = ()
    #: The StorageClasses of all PersistentVolumes that mean it; where none is left, that of the last one.
    class_names: tuple[str, ...] = ()
    #: The CSIDriver's annotation in seconds, None without one.
    driver_wait_s: float | None = None
    #: The claims that it is reserved for.
    claims: tuple[ObjectReference, ...] = ()
