"""The attach/detach controller's own judgement of one volume, from what was read.

What that controller remembers, nobody outside of it knows: how long a volume is unwanted counts from now, unless the Node has it written
down, or a StatefulSet's new pod shows that the old one is gone. So a forced detach is told with the latest time. An attachment counts as
seen since it was made.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from mooring.api.meta import Key
from mooring.api.nodes import is_ready
from mooring.base.units import format_duration
from mooring.cluster.attachdetach.assemble import observe, volume_of
from mooring.cluster.attachdetach.decide import decide_volume
from mooring.cluster.attachdetach.decision import Step, TakeSteps
from mooring.cluster.attachdetach.facts import Place, Volume
from mooring.cluster.attachdetach.identity import force_after_of
from mooring.cluster.attachdetach.memory import Memory, NodeRecord
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.attachdetach.orphans import Orphans
from mooring.cluster.attachdetach.release import Rules, hold_of, may_be_forced
from mooring.cluster.attachdetach.view import View
from mooring.inspect.scene import Scene, moment_s
from mooring.inspect.why.nodes import silent_since_s

NEVER_FORCED: Final = "never by itself: its class or its driver has forced detaches off"
UNLESS_OFF: Final = "unless forced detaches are off"


class Judged(msgspec.Struct, frozen=True):
    """steps: by node."""

    view: View
    volume: Volume
    rules: Rules
    steps: dict[str, Step]
    now_s: float

    def forced(self, place: Place) -> str:
        """When the volume is taken from a node that does not report."""
        wait_s = self.rules.wait_s(self.volume)
        if not wait_s < math.inf:
            return NEVER_FORCED
        if place.wishes:
            return f"by force {format_duration(wait_s)} after the pod's deletion, {UNLESS_OFF}"
        hold = hold_of(self.volume, place, self.rules, self.now_s)
        if hold.forced:
            return f"by force now, {UNLESS_OFF}"
        return f"by force {in_time(hold.in_s if may_be_forced(hold) else wait_s)} at the latest, {UNLESS_OFF}"


def in_time(seconds: float) -> str:
    return f"in {format_duration(float(round(seconds)))}"


class _LongMemory(Memory):
    """Of a controller that has watched each Node since it was made: whether it has said what is mounted."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene, self._heard = scene, set[str]()

    def node(self, name: str) -> NodeRecord:
        record, known = super().node(name), self._scene.nodes.get(Key("", name))
        if known is not None and name not in self._heard:
            self._heard.add(name)
            in_use = known.status.volumes_in_use or ()
            record.heard(in_use, is_new=True, is_ready=True, now=moment_s(known.metadata.creation_timestamp))
            if not is_ready(known):
                record.heard(in_use, is_new=False, is_ready=False, now=silent_since_s(self._scene, name))
        return record


def judged(scene: Scene, unique: str) -> Judged:
    """unique: the volume's name in a Node's status."""
    memory = _LongMemory(scene)
    view = View(
        scene.pods, scene.claims, scene.volumes, scene.nodes, scene.drivers, scene.attachments, scene.csi_nodes, memory, Orphans()
    )  # fmt: skip
    volume = volume_of(view, unique)
    observe(view, volume, scene.now_s)
    for place in volume.places.values():
        if place.attachment is not None:
            place.record.seen_since = moment_s(place.attachment.metadata.creation_timestamp or "")
        _learn_from_successor(scene, volume, place)
    waits = {name: (force_after_of(scene.classes.get(Key("", name))), scene.now_s) for name in volume.class_names}
    rules = Rules(AttachDetachOptions(), waits)
    taken = (one for one in decide_volume(volume, rules, scene.now_s).actions if isinstance(one, TakeSteps))
    return Judged(view, volume, rules, {step.node: step for one in taken for step in one.steps}, scene.now_s)


def _learn_from_successor(scene: Scene, volume: Volume, place: Place) -> None:
    """A claim that a StatefulSet made is used by pods of one name, and the next is made once the last is gone."""
    record, gone_s = place.record, _successor_s(volume, place)
    silent_s = silent_since_s(scene, place.node.name)
    if record.unwanted_since is None or record.unhealthy_since is None or not gone_s or not silent_s:
        return
    record.unwanted_since = min(record.unwanted_since, gone_s)
    record.unhealthy_since = min(record.unhealthy_since, silent_s)


def _successor_s(volume: Volume, place: Place) -> float:
    """When the pod was made that wants the volume elsewhere now, 0 for none that shows the end of the one before."""
    elsewhere = (wish for other in volume.places.values() if other is not place for wish in other.wishes)
    names = [ref.name for ref in volume.claims]
    made = [
        moment_s(one.created)
        for one in elsewhere
        if one.workload.startswith("StatefulSet ") and _is_of(names, one.ref.name)
    ]
    return min(made, default=0.0)


def _is_of(claims: list[str], pod: str) -> bool:
    return any(claim.endswith(f"-{pod}") for claim in claims)
