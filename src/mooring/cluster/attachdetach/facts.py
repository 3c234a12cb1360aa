"""The facts of a decision: one volume with every node that wants it, has it, or may have it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from mooring.api.core import ObjectReference, PersistentVolumeSpec
from mooring.api.meta import is_deleting
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import Instant
from mooring.cluster.attachdetach.memory import Deletion, NodeRecord, Record


class Wish(msgspec.Struct, frozen=True):
    """A pod, and the volume as its claim names it. workload: as in "Deployment web", "" for a pod of nobody.

    placed: when it came to its node, by the API server's clock; "" where nobody says. inline: the volume's spec where the pod itself
    defines it, and no claim does; pv_name is then the name of no object.
    """

    ref: ObjectReference
    pv_name: str
    created: str = ""
    is_deleting: bool = False
    workload: str = ""
    placed: str = ""
    inline: PersistentVolumeSpec | None = None


class NodeFacts(msgspec.Struct, frozen=True):
    """is_there: the Node exists. is_healthy: and is Ready. is_out_of_service: and has that taint.

    silence: of a Node that is there and not ready, what tells this silence from another one. is_marked: that it also tells a later process.
    """

    name: str
    is_there: bool = True
    is_healthy: bool = True
    is_out_of_service: bool = False
    silence: str = ""
    is_marked: bool = False


class Place(msgspec.Struct, frozen=True):
    """The volume on one node.

    wishes: of pods that want it there. doubts: pods that may want it: their claim can't be followed to a volume just now. finished: pods
    that used it there and have ended. mounted: the node has it in use. may_be_mounted_until: until then it may have, though it does
    not say so. reported: its status lists it as attached.
    attachment: of the name that this controller gives, or is_former: gave when the PersistentVolume named another volume, which nothing is
    reported of; intact: and of that volume and node; deletion: of it, by this process.
    foreign: names of others' attachments.
    waited_before_s: for the forced detach, as it is written down on the Node. inherited_until: until then an earlier process' DELETE of the
    attachment may be carried out, for all that is known; -inf where that can't be.
    """

    node: NodeFacts
    record: Record = msgspec.field(default_factory=Record)
    node_record: NodeRecord = msgspec.field(default_factory=NodeRecord)
    wishes: tuple[Wish, ...] = ()
    doubts: tuple[ObjectReference, ...] = ()
    finished: tuple[ObjectReference, ...] = ()
    mounted: bool = False
    may_be_mounted_until: Instant = -math.inf
    reported: bool = False
    attachment: VolumeAttachment | None = None
    is_former: bool = False
    intact: bool = True
    deletion: Deletion | None = None
    foreign: tuple[str, ...] = ()
    waited_before_s: float = 0.0
    inherited_until: Instant = -math.inf

    @property
    def is_wanted(self) -> bool:
        return bool(self.wishes or self.doubts)

    @property
    def is_held(self) -> bool:
        """True when the volume is attached here, or may be: one that is being detached is, too."""
        return self.attachment is not None or bool(self.foreign) or self.record.creating or self.record.open_posts > 0

    @property
    def is_ending(self) -> bool:
        """True once the attachment is being deleted, also by our own DELETE that no watch has shown yet."""
        return self.attachment is not None and (is_deleting(self.attachment) or self.deletion is not None)

    @property
    def may_be_deleted(self) -> bool:
        """True while a DELETE of the attachment was sent, its answer was lost, and nothing has shown yet that it was carried out."""
        if self.attachment is None or self.deletion is None:
            return False
        return self.deletion.unanswered and not is_deleting(self.attachment)


class Volume(msgspec.Struct, frozen=True):
    """pv_name: one of those that mean it, "" for none. driver_wait_s: the CSIDriver's annotation, None without.

    class_names: of all those that mean it; where none is there any more, of the last one. claims: those that it is reserved for.
    """

    unique: str
    driver: str
    handle: str
    pv_name: str = ""
    single_node: bool = True
    class_names: tuple[str, ...] = ()
    driver_wait_s: float | None = None
    claims: tuple[ObjectReference, ...] = ()
    places: Mapping[str, Place] = msgspec.field(default_factory=dict)
