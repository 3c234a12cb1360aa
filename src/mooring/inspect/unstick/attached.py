"""The attacher's finalizer, on a VolumeAttachment and on a PersistentVolume. Pure.

The judgement is that of `mooring release`. But here the driver may still be there, and may say itself where the volume is attached.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from mooring.api.meta import annotation, is_deleting
from mooring.api.storage import VolumeAttachment
from mooring.inspect.left_behind import HeldObject, Traces, judged
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.liveness import ask_the_driver, sidecar_points
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION

ATTACHER = "csi-attacher"


def attachment_points(facts: Facts, finalizer: str) -> Iterator[Point]:
    """Of a VolumeAttachment: its volume is detached from its node, or never was attached."""
    one, traces = facts.obj, facts.traces
    assert traces is not None
    assert isinstance(one, VolumeAttachment)
    if not is_deleting(one):
        return
    told = _told(facts, one)
    yield from told
    has_word = any(isinstance(point, Proof) for point in told)
    node = one.spec.node_name
    if has_word and node in traces.out_of_service:  # what its kubelet reported before the end counts no more
        traces = dataclasses.replace(traces, in_use={**traces.in_use, node: frozenset()})
    is_free = has_word or node in traces.out_of_service
    held = _held(traces, one.metadata.uid, (one.metadata.name,) if is_free else ())
    if held is not None and held.kept:
        yield Objection(held.kept, _way_out(facts, held))
    elif not has_word:
        yield Proof(_why_free(traces, one))
    yield from sidecar_points(facts, ATTACHER, needs_word=True, has_word=has_word)


def volume_points(facts: Facts, finalizer: str) -> Iterator[Point]:
    """Of a PersistentVolume: it is attached nowhere, and about to be attached nowhere."""
    pv, traces = facts.obj, facts.traces
    assert traces is not None
    if facts.word is not None and facts.word.published_on:
        yield Objection(_published(facts.word.published_on), "detach it there by the storage's own means")
    held = _held(traces, pv.metadata.uid, ())
    if held is not None and held.kept:
        yield Objection(held.kept, held.way_out)
    elif held is not None and held.after:
        name = min(held.after)
        yield Objection(f"VolumeAttachment {name} still names it", f"mooring unstick volumeattachment/{name}")
    else:
        yield Proof("no VolumeAttachment names it, no pod on a node uses it, and no kubelet reports it as in use")
    yield from sidecar_points(facts, ATTACHER, needs_word=False, has_word=facts.word is not None and facts.word.published_on is not None)


def _held(traces: Traces, uid: str, detached: tuple[str, ...]) -> HeldObject | None:
    return next((one for one in judged(traces, detached).held if one.obj.metadata.uid == uid), None)


def _told(facts: Facts, one: VolumeAttachment) -> tuple[Point, ...]:
    """What the driver says of the volume on this node; nothing where it was not asked, or can't say."""
    word, node = facts.word, one.spec.node_name
    node_id = annotation(one, NODE_ID_ANNOTATION) or facts.node_ids.get(node, "")
    if word is None:
        return ()
    if word.detached_from:
        return (Proof(f"the driver {word.driver} has detached the volume from node {node} (node id {word.detached_from})"),)
    if word.exists is False:
        return (Proof(f"the driver {word.driver} has no such volume any more"),)
    if word.published_on is None:
        return ()
    way_out = "--detach lets the driver detach it; else detach it there by the storage's own means"
    if node_id in word.published_on or (not node_id and word.published_on):
        return (Objection(_published(word.published_on), way_out),)
    strange = word.published_on - {other for name, other in facts.node_ids.items() if name != node}
    if strange:
        return (Objection(f"{_published(strange)}, which is no other node's id: it may be {node} under another name", way_out),)
    where = f"node {node} (node id {node_id})" if node_id else "any node"
    return (Proof(f"the driver {word.driver} does not have the volume published on {where}"),)


def _published(node_ids: frozenset[str]) -> str:
    return f"the driver says that the volume is published on {', '.join(sorted(node_ids))}"


def _why_free(traces: Traces, one: VolumeAttachment) -> str:
    node = one.spec.node_name
    if node not in traces.in_use:
        return f"node {node} does not exist any more: whoever deleted it has stated that the machine is gone"
    return f"node {node} is tainted out-of-service, so its machine is off, and its kubelet had the volume unmounted"


def _way_out(facts: Facts, held: HeldObject) -> str:
    """The same as in `mooring release`, but for flags that only that command has."""
    if "--detached" in held.way_out:
        detach = "; or --detach lets the driver detach it, as its attacher would" if facts.word is not None else ""
        return f"if the machine of node {held.node} is off: mooring fence {held.node}; else {ask_the_driver(facts)}{detach}"
    return held.way_out
