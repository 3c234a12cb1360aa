"""Whether a pod's volumes are bound for the chosen node: kube-scheduler's PreBind, checked at each change. Pure."""

from __future__ import annotations

from mooring.api.binding import SELECTED_NODE, is_fully_bound
from mooring.api.core import Node, PersistentVolume
from mooring.api.matching import fits_node
from mooring.api.meta import Key, annotation
from mooring.cluster.binder.scheduling.assumed_bindings import AssumedBinding
from mooring.cluster.binder.scheduling.view import View


class PlanFailed(Exception):
    """The volumes can't be bound for the node any more; str() is the reason, in kube-scheduler's words."""


def missing_claims(view: View, plan: AssumedBinding) -> tuple[str, ...]:
    """The claims that are not bound yet, by name. Raises PlanFailed."""
    node = view.node(plan.node_name)
    if node is None:
        raise PlanFailed(f'failed to get node "{plan.node_name}": node "{plan.node_name}" not found')
    waiting = [key.name for pv_name, key in plan.static if not _static_is_bound(view, node, pv_name, key)]
    waiting += [key.name for key in plan.provision if not _provisioned_is_bound(view, node, key)]
    if not waiting:
        _check_others(view, plan)
    return tuple(waiting)


def _check_others(view: View, plan: AssumedBinding) -> None:
    """Check the claims that were bound when the node was chosen. Differs from kube-scheduler, which binds a pod whose
    claim has been made anew: no node is ever selected for that claim then, and the pod waits for ever.
    """
    for key in plan.claims:
        claim = view.claims.get(key)
        if claim is None or not is_fully_bound(claim):
            raise PlanFailed(f'PVC "{key.name}" is not bound any more')


def _static_is_bound(view: View, node: Node, pv_name: str, key: Key) -> bool:
    pv, claim = view.volumes.get(pv_name), view.claims.get(key)
    if pv is None:
        raise PlanFailed(f'failed to check binding: persistentvolumes "{pv_name}" not found')
    if claim is None:
        raise PlanFailed(f'failed to check binding: persistentvolumeclaims "{key}" not found')
    _check_affinity(pv, node)
    ref = pv.spec.claim_ref
    if ref is None or ref.uid != claim.metadata.uid:
        raise PlanFailed(f'ClaimRef got reset for pv "{pv_name}"')
    if claim.spec.volume_name not in ("", pv_name):
        raise PlanFailed(f'PVC "{key.name}" is bound to pv "{claim.spec.volume_name}" instead of pv "{pv_name}"')
    return is_fully_bound(claim)


def _provisioned_is_bound(view: View, node: Node, key: Key) -> bool:
    claim = view.claims.get(key)
    if claim is None:
        raise PlanFailed(f'failed to check provisioning pvc: persistentvolumeclaims "{key}" not found')
    if claim.metadata.annotations is None:
        raise PlanFailed(f'selectedNode annotation reset for PVC "{key.name}"')
    if annotation(claim, SELECTED_NODE) != node.metadata.name:
        raise PlanFailed(f'provisioning failed for PVC "{key.name}"')
    if claim.spec.volume_name:
        pv = view.volumes.get(claim.spec.volume_name)
        if pv is None:
            return False
        _check_affinity(pv, node)
    return is_fully_bound(claim)


def _check_affinity(pv: PersistentVolume, node: Node) -> None:
    if not fits_node(pv, node.metadata.labels, node.metadata.name):
        text = (
            f'pv "{pv.metadata.name}" node affinity doesn\'t match node "{node.metadata.name}": no matching '
            "NodeSelectorTerms"
        )
        raise PlanFailed(text)
