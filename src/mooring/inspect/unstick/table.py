"""Each finalizer of storage: the kinds that it stands on, who sets it, what it protects, and the judgement whether it
may go. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from mooring.api.binding import PV_PROTECTION, PVC_PROTECTION
from mooring.api.meta import finalizers_of, is_deleting
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BOUND_FINALIZER,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
    GROUP_CONTENT_FINALIZER,
    GROUP_FINALIZER,
    IN_GROUP_FINALIZER,
)
from mooring.inspect.points import Objection, Point, Proof, objections_in, proofs_in
from mooring.inspect.traces import finalizer_of
from mooring.inspect.unstick import snapshots, volumes
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.liveness import PROTECTION, SNAPSHOTS
from mooring.sidecars.provisioner.names import CLONE_FINALIZER, SNAPSHOT_FINALIZER, VOLUME_FINALIZER

ATTACHER_PREFIX: Final = "external-attacher/"


class Verdict(msgspec.Struct, frozen=True):
    """The verdict on a finalizer. setter: the program that sets it and takes it off. protects: what would be lost or
    leaked without it.
    """

    finalizer: str
    setter: str
    protects: str
    points: tuple[Point, ...]

    @property
    def proofs(self) -> tuple[Proof, ...]:
        return proofs_in(self.points)

    @property
    def objections(self) -> tuple[Objection, ...]:
        return objections_in(self.points)

    @property
    def may_go(self) -> bool:
        """True where something proves it, and nothing speaks against it."""
        return bool(self.proofs) and not self.objections


class Rule(msgspec.Struct, frozen=True):
    """points: from the facts and the finalizer. is_prefix: the finalizer ends with its driver's name."""

    finalizer: str
    kind: str
    setter: str
    protects: str
    points: Callable[[Facts, str], Iterator[Point]]
    is_prefix: bool = False

    def fits(self, facts: Facts, finalizer: str) -> bool:
        named = finalizer.startswith(self.finalizer) if self.is_prefix else finalizer == self.finalizer
        return named and facts.kind == self.kind


_USED = "the pods that use it: their data would vanish under them"
_RESTORED = "claims that are being filled from it"

RULES: Final = (
    *(
        Rule(ATTACHER_PREFIX, kind, "csi-attacher", protects, points, is_prefix=True)
        for kind, protects, points in (
            (
                "volumeattachment",
                "the volume: it may be attached to this node, and must not be on two",
                volumes.attachment_points,
            ),
            ("pv", "the volume's object, without which nobody can detach it", volumes.volume_points),
        )
    ),
    Rule(PV_PROTECTION, "pv", PROTECTION, "the claim that is bound to it", volumes.protection_of_volume),
    Rule(
        VOLUME_FINALIZER,
        "pv",
        "csi-provisioner",
        "the volume on the storage: it would be leaked",
        volumes.data_of_volume,
    ),
    Rule(PVC_PROTECTION, "pvc", PROTECTION, _USED, volumes.protection_of_claim),
    Rule(
        CLONE_FINALIZER, "pvc", "csi-provisioner", "copies of its volume that are being made", volumes.cloning_of_claim
    ),
    Rule(
        CLAIM_FINALIZER, "pvc", SNAPSHOTS, "snapshots of its volume that are being made", snapshots.source_of_snapshot
    ),
    Rule(AS_SOURCE_FINALIZER, "volumesnapshot", SNAPSHOTS, _RESTORED, snapshots.of_snapshot),
    Rule(BOUND_FINALIZER, "volumesnapshot", SNAPSHOTS, "its content, which goes first", snapshots.of_snapshot),
    Rule(IN_GROUP_FINALIZER, "volumesnapshot", SNAPSHOTS, "the group that it belongs to", snapshots.of_snapshot),
    Rule(SNAPSHOT_FINALIZER, "volumesnapshot", "csi-provisioner", _RESTORED, snapshots.restored_from_snapshot),
    Rule(
        CONTENT_FINALIZER,
        "volumesnapshotcontent",
        "csi-snapshotter",
        "the snapshot on the storage",
        snapshots.data_of_content,
    ),
    Rule(
        GROUP_CONTENT_FINALIZER,
        "volumegroupsnapshotcontent",
        "csi-snapshotter",
        "the group on the storage",
        snapshots.data_of_group,
    ),
    Rule(
        GROUP_FINALIZER,
        "volumegroupsnapshot",
        SNAPSHOTS,
        "its content and its snapshots, which go first",
        snapshots.of_snapshot,
    ),
)


def verdicts(facts: Facts) -> tuple[Verdict, ...]:
    """One verdict for each finalizer of the object."""
    return tuple(_verdict(facts, one) for one in finalizers_of(facts.obj))


def _verdict(facts: Facts, finalizer: str) -> Verdict:
    rule = next((one for one in RULES if one.fits(facts, finalizer)), None)
    if rule is None:
        return Verdict(finalizer, *_author(facts, finalizer), (_unknown(facts, finalizer),))
    setter = f"{rule.setter} of {facts.driver}" if rule.is_prefix else rule.setter
    return Verdict(finalizer, setter, rule.protects, tuple(_points(facts, rule, finalizer)))


def _points(facts: Facts, rule: Rule, finalizer: str) -> Iterator[Point]:
    """The rule judges only an object in deletion: before it, programs need no reason to keep their finalizers."""
    if not is_deleting(facts.obj):
        yield Objection(
            "the object is not being deleted, so nothing waits for the finalizer to go", "delete the object first"
        )
    elif _is_ours(facts, rule, finalizer):
        yield from rule.points(facts, finalizer)
    else:
        yield _foreign(facts, finalizer)


def _is_ours(facts: Facts, rule: Rule, finalizer: str) -> bool:
    return not rule.is_prefix or finalizer == finalizer_of(facts.driver)


def _author(facts: Facts, finalizer: str) -> tuple[str, str]:
    author = facts.authors.get(finalizer)
    setter = f"{author.manager} (it wrote it at {author.at})" if author is not None else "an unknown program"
    return setter, "unknown: it is no finalizer of Kubernetes' storage on this kind"


def _unknown(facts: Facts, finalizer: str) -> Objection:
    author = facts.authors.get(finalizer)
    who = f"whoever runs {author.manager}" if author is not None else "whoever set it"
    return Objection("nobody here knows what it protects", f"ask {who}: that program has to take it off")


def _foreign(facts: Facts, finalizer: str) -> Objection:
    return Objection(
        f"it belongs to the attacher of another driver than {facts.driver}", "see which driver's attacher set it"
    )
