"""The health of a Node, as its conditions and taints say it."""

from __future__ import annotations

from typing import Final

from mooring.api.core import Node, NodeCondition

READY: Final = "Ready"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"
"""This taint states that the machine is off: others may take its pods and volumes."""


def condition_of(node: Node, type: str) -> NodeCondition | None:
    return next((one for one in node.status.conditions or () if one.type == type), None)


def readiness(node: Node | None) -> str:
    """The status of the condition Ready, "" for a node without one."""
    ready = condition_of(node, READY) if node is not None else None
    return ready.status if ready is not None else ""


def is_ready(node: Node | None) -> bool:
    """False also for a node that says nothing of it."""
    return readiness(node) == TRUE


def has_taint(node: Node, key: str, effect: str = "") -> bool:
    """effect: "" for any. The taint's value does not matter."""
    return any(taint.key == key and effect in ("", taint.effect) for taint in node.spec.taints or ())


def is_out_of_service(node: Node | None) -> bool:
    return node is not None and has_taint(node, OUT_OF_SERVICE_TAINT)
