"""The finalizers of a PersistentVolume, of its attachments and of its claim. Pure.

A volume is protected while it is bound, and so are the data behind it; a claim while pods use it, and while clones are
made of it. The driver may say itself where a volume is attached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from mooring.api.binding import claim_key, claims_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, is_deleting, key_of
from mooring.api.migration import driver_and_handle
from mooring.api.storage import VolumeAttachment
from mooring.cluster.binder.protection.decide import RemoveFinalizer
from mooring.cluster.binder.protection.decide import decide_claim as decide_protection
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.traces import Traces, keeping_attachments, keeps_attachment, nodes_in_use, reported_by
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.liveness import ask_the_driver, is_removed, protection_points, sidecar_points
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION

_ATTACHER = "csi-attacher"

PROVISIONER = "csi-provisioner"
RETAIN = "Retain"

_NAMED_MAX = 5
"""So many pods or attachments are named in one sentence."""


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
            f"its reclaim policy is Retain: the volume {handle} stays on the storage, and no object names it "
            "from then on"
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
                reported_by(node),
                _end_its_use(node),
            )


def _attachments(facts: Facts) -> Iterator[Objection]:
    attachments = facts.traces.attachments if facts.traces is not None else ()
    for one in attachments:
        if one.spec.source.persistent_volume_name == facts.name:
            name = one.metadata.name
            yield Objection(f"VolumeAttachment {name} names it", f"mooring why volumeattachment/{name}")


def protection_of_claim(facts: Facts, finalizer: str) -> Iterator[Point]:
    """No pod uses it, as the protection controller judges; and no kubelet has its volume mounted for a pod that was
    forced away.
    """
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
                yield Objection(f"the kubelet of {node} reports its volume as in use", _end_its_use(node))
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
    """Points on a VolumeAttachment: its volume is detached from its node, or never was attached."""
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
    kept = keeps_attachment(traces, one, is_free=has_word or node in traces.out_of_service)
    if kept:
        yield Objection(kept, _end_its_use(node) if kept == reported_by(node) else _detach(facts, one))
    elif not has_word:
        yield Proof(_why_free(traces, one))
    yield from sidecar_points(facts, _ATTACHER, needs_word=True, has_word=has_word)


def volume_points(facts: Facts, finalizer: str) -> Iterator[Point]:
    """Points on a PersistentVolume: it is attached nowhere, and about to be attached nowhere."""
    pv, traces = facts.obj, facts.traces
    assert traces is not None
    if facts.word is not None and facts.word.published_on:
        yield Objection(_published(facts.word.published_on), "detach it there by the storage's own means")
    pods, reporting = traces.users.get(pv.metadata.name, ()), [*nodes_in_use(traces, driver_and_handle(pv)[1])]
    attachments = keeping_attachments(traces, pv)
    if pods:
        yield Objection(f"it is in use by {_some(pods)}", "delete the pods")
    elif reporting:
        yield Objection(reported_by(reporting[0]), _end_its_use(reporting[0]))
    elif attachments:
        yield Objection(
            f"VolumeAttachment {_some(attachments)} still names it",
            f"mooring unstick volumeattachment/{attachments[0]}",
        )
    else:
        yield Proof("no VolumeAttachment names it, no pod on a node uses it, and no kubelet reports it as in use")
    yield from sidecar_points(
        facts, _ATTACHER, needs_word=False, has_word=facts.word is not None and facts.word.published_on is not None
    )


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


def _end_its_use(node: str) -> str:
    return f"end its pods there; if the machine is off: mooring fence {node}"


def _detach(facts: Facts, one: VolumeAttachment) -> str:
    node = one.spec.node_name
    if facts.word is None and is_removed(facts):
        asked = (
            "detach it there by the storage's own means, then mooring unstick "
            f"volumeattachment/{one.metadata.name} --force --reason=WHY"
        )
    else:
        detach = "; or --detach lets the driver detach it, as its attacher would" if facts.word is not None else ""
        asked = f"{ask_the_driver(facts)}{detach}"
    return f"if the machine of node {node} is off: mooring fence {node}; else {asked}"


def _some(names: Collection[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(sorted(names)[:_NAMED_MAX]) + more
