"""The attach/detach controller's own judgement of one volume, from what was read.

What that controller remembers, nobody outside of it knows: how long a volume is unwanted counts from now, unless its
attachment has it written down, or a StatefulSet's new pod shows that the old one is gone. So a forced detach is told
with the latest time. An attachment counts as seen since it was made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.api.meta import Key
from mooring.base.clock import seconds_of
from mooring.base.units import format_duration
from mooring.cluster.attachdetach.assemble import observe, volume_of
from mooring.cluster.attachdetach.decide import decide
from mooring.cluster.attachdetach.decision import Action
from mooring.cluster.attachdetach.facts import Place, Volume
from mooring.cluster.attachdetach.identity import force_after_of
from mooring.cluster.attachdetach.memory import Memory
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.attachdetach.orphans import Orphans
from mooring.cluster.attachdetach.release import Rules, hold_of, may_be_forced
from mooring.cluster.attachdetach.silence import Moment
from mooring.cluster.attachdetach.view import View
from mooring.control.decision import Decision
from mooring.inspect.scene import Scene
from mooring.inspect.why.nodes import silent_since_s

NEVER_FORCED: Final = "never by itself: its class or its driver has forced detaches off"
UNLESS_OFF: Final = "unless forced detaches are off"


class Judged(msgspec.Struct, frozen=True):
    """A volume on a node, and the controller's next step there."""

    view: View
    volume: Volume
    rules: Rules
    decision: Decision[Action]

    def forced(self, place: Place) -> str:
        """When the volume is taken from a node that does not report."""
        wait_s = self.rules.wait_s(self.volume)
        if not wait_s < math.inf:
            return NEVER_FORCED
        if place.wishes:
            return f"by force {format_duration(wait_s)} after the pod's deletion, {UNLESS_OFF}"
        hold = hold_of(self.volume, place, self.rules)
        if hold.forced:
            return f"by force now, {UNLESS_OFF}"
        return f"by force {in_time(hold.in_s if may_be_forced(hold) else wait_s)} at the latest, {UNLESS_OFF}"


def in_time(seconds: float) -> str:
    return f"in {format_duration(float(round(seconds)))}"


def judged(scene: Scene, unique: str, node: str) -> Judged:
    """unique: the volume's name in a Node's status."""
    view = View(
        scene.pods, scene.claims, scene.volumes, scene.nodes, scene.drivers, scene.attachments, Memory(), Orphans()
    )
    moment = Moment(scene.now_s, scene.now_s)
    found = volume_of(view, unique, node, moment)
    observe(view, found, scene.now_s)
    if found.place.attachment is not None:
        found.place.record.seen_since = seconds_of(found.place.attachment.metadata.creation_timestamp or "")
        if not found.place.is_wanted:  # it is judged as if no request were under way: no object tells of one
            found.place.record.fenced_uid = found.place.attachment.metadata.uid
    everywhere = [
        volume_of(view, unique, other, moment).place for other in sorted(view.nodes_of(unique)) if other != node
    ]
    place, *rivals = (
        _learn_from_successor(scene, found, one, (found.place, *everywhere)) for one in (found.place, *found.rivals)
    )
    volume = msgspec.structs.replace(found, place=place, rivals=tuple(rivals))
    waits = {name: (force_after_of(scene.classes.get(Key("", name))), scene.now_s) for name in volume.class_names}
    rules = Rules(AttachDetachOptions(), waits)
    return Judged(view, volume, rules, decide(volume, rules, scene.now_s))


def _learn_from_successor(scene: Scene, volume: Volume, place: Place, everywhere: Iterable[Place]) -> Place:
    """The wait of an unwanted volume begins now at the latest, unless the controller has written down when.

    A claim that a StatefulSet made is used by pods of one name, and the next is made once the last is gone.
    """
    if place.is_wanted or place.node.is_healthy:
        return place
    gone_s, silent_s = _successor_s(volume, place, everywhere), silent_since_s(scene, place.node.name)
    since_successor_s = scene.now_s - max(gone_s, silent_s) if gone_s and silent_s else 0.0
    return msgspec.structs.replace(place, waited_s=max(place.waited_s or 0.0, since_successor_s))


def _successor_s(volume: Volume, place: Place, everywhere: Iterable[Place]) -> float:
    """When the pod was made that wants the volume elsewhere now, 0 for none that shows the end of the one before."""
    elsewhere = (wish for other in everywhere if other.node.name != place.node.name for wish in other.wishes)
    names = [ref.name for ref in volume.claims]
    made = [
        seconds_of(one.created)
        for one in elsewhere
        if one.workload.startswith("StatefulSet ") and _is_of(names, one.ref.name)
    ]
    return min(made, default=0.0)


def _is_of(claims: list[str], pod: str) -> bool:
    return any(claim.endswith(f"-{pod}") for claim in claims)
