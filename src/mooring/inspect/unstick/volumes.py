"""The finalizers of a PersistentVolume, of its attachments and of its claim. Pure.

A volume is protected while it is bound, and so are the data behind it; a claim while pods use it, and while clones are made of it. The
judgement on what is attached is that of `mooring release`. But here the driver may still be there, and may say itself where.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mooring.api.binding import claim_key, claims_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, is_deleting, key_of
from mooring.api.migration import driver_and_handle
from mooring.api.storage import VolumeAttachment
from mooring.cluster.binder.protection.decide import RemoveFinalizer
from mooring.cluster.binder.protection.decide import decide_claim as decide_protection
from mooring.inspect.left_behind import HeldObject, Traces, judged, nodes_in_use
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.liveness import ask_the_driver, protection_points, sidecar_points
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION

_ATTACHER = "csi-attacher"

PROVISIONER = "csi-provisioner"
RETAIN = "Retain"


def protection_of_volume(facts: Facts, finalizer: str) -> Iterator[Point]:
    """No claim is bound to it, and nothing uses it."""
    used = tuple(_uses(facts))
    yield from used or (Proof("no claim is bound to it, and no pod or kubelet uses it"),)
    yield from protection_points(facts)


def data_of_volume(facts: Facts, finalizer: str) -> Iterator[Point]:
    """The volume is gone at the driver, or is to stay on the storage."""
    pv, word = facts.obj, facts.word
    yield from _uses(facts)
    yield from _attachments(facts)
    keeps = pv.spec.persistent_volume_reclaim_policy == RETAIN
    is_gone = word is not None and word.exists is False
    if is_gone:
        yield Proof(f"the driver {facts.driver} has no such volume any more")
    elif keeps:
        handle = driver_and_handle(pv)[1]
        yield Proof(
            f"its reclaim policy is Retain: the volume {handle} stays on the storage, and no object names it from then on"
        )
    elif word is not None and word.exists:
        text = f"the driver {facts.driver} still has the volume: it would be leaked"
        yield Objection(
            text, f"let csi-provisioner of {facts.driver} delete it; the reclaim policy Retain keeps it on purpose"
        )
    else:
        text = "nobody knows whether the driver still has the volume: it would be leaked"
        yield Objection(text, f"{ask_the_driver(facts)}; the reclaim policy Retain keeps it on purpose")
    yield from sidecar_points(facts, PROVISIONER, needs_word=not keeps, has_word=is_gone or keeps)


def _uses(facts: Facts) -> Iterator[Objection]:
    pv, traces = facts.obj, facts.traces
    assert isinstance(pv, PersistentVolume)
    ref = pv.spec.claim_ref
    claim = facts.scene.claims.get(claim_key(ref)) if ref is not None else None
    if claim is not None and ref is not None and ref.uid in ("", claim.metadata.uid):
        key = claim_key(ref)
        yield Objection(
            f'the claim "{key}" is bound to it', f"kubectl -n {key.namespace} delete pvc {key.name}, if its data may go"
        )
    if traces is None:
        return
    for pod in traces.users.get(pv.metadata.name, ()):
        yield Objection(f"it is in use by {pod}", "delete the pod")
    for node in nodes_in_use(traces, driver_and_handle(pv)[1]) if facts.driver else ():
        if node not in traces.out_of_service:
            yield Objection(
                f"the kubelet of {node} reports it as in use",
                f"end its pods there; if the machine is off: mooring fence {node}",
            )


def _attachments(facts: Facts) -> Iterator[Objection]:
    attachments = facts.traces.attachments if facts.traces is not None else ()
    for one in attachments:
        if one.spec.source.persistent_volume_name == facts.name:
            name = one.metadata.name
            yield Objection(f"VolumeAttachment {name} names it", f"mooring why volumeattachment/{name}")


def protection_of_claim(facts: Facts, finalizer: str) -> Iterator[Point]:
    """No pod uses it, as the protection controller judges; and no kubelet has its volume mounted for a pod that was forced away."""
    claim, traces = facts.obj, facts.traces
    assert isinstance(claim, PersistentVolumeClaim)
    key = key_of(claim)
    pods = [pod for pod in facts.scene.pods.values() if key in claims_of(pod)]
    decision = decide_protection(claim, pods, is_fresh=True)
    if not any(isinstance(one, RemoveFinalizer) for one in decision.actions):
        yield Objection(f"{decision.because}", f"kubectl -n {key.namespace} delete pod NAME, if that pod may end")
    else:
        yield Proof("no pod on a node uses it")
    pv = facts.scene.volumes.get(Key("", claim.spec.volume_name))
    if pv is not None and traces is not None:
        for node in nodes_in_use(traces, driver_and_handle(pv)[1]):
            if node not in traces.out_of_service:
                way_out = f"end its pods there; if the machine is off: mooring fence {node}"
                yield Objection(f"the kubelet of {node} reports its volume as in use", way_out)
    yield from protection_points(facts)


def cloning_of_claim(facts: Facts, finalizer: str) -> Iterator[Point]:
    """No claim waits for a copy of it."""
    key = key_of(facts.obj)
    for claim in facts.scene.claims.values():
        source = claim.spec.data_source_ref or claim.spec.data_source
        if source is None or source.kind != "PersistentVolumeClaim" or claim.spec.volume_name:
            continue
        other = key_of(claim)
        if Key(getattr(source, "namespace", "") or other.namespace, source.name) == key:
            yield Objection(
                f'the claim "{other}" waits for a copy of it', f"mooring why -n {other.namespace} pvc/{other.name}"
            )
            return
    yield Proof("no claim waits for a copy of it")
    if facts.driver:
        yield from sidecar_points(facts, "csi-provisioner", needs_word=False, has_word=False)


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
        traces = msgspec.structs.replace(traces, in_use={**traces.in_use, node: frozenset()})
    is_free = has_word or node in traces.out_of_service
    held = _held(traces, one.metadata.uid, (one.metadata.name,) if is_free else ())
    if held is not None and held.kept:
        yield Objection(held.kept, _way_out(facts, held))
    elif not has_word:
        yield Proof(_why_free(traces, one))
    yield from sidecar_points(facts, _ATTACHER, needs_word=True, has_word=has_word)


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
    yield from sidecar_points(
        facts, _ATTACHER, needs_word=False, has_word=facts.word is not None and facts.word.published_on is not None
    )


def _held(traces: Traces, uid: str, detached: tuple[str, ...]) -> HeldObject | None:
    return next((one for one in judged(traces, detached).held if one.obj.metadata.uid == uid), None)


def _told(facts: Facts, one: VolumeAttachment) -> tuple[Point, ...]:
    """What the driver says of the volume on this node; nothing where it was not asked, or can't say."""
    word, node = facts.word, one.spec.node_name
    node_id = annotation(one, NODE_ID_ANNOTATION) or facts.node_ids.get(node, "")
    if word is None:
        return ()
    if word.detached_from:
        return (
            Proof(f"the driver {word.driver} has detached the volume from node {node} (node id {word.detached_from})"),
        )
    if word.exists is False:
        return (Proof(f"the driver {word.driver} has no such volume any more"),)
    if word.published_on is None:
        return ()
    way_out = "--detach lets the driver detach it; else detach it there by the storage's own means"
    if node_id in word.published_on or (not node_id and word.published_on):
        return (Objection(_published(word.published_on), way_out),)
    strange = word.published_on - {other for name, other in facts.node_ids.items() if name != node}
    if strange:
        return (
            Objection(
                f"{_published(strange)}, which is no other node's id: it may be {node} under another name", way_out
            ),
        )
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
