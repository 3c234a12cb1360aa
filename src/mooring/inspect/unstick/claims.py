"""The finalizers of a claim: pods that use it, clones and snapshots that are being made of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.binding import claims_of
from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.migration import driver_and_handle
from mooring.cluster.binder.protection.decide import RemoveFinalizer
from mooring.cluster.binder.protection.decide import decide_claim as decide_protection
from mooring.inspect.left_behind import nodes_in_use
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.liveness import protection_points, sidecar_points


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
            yield Objection(f'the claim "{other}" waits for a copy of it', f"mooring why -n {other.namespace} pvc/{other.name}")
            return
    yield Proof("no claim waits for a copy of it")
    if facts.driver:
        yield from sidecar_points(facts, "csi-provisioner", needs_word=False, has_word=False)
