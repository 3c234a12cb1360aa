"""Whether a volume that no pod wants on a node may be taken from it, and when. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.base.clock import Instant
from mooring.cluster.attachdetach.facts import Place, Volume
from mooring.cluster.attachdetach.options import NEVER, AttachDetachOptions

CLASS_AGAIN_S: Final = 60.0
"""How often a StorageClass is read again while a volume waits: a policy of never may have become a duration. What
forbids a forced detach is read just before it.
"""

TIMEOUT: Final = "timeout"
OUT_OF_SERVICE: Final = "out-of-service"


class Rules(msgspec.Struct, frozen=True):
    """When a detach is forced: the options, and what StorageClasses say. Before a volume's class has been read nothing
    of it is forced.
    """

    options: AttachDetachOptions
    class_waits: Mapping[str, tuple[float | None, Instant]] = msgspec.field(default_factory=dict)

    def needs_class(self, volume: Volume) -> bool:
        """True when what the volume's StorageClasses say makes a difference."""
        return bool(volume.class_names) and not self.options.disable_force_detach

    def unread_class(self, volume: Volume) -> str:
        """A StorageClass of the volume that was never read, "" where all were, or make no difference."""
        return (
            next((name for name in volume.class_names if name not in self.class_waits), "")
            if self.needs_class(volume)
            else ""
        )

    def class_to_read(self, volume: Volume, now: Instant) -> str:
        """A StorageClass of the volume that was not read lately, "" where all were, or make no difference."""
        unread = self.unread_class(volume)
        if unread or not self.needs_class(volume):
            return unread
        return next((name for name in volume.class_names if now - self.class_waits[name][1] > CLASS_AGAIN_S), "")

    def wait_s(self, volume: Volume) -> float:
        """Seconds until a detach is forced: the StorageClasses' longest time counts first, then the CSIDriver's, then
        the flag's. NEVER for a detach that no time forces.
        """
        if self.options.disable_force_detach:
            return NEVER
        of_classes = [
            wait_s for name in volume.class_names if (wait_s := self.class_waits.get(name, (None, 0.0))[0]) is not None
        ]
        given = (max(of_classes, default=None), volume.driver_wait_s, self.options.force_after_s)
        return next(wait_s for wait_s in given if wait_s is not None)


class Hold(msgspec.Struct, frozen=True):
    """Why the node keeps the volume."""

    mounted: bool = False
    #: The detach is forced now: `timeout` or `out-of-service`; "" for not forced.
    forced: str = ""
    #: Seconds until the detach is forced, NEVER for no such time.
    in_s: float = NEVER

    @property
    def stays(self) -> bool:
        return self.mounted and not self.forced


def hold_of(volume: Volume, place: Place, rules: Rules) -> Hold:
    """Why the node keeps a volume that no pod wants there.

    Differs from upstream: the time counts from when the volume was unwanted and the node not ready, whichever came
    last. A volume that is not mounted is never detached by force, however long it was unwanted.
    """
    if not place.mounted and place.unsaid_s <= 0:
        return Hold()
    # Before the readiness, as upstream: a person vouches for the machine. So a node that is ready, too, loses what it
    # has mounted, even while its kubelet unmounts it.
    if place.node.is_out_of_service:
        return Hold(True, OUT_OF_SERVICE, 0.0)
    if place.node.is_healthy or place.waited_s is None:
        return Hold(True)
    left_s = rules.wait_s(volume) - place.waited_s
    return Hold(True, TIMEOUT if left_s <= 0 and not rules.unread_class(volume) else "", max(0.0, left_s))


def may_be_forced(hold: Hold) -> bool:
    return hold.stays and not math.isinf(hold.in_s)


def is_to_be_reported(volume: Volume, rules: Rules) -> bool:
    """Whether the Node's status should list the volume as attached.

    One that no pod wants is not added any more, and stays listed as long as the node has it mounted. One whose DELETE
    may be under way is added once it is fenced.
    """
    place, attachment = volume.place, volume.place.attachment
    if not volume.handle or attachment is None or place.is_ending or not place.intact:
        return False
    if not attachment.status.attached or place_ahead(volume) is not None:
        return False
    if place.is_wanted and not place.is_former:
        return place.reported or not place.delete_may_be_under_way
    return place.reported and hold_of(volume, place, rules).stays


def place_ahead(volume: Volume) -> Place | None:
    """The place that keeps a volume for a single node from this one, although it is attached here, too; None for no
    such place.

    Two attachments are there where another controller made one of them, a request of a process that died was carried
    out late, or one was restored from a backup. A kubelet says that a volume is in use before it mounts it, and waits
    for the report: so of the nodes that have it in use those are ahead whose report lists it; where none does, the one
    with the older attachment.
    """
    place = volume.place
    if not volume.single_node or place.reported:
        return None
    places = (place, *volume.rivals)
    if place.mounted:
        attached = [one for one in places if _is_attached(one)]
        ahead = [one for one in attached if one.reported] or [one for one in attached if one.intact]
    else:
        ahead = [one for one in places if one.mounted or _is_attached(one)]
    first = min(ahead, key=_seniority, default=place)
    return None if first is place else first


def _is_attached(place: Place) -> bool:
    return place.attachment is not None and place.attachment.status.attached


def _seniority(place: Place) -> tuple[bool, bool, str, str]:
    """The place's rank: first those where the volume is mounted, then the reported ones, then the oldest attachment."""
    created = place.attachment.metadata.creation_timestamp if place.attachment is not None else None
    return not place.mounted, not place.reported, created or "", place.node.name
