"""What a node leaves unsaid: whether it has a volume mounted after its Node was made anew, and how long a volume waits
on a node that is not ready. Pure: both begin at times that stand in objects, so a restart begins neither anew. What a
restart loses of a Node that was made anew or is gone, such as that it had listed something in use, makes a wait longer,
or lets any mark hold (`memory.py`).

The wait is counted from an annotation of the attachment, which the controller writes when it first finds the volume
unwanted on such a node. It holds for one silence, which the lastTransitionTime of the Node's Ready condition
identifies: a node that was ready in between begins another one, and so does one that goes from False to Unknown, since
nobody can tell these apart later. A Node that is gone says nothing more, so the mark of its last silence holds.

The wall clock is read once for each of them, when a process first sees it. From then on the process counts by itself: a
clock that jumps changes nothing any more.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from mooring.api.core import Node
from mooring.api.meta import annotation
from mooring.api.nodes import READY, condition_of, is_ready
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import Clock, Instant, rfc3339_micro, seconds_of
from mooring.cluster.attachdetach.memory import NodeRecord
from mooring.kube.cluster import Patch
from mooring.kube.patch import merge_patch

UNSAID_S: Final = 60.0
"""How long a Node that was made anew, and is ready, may list nothing in use though its machine has volumes mounted: a
kubelet registers before it has looked what is mounted, and says so with its first status after that.
"""

AHEAD_S: Final = 1.0
"""How far a mark may be ahead of this process's clock: the clocks of two replicas are never quite the same."""

WAITS_SINCE: Final = "mooring.dev/force-detach-since"
"""The annotation of an attachment: when the wait began, and the silence in which it did."""


class Moment(NamedTuple):
    """The same moment on two clocks."""

    now: Instant
    #: Seconds since the Unix epoch.
    wall_s: float


def moment_of(clock: Clock) -> Moment:
    return Moment(clock.now(), clock.wall_s())


def unsaid_s(
    node: Node | None,
    attachment: VolumeAttachment | None,
    record: NodeRecord,
    moment: Moment,
    *,
    was_in_use: bool = False,
) -> float:
    """Seconds for which the node may have the volume mounted without saying so, inf without an end; 0.0 for a node that
    says what it has.

    was_in_use: the Node before this one listed the volume. Else an attachment that is older than the Node tells that
    there was one. A kubelet that is silent says nothing, so the minute begins when the node becomes ready.
    """
    if node is None or record.has_said or node.status.volumes_in_use or attachment is None:
        return 0.0
    # Times are whole seconds. One of the Node's own second counts as made for it; upstream waits for none.
    if not was_in_use and (attachment.metadata.creation_timestamp or "") >= (node.metadata.creation_timestamp or ""):
        return 0.0
    if not is_ready(node):
        return math.inf
    return max(0.0, UNSAID_S - unchanged_s(node, record, moment))


def unchanged_s(node: Node | None, record: NodeRecord, moment: Moment) -> float:
    """Seconds for which the node has been ready, or not ready, without a break. Without a Node it is not ready."""
    if record.unchanged_since is None:
        return 0.0 if node is None else age_s(node, moment.wall_s)
    return moment.now - record.unchanged_since


def age_s(node: Node, wall_s: float) -> float:
    """Seconds since its Ready condition changed, or it was made, by its own times."""
    ready = condition_of(node, READY)
    began = node.metadata.creation_timestamp, None if ready is None else ready.last_transition_time
    return max(0.0, wall_s - max(map(seconds_of, began)))


def mark_on(attachment: VolumeAttachment, node: Node | None, record: NodeRecord) -> str:
    """The mark of a wait in the silence that lasts, "" for none. Where this process saw no deletion of a Node that is
    gone, any mark holds.
    """
    mark = annotation(attachment, WAITS_SINCE)
    _, _, silence = mark.partition(" ")
    current = record.last_silence if node is None else silent_since(node)
    return "" if is_ready(node) or (current is not None and silence != current) else mark


def waited_s(mark: str, wall_s: float) -> float | None:
    """Seconds since the wait began, None for a mark that can't be true: a clock was wrong when it was written, or is
    now.
    """
    began_s = seconds_of(mark.partition(" ")[0])
    return max(0.0, wall_s - began_s) if 0.0 < began_s <= wall_s + AHEAD_S else None


def mark_of(node: Node | None, record: NodeRecord, wall_s: float) -> str:
    """The annotation's text for a wait that begins now."""
    silence = record.last_silence or "" if node is None else silent_since(node)
    return f"{rfc3339_micro(wall_s)} {silence}".strip()


def mark_patch(attachment: VolumeAttachment, mark: str) -> Patch:
    """mark: "" takes it away."""
    return merge_patch({"metadata": {"annotations": {WAITS_SINCE: mark or None}}}, of=attachment)


def silent_since(node: Node) -> str:
    """The last transition of a Ready condition that is not True."""
    ready = condition_of(node, READY)
    return "" if ready is None or is_ready(node) else ready.last_transition_time or ""
