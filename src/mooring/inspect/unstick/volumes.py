"""The finalizers of a PersistentVolume but for the attacher's: protection while it is bound, and the data behind it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.binding import claim_key
from mooring.api.core import PersistentVolume
from mooring.api.migration import driver_and_handle
from mooring.inspect.left_behind import nodes_in_use
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.liveness import ask_the_driver, protection_points, sidecar_points

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
        yield Proof(f"its reclaim policy is Retain: the volume {handle} stays on the storage, and no object names it from then on")
    elif word is not None and word.exists:
        text = f"the driver {facts.driver} still has the volume: it would be leaked"
        yield Objection(text, f"let csi-provisioner of {facts.driver} delete it; the reclaim policy Retain keeps it on purpose")
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
        yield Objection(f'the claim "{key}" is bound to it', f"kubectl -n {key.namespace} delete pvc {key.name}, if its data may go")
    if traces is None:
        return
    for pod in traces.users.get(pv.metadata.name, ()):
        yield Objection(f"it is in use by {pod}", "delete the pod")
    for node in nodes_in_use(traces, driver_and_handle(pv)[1]) if facts.driver else ():
        if node not in traces.out_of_service:
            yield Objection(
                f"the kubelet of {node} reports it as in use", f"end its pods there; if the machine is off: mooring fence {node}"
            )


def _attachments(facts: Facts) -> Iterator[Objection]:
    attachments = facts.traces.attachments if facts.traces is not None else ()
    for one in attachments:
        if one.spec.source.persistent_volume_name == facts.name:
            name = one.metadata.name
            yield Objection(f"VolumeAttachment {name} names it", f"mooring why volumeattachment/{name}")
