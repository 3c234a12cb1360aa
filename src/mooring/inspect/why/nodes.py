"""The link of a node that does not report, and the command that frees what it holds."""

from __future__ import annotations

from typing import Final

from mooring.api.meta import Key
from mooring.api.nodes import READY, condition_of
from mooring.base.clock import seconds_of
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Command, Link, Mover, State

CONTROLLER: Final = "the attach/detach controller (kube-controller-manager, or mooring attachdetach)"


def silent_node_link(
    scene: Scene, step: str, node: str, text: str, since_s: float = 0.0, error: str = "", retry: str = ""
) -> Link:
    """since_s: for a node whose own condition does not say since when it is silent."""
    return Link(
        step,
        State.FAILED,
        text,
        Mover.OPERATOR,
        f"whoever can say that the machine of node {node} is off",
        silent_since_s(scene, node) or since_s,
        error,
        retry=retry,
        commands=(
            Command(
                f"mooring fence {node}",
                "proves what can be proved, asks, and taints it out-of-service: its pods are deleted, its "
                "volumes go to other nodes",
                safe=False,
            ),
            Command(f"kubectl describe node {node}", "reads only: since when, and what it said last"),
        ),
    )


def silent_since_s(scene: Scene, node: str) -> float:
    known = scene.nodes.get(Key("", node))
    ready = condition_of(known, READY) if known is not None else None
    return seconds_of(ready.last_transition_time) if ready is not None else 0.0
