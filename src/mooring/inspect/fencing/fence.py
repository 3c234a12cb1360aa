"""Reading a node, and writing on it who has stated that it is dead, or that it is not any more."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mooring.api.coordination import NODE_LEASE_NAMESPACE
from mooring.api.core import NODES, Node
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.base.clock import Clock, rfc3339
from mooring.inspect.fencing.judge import (
    RECORD,
    TAINT,
    NodeFacts,
    ProverAnswer,
    fence_points,
    is_fenced,
    unfence_points,
)
from mooring.inspect.objects import NotThere
from mooring.inspect.points import Point, objections_in, proofs_in
from mooring.inspect.renewals import Renewals
from mooring.inspect.told_event import tell, user_of
from mooring.inspect.whole import decoded
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Conflict, NotFound
from mooring.kube.patch import merge_patch

TRIES_MAX: Final = 3
NODE_LEASE_S_MAX: Final = 3600.0
"""A kubelet's nodeLeaseDurationSeconds may be minutes, and it renews four times in that time: so long is waited, and
not for hours.
"""
FENCED, UNFENCED = "NodeFenced", "NodeUnfenced"
CHANGED: Final = "somebody keeps changing the node: look again"


class Outcome(msgspec.Struct, frozen=True):
    """problem: what kept it from being done, "" for nothing. untold: why the Event could not be left, "" for one that
    was.
    """

    problem: str = ""
    untold: str = ""


class Fence:
    """watching: is told how long the first look takes because of the Lease."""

    def __init__(
        self, cluster: Cluster, clock: Clock, name: str, watching: Callable[[str], None] = lambda text: None
    ) -> None:
        self._cluster, self._clock, self._name = cluster, clock, name
        self._renewals = Renewals(
            cluster, clock, {name}, watching, NODE_LEASE_NAMESPACE, also_unheld=True, longest_s=NODE_LEASE_S_MAX
        )
        self._uid = ""

    async def node(self) -> Node:
        """Raises NotThere, ApiError."""
        return (await self._read())[0]

    async def _read(self) -> tuple[Node, list[dict[str, Any]]]:
        """The Node, and its taints as they stand, with the fields that we do not know."""
        try:
            whole = await self._cluster.get(NODES.whole(), self._name)
        except NotFound:
            raise NotThere(f'node "{self._name}" does not exist: what it had is detached without a fence') from None
        node = decoded(NODES, whole)
        self._uid = self._uid or node.metadata.uid
        if node.metadata.uid != self._uid:
            raise NotThere(f'node "{self._name}" is another one than a moment ago: look again')
        return node, list((whole.get("spec") or {}).get("taints") or ())

    async def facts(self, prover: ProverAnswer | None) -> NodeFacts:
        """The Lease comes first: the Node is then read as it is after the watch. Raises NotThere, ApiError."""
        lease = await self._renewals.look()
        node, taints = await self._read()
        return NodeFacts(node, lease, prover, taints)

    async def fence(self, prover: ProverAnswer | None, reason: str) -> Outcome:
        """Judges anew, and writes on the very version that was judged. Raises NotThere, ApiError."""
        who = await user_of(self._cluster)
        for _ in range(TRIES_MAX):
            facts = await self.facts(prover)
            if is_fenced(facts.node):
                return Outcome()
            points = fence_points(facts)
            if objections_in(points):
                return Outcome(_against(points))
            proofs = [proof.text for proof in proofs_in(points)]
            at = rfc3339(self._clock.wall_s())
            record = {"by": who, "at": at, "reason": reason, "proof": proofs}
            with contextlib.suppress(Conflict):
                await self._write(
                    facts.node, json.dumps(record), [*map(dict, facts.taints), {**TAINT, "timeAdded": at}]
                )
                said = f" because: {reason}" if reason else ""
                return await self._told(
                    facts.node, FENCED, f"{who} states that the machine is off{said}. Proof: {'; '.join(proofs)}"
                )
        return Outcome(CHANGED)

    async def unfence(self, *, also_not_ready: bool) -> Outcome:
        """Take back our statement, and report it by an Event."""
        for _ in range(TRIES_MAX):
            node, taints = await self._read()
            if not is_fenced(node):
                return Outcome()
            points = unfence_points(node, also_not_ready=also_not_ready)
            if objections_in(points):
                return Outcome(_against(points))
            left = [taint for taint in taints if taint.get("key") != OUT_OF_SERVICE_TAINT]
            with contextlib.suppress(Conflict):
                await self._write(node, None, left)
                proof = "; ".join(one.text for one in proofs_in(points))
                return await self._told(
                    node, UNFENCED, f"{await user_of(self._cluster)} takes back that the machine is off: {proof}"
                )
        return Outcome(CHANGED)

    async def _write(self, node: Node, record: str | None, taints: list[dict[str, Any]]) -> None:
        meta = {"annotations": {RECORD: record}, "resourceVersion": node.metadata.resource_version}
        body = {"metadata": meta, "spec": {"taints": taints or None}}
        await self._cluster.patch(NODES, self._name, merge_patch(body, of=node))

    async def _told(self, node: Node, reason: str, message: str) -> Outcome:
        try:
            await tell(
                self._cluster, self._clock, NODES, node, reason, message, "mooring-fence", is_warning=reason == FENCED
            )
        except ApiError as error:
            return Outcome(untold=str(error))
        return Outcome()


def _against(points: tuple[Point, ...]) -> str:
    return "; ".join(one.text for one in objections_in(points))
