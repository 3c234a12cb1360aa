"""Whether a node is dead, whether our statement of that may be taken back, and the record of who made it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.core import Node
from mooring.api.meta import annotation
from mooring.api.nodes import OUT_OF_SERVICE_TAINT, READY, condition_of, is_out_of_service, is_ready
from mooring.base.json_text import from_json
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.renewals import LeaseSight

RECORD: Final = "mooring.dev/fenced"
"""The annotation on a Node that says who fenced it, when, and why."""
TAINT: Final = {"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}


class ProverAnswer(msgspec.Struct, frozen=True):
    """program: without its arguments, which may hold passwords. exit_code: None where it did not end in time. said: its
    last line.
    """

    program: str
    exit_code: int | None
    said: str = ""


class NodeFacts(msgspec.Struct, frozen=True):
    """lease: of its kubelet, after it was watched. prover: None where none was asked. taints: as the server sent
    them.
    """

    node: Node
    lease: LeaseSight
    prover: ProverAnswer | None = None
    taints: Sequence[Mapping[str, Any]] = ()

    @property
    def name(self) -> str:
        return self.node.metadata.name


def fence_points(facts: NodeFacts) -> tuple[Point, ...]:
    """The points on fencing the node: it may be fenced where all of them are proofs."""
    return (*_readiness(facts), *_lease(facts), *_prover(facts))


def _readiness(facts: NodeFacts) -> Iterator[Point]:
    ready = condition_of(facts.node, READY)
    if is_ready(facts.node):
        yield Objection("the node is Ready", f"if its machine is to go: kubectl drain {facts.name}, and shut it down")
    elif ready is None:
        yield Objection(
            "the node has no condition Ready: its kubelet has never reported",
            "wait until it reports, or delete the Node",
        )
    else:
        since = f" since {ready.last_transition_time}" if ready.last_transition_time else ""
        yield Proof(f"its condition Ready is {ready.status}{since}")


def _lease(facts: NodeFacts) -> Iterator[Point]:
    for live in facts.lease.live:
        if live.is_watched:
            yield Objection(f"its kubelet lives: it renews the Lease {live.name}", "shut the machine down first")
        else:
            yield Objection(
                f"nobody can tell whether its kubelet lives: {live.name}: {live.why}",
                "see to the Lease's duration first",
            )
    for name in facts.lease.silent:
        yield Proof(f"nobody has renewed its Lease {name} while it was watched")
    if not (facts.lease.live or facts.lease.silent) and not _is_proved(facts.prover):
        yield Objection(
            "it has no Lease in kube-node-lease, so nothing shows whether its kubelet lives",
            "let a --prover say that it is off",
        )


def _prover(facts: NodeFacts) -> Iterator[Point]:
    prover = facts.prover
    if prover is None:
        return
    said = f": {prover.said}" if prover.said else ""
    if _is_proved(prover):
        yield Proof(f"the prover says that it is dead ({prover.program}){said}")
    elif prover.exit_code is None:
        yield Objection(
            f"the prover did not end in time ({prover.program}){said}",
            "see to the prover, or give it more --prover-timeout",
        )
    else:
        yield Objection(
            f"the prover ended with exit code {prover.exit_code} ({prover.program}){said}",
            "shut the machine down first",
        )


def _is_proved(prover: ProverAnswer | None) -> bool:
    return prover is not None and prover.exit_code == 0


def unfence_points(node: Node, *, also_not_ready: bool) -> tuple[Point, ...]:
    """Our statement may be taken back where all of them are proofs."""
    name = node.metadata.name
    if not is_ours(node):
        line = f"kubectl taint nodes {name} {OUT_OF_SERVICE_TAINT}-"
        return (
            Objection(
                "somebody else has set the taint: mooring fence has left no record of it", f"ask who did, then: {line}"
            ),
        )
    if is_ready(node):
        return (Proof("the node is Ready"),)
    if also_not_ready:
        return (Proof("the node is not Ready, and whoever runs this wants it back all the same"),)
    return (
        Objection("the node is not Ready", "start the machine, and wait until it is Ready; --not-ready does it now"),
    )


def is_fenced(node: Node) -> bool:
    return is_out_of_service(node)


def is_ours(node: Node) -> bool:
    """False also where our record is of a taint that somebody has taken away since: the taint that stands is younger
    then.
    """
    at = record_of(node).get("at")
    return bool(at) and all(one.time_added == at for one in node.spec.taints or () if one.key == OUT_OF_SERVICE_TAINT)


def fence_rows(node: Node) -> list[tuple[str, str]]:
    """Who has fenced a node that is fenced, when, why, and by what proof. For people: a word, and a sentence."""
    record = record_of(node)
    if not is_ours(node):
        since = next(
            (one.time_added for one in node.spec.taints or () if one.key == OUT_OF_SERVICE_TAINT and one.time_added), ""
        )
        when = f" at {since}" if since else ""
        return [("fenced", f"somebody has set the taint{when}; mooring fence has left no record of it")]
    rows = [("fenced by", str(record.get("by") or "nobody says whom")), ("at", str(record["at"]))]
    rows += [("because", str(record["reason"]))] if record.get("reason") else []
    return [*rows, *(("proved", str(one)) for one in record.get("proof") or ())]


def record_of(node: Node) -> Mapping[str, Any]:
    """Who fenced it, when and why; {} where nobody has left a record that can be read."""
    try:
        found = from_json(annotation(node, RECORD) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
