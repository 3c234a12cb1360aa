"""The actual state of a node: for each volume the steps that are finished, as far as anybody knows, and the node's
caches.

It is in memory; after a restart it is read from the disk again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from mooring.api.core import NODES, Node
from mooring.api.matching import node_matches
from mooring.api.meta import Key
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, CSIDriverSpec
from mooring.control.caches import Caches
from mooring.control.result import Because
from mooring.kube.cache.informer import Change
from mooring.kube.cluster import Selection
from mooring.node.volumes.state.desired import DesiredState, PodUse, Volume, shares


class Step(enum.Enum):
    ATTACH = "attach"
    DETACH = "detach"
    STAGE = "stage"
    PUBLISH = "publish"
    UNPUBLISH = "unpublish"
    UNSTAGE = "unstage"
    EXPAND = "expand"
    FORGET = "forget"


class Device(enum.Enum):
    """A volume's stage on this node, for all of its pods.

    BEGUN: folders of ours may be here, and the driver was not asked to stage it. UNCERTAIN: it may be staged, wholly,
    in part or not at all, as after a restart. READY: nothing was staged, for the driver did not stage then.
    """

    ABSENT = "absent"
    BEGUN = "begun"
    UNCERTAIN = "uncertain"
    STAGED = "staged"
    READY = "ready"


class Stand(enum.Enum):
    """The stage of an attachment, or of a volume in one pod.

    FOUND: its record was there at a restart, and it was not published anew since. UNCERTAIN: it may be there, wholly,
    in part or not at all; the record stays. OUTDATED: it is there, and its driver wants to publish it once more.
    """

    ABSENT = "absent"
    FOUND = "found"
    UNCERTAIN = "uncertain"
    DONE = "done"
    OUTDATED = "outdated"


class Refusal(enum.Enum):
    """The driver's word about the growth. IN_USE: it is not asked again until the volume has left the node."""

    NONE = "none"
    FINAL = "final"
    IN_USE = "in use"


class Failure(msgspec.Struct, frozen=True):
    """The last failure, how often in a row it came, and when the step may be tried again (monotonic seconds).

    is_pending: the driver was at work on another call for the volume. by_absence: all of them were since the driver was
    not there, so its return ends the wait.
    """

    text: str
    count: int
    not_before: float
    is_pending: bool = False
    by_absence: bool = False


class Publication(msgspec.Struct):
    """The volume in one pod.

    spec_name: in whose folder. is_held: it is there, and the pod does not start before the volume has its size.
    told_size: the size of which users of a pod that only reads were told that it can't be had, "" for none.
    """

    spec_name: str
    stand: Stand
    is_held: bool = False
    told_size: str = ""
    failure: Failure | None = None

    @property
    def is_there(self) -> bool:
        return self.stand in (Stand.DONE, Stand.OUTDATED)


class UnderWay(msgspec.Struct, frozen=True):
    """A step, and its reason."""

    step: Step
    because: Because


class VolumeState(msgspec.Struct):
    """One volume.

    label: the SELinux label that it is mounted with, "" for none. attachable: it needs an attachment. attachment: as
    this node has asked for it, where it attaches by itself. attach_wait: what that waits for, and until when. context:
    what the attacher noted for this node. size_bytes: that it has on this node, 0 while that is not known. grown: the
    version of the claim whose growth is done with. unattached_since: monotonic seconds, while pods wait for its
    attachment. at_work: the steps that are under way, by the uid of the pod that one is for, "" for all of them.
    is_walked: the driver has published it, and what is in it is being given a group.
    """

    volume: Volume
    device: Device = Device.ABSENT
    label: str = ""
    attachable: bool = False
    attachment: Stand = Stand.ABSENT
    attach_wait: Failure | None = None
    context: Mapping[str, str] | None = None
    device_failure: Failure | None = None
    growth_failure: Failure | None = None
    growth_refusal: Refusal = Refusal.NONE
    size_bytes: int = 0
    grown: str = ""
    unattached_since: float | None = None
    at_work: dict[str, UnderWay] = msgspec.field(default_factory=dict)
    is_walked: bool = False
    publications: dict[str, Publication] = msgspec.field(default_factory=dict)

    def driver_returned(self) -> None:
        """Ends the waits for it. A volume at which the driver breaks down keeps its own: asked at once, it might break
        the driver down under all the others.
        """
        if self.device_failure is not None and self.device_failure.by_absence:
            self.device_failure = None
        if self.growth_failure is not None and self.growth_failure.by_absence:
            self.growth_failure = None
        for one in self.publications.values():
            if one.failure is not None and one.failure.by_absence:
                one.failure = None

    @property
    def may_be_staged(self) -> bool:
        """True when the driver was asked to stage it, or is about to be, and has not taken it back."""
        return self.device in (Device.UNCERTAIN, Device.STAGED)

    @property
    def step_alone(self) -> UnderWay | None:
        """The step under way that excludes all others. Taking it from one pod does not exclude taking it from
        another.
        """
        return next((one for one in self.at_work.values() if one.step is not Step.UNPUBLISH), None)

    @property
    def is_empty(self) -> bool:
        """True when nothing of the volume is on this node, or about to be."""
        return (
            not self.at_work
            and self.device is Device.ABSENT
            and all(one.stand is Stand.ABSENT for one in self.publications.values())
        )

    @property
    def is_mounted(self) -> bool:
        """True when it is staged or published, or may be. One whose driver does not stage it is not while no pod has
        it.
        """
        return self.may_be_staged or any(one.stand is not Stand.ABSENT for one in self.publications.values())

    @property
    def spec_names(self) -> frozenset[str]:
        """The names of the PersistentVolumes that it is known by here; empty while only its staging folder tells of
        it.
        """
        return frozenset({self.volume.spec_name, *(one.spec_name for one in self.publications.values())} - {""})

    @property
    def is_to_grow(self) -> bool:
        """True while the driver is to be asked, on this node, for the size that the claim is to have."""
        growth = self.volume.growth
        if growth is None or self.growth_refusal is Refusal.IN_USE or self.grown == growth.claim_version:
            return False
        return not growth.is_written or self.size_bytes < growth.size_bytes

    def was_given_back(self, pod_uid: str, now: float) -> None:
        """The pod has it no more: the others whose calls the driver could not take meanwhile are due at once.

        They would come again all at the same moments, ever more seldom, and one of them alone would get through each
        time.
        """
        del self.publications[pod_uid]
        for one in self.publications.values():
            if one.failure is not None and one.failure.is_pending:
                one.failure = msgspec.structs.replace(one.failure, not_before=min(now, one.failure.not_before))

    def has(self, pod_uid: str) -> bool:
        """True when the volume is published to the pod, and nothing more is to be done with it before the pod
        starts.
        """
        one = self.publications.get(pod_uid)
        return one is not None and one.is_there and not one.is_held


FINISHED: Final = ("Succeeded", "Failed")
_NO_SPEC: Final = CSIDriverSpec()


class ActualState:
    """One node's. states: by the volume's unique name. keys: of pods, by uid; those that are gone stay until their
    volumes have gone.
    """

    def __init__(self, caches: Caches, node_name: str, desired: DesiredState) -> None:
        self.node_name, self.desired = node_name, desired
        self.nodes = caches.of(NODES, selection=Selection(field_selector=f"metadata.name={node_name}"))
        self.pods = caches.of(PODS, selection=Selection(field_selector=f"spec.nodeName={node_name}"))
        self.csi_drivers = caches.of(CSI_DRIVERS)
        self.states: dict[str, VolumeState] = {}
        self.keys: dict[str, Key] = {}
        self._attached: tuple[Node | None, frozenset[str]] = None, frozenset()  # the last Node asked about

    # -- one volume

    def state(self, unique: str, settle: Callable[[VolumeState, Mapping[str, PodUse]], None]) -> VolumeState | None:
        """The state of the volume; begun for one that a pod wants, None for one that is neither wanted nor here.

        settle: told, of one that is wanted as it is here, the pods' uses of it.
        """
        state = self.states.get(unique)
        wanted = self.desired.volume(unique, state.volume.spec_name if state is not None else "")
        if wanted is None or (state is not None and not state.is_empty and not shares(state.volume, wanted)):
            return state
        if state is None:
            state = self.states[unique] = VolumeState(wanted)
        if state.is_empty or not state.volume.is_known:
            state.attachable = self.is_attachable(wanted)
        state.volume = wanted
        state.size_bytes = state.size_bytes or wanted.size_bytes
        settle(state, self.desired.uses(unique))
        return state

    def let_start(self, state: VolumeState) -> list[str]:
        """The pods that were held for the volume's size, once nothing is to be done for it: they are held no more."""
        held = [uid for uid, one in state.publications.items() if one.is_held] if not state.is_to_grow else []
        for uid in held:
            state.publications[uid].is_held = False
        return held

    # -- what is known

    def driver_spec(self, driver: str) -> CSIDriverSpec:
        """The spec of its CSIDriver, with nothing set where there is none."""
        found = self.csi_drivers.store.get(Key("", driver))
        return found.spec if found is not None else _NO_SPEC

    def is_attachable(self, volume: Volume) -> bool:
        """True for a volume that the controller attaches to the node first."""
        return is_attachable(volume, self.driver_spec(volume.driver))

    @property
    def attached(self) -> frozenset[str]:
        """The volumes that the Node's status lists as attached."""
        node = self.nodes.store.get(Key("", self.node_name))
        if node is not self._attached[0]:
            self._attached = node, attached_to(node) if node is not None else frozenset()
        return self._attached[1]

    def is_in_reach(self, volume: Volume) -> bool:
        """True when the volume's node affinity means this node."""
        if volume.affinity is None:
            return True
        node = self.nodes.store.get(Key("", self.node_name))
        return node is not None and node_matches(volume.affinity, node.metadata.labels, self.node_name)

    @property
    def in_use(self) -> set[str]:
        """The Node's report: all that pods want, and all that is here, whatever an earlier Node of this name said of
        it.
        """
        return {volume.unique for volume in self.desired.volumes if self.is_attachable(volume)} | self.here

    @property
    def here(self) -> set[str]:
        """The volumes that must not be detached from the node now, whether a pod wants them or not."""
        here = ((unique, state) for unique, state in self.states.items() if not state.is_empty)
        attached = {unique for unique, state in self.states.items() if state.attachment is not Stand.ABSENT}
        return attached | {unique for unique, state in here if state.attachable or self.is_attachable(state.volume)}

    def pod(self, uid: str) -> Pod | None:
        """The pod of this uid, None when it is gone."""
        key = self.keys.get(uid)
        found = self.pods.store.get(key) if key is not None else None
        return found if found is not None and found.metadata.uid == uid else None

    def keeps_pod(self, uid: str) -> bool:
        """True for a pod that is there, and whose volumes are to stay."""
        pod = self.pod(uid)
        return pod is not None and not is_leaving(pod)

    def states_of_pod(self, uid: str) -> Iterator[VolumeState]:
        """The volumes of which something is, or may be, in the pod's folder."""
        for state in self.states.values():
            one = state.publications.get(uid)
            if uid in state.at_work or (one is not None and one.stand is not Stand.ABSENT):
                yield state

    def states_of_driver(self, driver: str) -> list[VolumeState]:
        return [state for state in self.states.values() if state.volume.driver == driver]

    def concerned_by_node(self, change: Change[Node]) -> Iterator[str]:
        """The volumes that have come to be attached and, where the labels are others, those with a node affinity."""
        old = change.old
        attached = attached_to(change.object) - (attached_to(old) if old is not None else frozenset())
        has_other_labels = old is None or old.metadata.labels != change.object.metadata.labels
        for state in self.states.values():
            if (state.attachable and state.volume.unique in attached) or (
                has_other_labels and state.volume.affinity is not None
            ):
                yield state.volume.unique

    def has_all(self, uid: str) -> bool:
        """True when everything that the pod wants is published to it."""
        return all(self._has(uid, volume) for volume in self.desired.of_pod(uid).values())

    def _has(self, uid: str, volume: Volume) -> bool:
        state = self.states.get(volume.unique)
        return state is not None and state.has(uid)

    def forget_pod(self, uid: str) -> None:
        """Neither the pod nor anything of its volumes is here."""
        self.keys.pop(uid, None)


def is_attachable(volume: Volume, spec: CSIDriverSpec) -> bool:
    """True for a volume that a controller attaches to its node first. spec: of its CSIDriver."""
    return not volume.is_inline and spec.attach_required is not False


def attached_to(node: Node) -> frozenset[str]:
    return frozenset(volume.name for volume in node.status.volumes_attached or ())


def is_leaving(pod: Pod) -> bool:
    """True for a pod whose volumes are to be taken away. Nothing runs in the pods of this agent: one that is deleted
    has ended at once.
    """
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in FINISHED
