"""The common knowledge of the pods and the volumes of one node: caches, wishes, finished steps, and what users were told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mooring.api.core import NODES, Node, ObjectReference, reference_to
from mooring.api.matching import node_matches
from mooring.api.meta import Key
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, CSIDriverSpec
from mooring.base.clock import Clock, Instant
from mooring.control.caches import Caches
from mooring.control.events import REPEAT_S, EventRecorder
from mooring.kube.cache.informer import Change
from mooring.kube.cluster import Selection
from mooring.node.volumes.desired import DesiredState
from mooring.node.volumes.expansion import Growth
from mooring.node.volumes.requests import PodUse
from mooring.node.volumes.state import Stand, Volume, VolumeState, shares

_NO_SPEC = CSIDriverSpec()


class ActualState:
    """One node's. states: by the volume's unique name. keys: of pods, by uid; those that are gone stay until their volumes have gone."""

    def __init__(self, caches: Caches, node_name: str, desired: DesiredState, events: EventRecorder, clock: Clock) -> None:
        self.node_name, self.desired = node_name, desired
        self.nodes = caches.of(NODES, selection=Selection(field_selector=f"metadata.name={node_name}"))
        self.pods = caches.of(PODS, selection=Selection(field_selector=f"spec.nodeName={node_name}"))
        self.csi_drivers = caches.of(CSI_DRIVERS)
        self.states: dict[str, VolumeState] = {}
        self.keys: dict[str, Key] = {}
        self._attached: tuple[Node | None, frozenset[str]] = None, frozenset()  # the last Node asked about
        self._events, self._clock = events, clock
        self._announced: dict[tuple[str, str], tuple[str, Instant]] = {}

    # -- one volume

    def state(self, unique: str, settle: Callable[[VolumeState, dict[str, str]], None]) -> VolumeState | None:
        """The state of the volume; begun for one that a pod wants, None for one that is neither wanted nor here.

        settle: told, of one that is wanted as it is here, the name of the PersistentVolume by which each pod wants it.
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
        settle(state, {uid: use.spec_name for uid, use in self.desired.uses(unique).items()})
        return state

    def let_start(self, state: VolumeState) -> list[str]:
        """The pods that were held for the volume's size, once nothing is to be done for it: they are held no more."""
        held = [uid for uid, one in state.publications.items() if one.is_held] if not state.is_to_grow else []
        for uid in held:
            state.publications[uid].is_held = False
            self.announced_no_more(uid, state.volume.unique)
        return held

    # -- what is known

    def driver_spec(self, driver: str) -> CSIDriverSpec:
        """Of its CSIDriver, with nothing set where there is none."""
        found = self.csi_drivers.store.get(Key("", driver))
        return found.spec if found is not None else _NO_SPEC

    def is_attachable(self, volume: Volume) -> bool:
        """True for a volume that the controller attaches to the node first."""
        return not volume.is_inline and self.driver_spec(volume.driver).attach_required is not False

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
        """The Node's report: all that pods want, and all that is here, whatever an earlier Node of this name said of it."""
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
            if (state.attachable and state.volume.unique in attached) or (has_other_labels and state.volume.affinity is not None):
                yield state.volume.unique

    def has_all(self, uid: str) -> bool:
        """True when everything that the pod wants is published to it."""
        return all(self._has(uid, volume) for volume in self.desired.of_pod(uid).values())

    def _has(self, uid: str, volume: Volume) -> bool:
        state = self.states.get(volume.unique)
        return state is not None and state.has(uid)

    # -- what users are told

    def announce(self, uid: str, about: str, text: str, reason: str = "FailedMount") -> None:
        """A Warning for the pod's users, when the text is another one, and now and then. about: the volume, "" for the pod as a whole."""
        pod, now = self.pod(uid), self._clock.now()
        before, told_at = self._announced.get((uid, about), ("", now))
        if pod is None or (before == text and now - told_at < REPEAT_S):
            return
        self._announced[uid, about] = text, now
        self._events.event(reference_to(pod, "Pod"), "Warning", reason, text)

    def announced_no_more(self, uid: str, about: str) -> None:
        """What was told is over: if it comes again, it is told again."""
        self._announced.pop((uid, about), None)

    def tell(self, use: PodUse, type: str, reason: str, text: str) -> None:
        """An event for the pod, each time. type: Normal or Warning."""
        if (pod := self.pod(use.uid)) is not None:
            self._events.event(reference_to(pod, "Pod"), type, reason, text)

    def tell_claim(self, growth: Growth, type: str, reason: str, text: str) -> None:
        """The same for a claim that grows."""
        claim = ObjectReference("v1", "PersistentVolumeClaim", growth.namespace, growth.claim, growth.claim_uid, growth.claim_version)
        self._events.event(claim, type, reason, text)

    def forget_pod(self, uid: str) -> None:
        """Neither the pod nor anything of its volumes is here."""
        self.keys.pop(uid, None)
        for known in [known for known in self._announced if known[0] == uid]:
            del self._announced[known]


def attached_to(node: Node) -> frozenset[str]:
    return frozenset(volume.name for volume in node.status.volumes_attached or ())
