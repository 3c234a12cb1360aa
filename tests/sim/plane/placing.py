"""Pods that the real scheduler places, on volumes that come from claims: what that means for pods and claims."""

from __future__ import annotations

import zlib
from typing import Any, Final

from mooring.base.randomness import Random
from tests.sim.plane.stands import Json, is_gone, node_of

HOST: Final = "kubernetes.io/hostname"


def place_of(plan: Any, name: str, node: str) -> dict[str, Any]:
    """Where a new pod of this name goes that is meant for the node: fields of its spec."""
    if not plan.placing.runs:
        return {"node": node}
    is_chosen = Random(zlib.crc32(name.encode()) + plan.seed).happens(plan.placing.chosen)
    return {"nodeSelector": {HOST: node}} if is_chosen else {}


def chosen_node(pod: Json) -> str:
    """ "" for none."""
    return str((pod["spec"].get("nodeSelector") or {}).get(HOST, ""))


def is_waiting(plan: Any, laws: Any, claim: str) -> bool:
    """True for a claim whose volume is made for a pod, and no pod is there that has its node."""
    if not plan.placing.waits:
        return False
    pods = (pod for pod in laws.pods.values() if node_of(pod) and not is_gone(pod))
    return not any(
        volume["persistentVolumeClaim"]["claimName"] == claim
        for pod in pods
        for volume in pod["spec"].get("volumes") or ()
    )
