"""The finished steps of one volume on this node, as far as anybody knows. In memory; after a restart it is read from the disk again."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from mooring.control.result import Because
from mooring.node.volumes.volume import Volume


class Stand(enum.Enum):
    """How far a step of the driver's has come. UNCERTAIN: it may have been done, wholly, in part or not at all; the records stay."""

    ABSENT = "absent"
    UNCERTAIN = "uncertain"
    DONE = "done"


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """The last failure, how often in a row it came, and when the step may be tried again (monotonic seconds).

    is_pending: the driver was at work on another call for the volume.
    """

    text: str
    count: int
    not_before: float
    is_pending: bool = False


@dataclasses.dataclass(slots=True)
class Publication:
    """The volume in one pod.

    spec_name: in whose folder. was_found: at a restart, and not published anew since. is_held: it is there, and the pod does not start
    before the volume has its size. told_size: the size of which users of a pod that only reads were told that it can't be had, "" for none.
    """

    spec_name: str
    stand: Stand
    was_found: bool = False
    is_outdated: bool = False
    is_held: bool = False
    told_size: str = ""
    failure: Failure | None = None


@dataclasses.dataclass(slots=True)
class VolumeState:
    """One volume.

    may_be_staged: the driver was asked to stage it, or is about to be; false for one that does not stage. label: the SELinux label that
    it is mounted with, "" for none. attachable: it needs an attachment.
    attachment: as this node has asked for it, where it attaches by itself. attach_wait: what that waits for, and until when.
    context: what the attacher noted for this node. size_bytes: that it has on this node, 0 while that is not known. grown: the version
    of the claim whose growth is done with. growth_was_refused: for good, at the last try or before. may_not_grow: the driver says that
    it is in use; not asked again until the volume has left the node.
    unattached_since: monotonic seconds, while pods wait for its attachment. at_work: the steps that are under way, to their reasons: by the
    uid of the pod that a step is for, "" for all of them. is_alone: the step under way excludes all others; taking it from one pod does not
    exclude taking it from another. is_walked: the driver has published it, and what is in it is being given a group.
    """

    volume: Volume
    device: Stand = Stand.ABSENT
    may_be_staged: bool = False
    label: str = ""
    device_was_found: bool = False
    attachable: bool = False
    attachment: Stand = Stand.ABSENT
    attach_wait: Failure | None = None
    context: Mapping[str, str] | None = None
    device_failure: Failure | None = None
    growth_failure: Failure | None = None
    growth_was_refused: bool = False
    size_bytes: int = 0
    grown: str = ""
    may_not_grow: bool = False
    unattached_since: float | None = None
    at_work: dict[str, Because] = dataclasses.field(default_factory=dict)
    is_alone: bool = False
    is_walked: bool = False
    publications: dict[str, Publication] = dataclasses.field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True when nothing of the volume is on this node, or about to be."""
        return not self.at_work and self.device is Stand.ABSENT and all(one.stand is Stand.ABSENT for one in self.publications.values())

    @property
    def spec_names(self) -> frozenset[str]:
        """Of the PersistentVolumes that it is known by here; empty while only what is staged tells of it."""
        return frozenset({self.volume.spec_name, *(one.spec_name for one in self.publications.values())} - {""})

    @property
    def is_to_grow(self) -> bool:
        """True while the driver is to be asked, on this node, for the size that the claim is to have."""
        growth = self.volume.growth
        if growth is None or self.may_not_grow or self.grown == growth.claim_version:
            return False
        return not growth.is_written or self.size_bytes < growth.size_bytes

    def was_given_back(self, pod_uid: str, now: float) -> None:
        """The pod has it no more: the others whose calls the driver could not take meanwhile are due at once.

        They would come again all at the same moments, ever more seldom, and one of them alone would get through each time.
        """
        del self.publications[pod_uid]
        for one in self.publications.values():
            if one.failure is not None and one.failure.is_pending:
                one.failure = dataclasses.replace(one.failure, not_before=min(now, one.failure.not_before))

    def has(self, pod_uid: str) -> bool:
        """True when the volume is published to the pod, and nothing more is to be done with it before the pod starts."""
        one = self.publications.get(pod_uid)
        return one is not None and one.stand is Stand.DONE and not one.is_held
