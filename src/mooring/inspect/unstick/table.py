"""Each finalizer of storage: the kinds that it stands on, who sets it, what it protects, and the judgement whether it may go. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final

from mooring.api.meta import finalizers_of, is_deleting
from mooring.inspect.left_behind import finalizer_of
from mooring.inspect.points import Objection, Point
from mooring.inspect.unstick import attached
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.verdict import Verdict

ATTACHER_PREFIX: Final = "external-attacher/"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
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


RULES: Final = (
    Rule(
        ATTACHER_PREFIX,
        "volumeattachment",
        "csi-attacher",
        "the volume from being attached elsewhere while this node has it",
        attached.attachment_points,
        is_prefix=True,
    ),
    Rule(
        ATTACHER_PREFIX,
        "pv",
        "csi-attacher",
        "the volume's object, without which nobody can detach it",
        attached.volume_points,
        is_prefix=True,
    ),
)


def verdicts(facts: Facts) -> tuple[Verdict, ...]:
    """One for each finalizer of the object."""
    return tuple(_verdict(facts, one) for one in finalizers_of(facts.obj))


def _verdict(facts: Facts, finalizer: str) -> Verdict:
    rule = next((one for one in RULES if one.fits(facts, finalizer)), None)
    if rule is None:
        return Verdict(finalizer, *_author(facts, finalizer), (_unknown(facts, finalizer),))
    points = tuple(rule.points(facts, finalizer)) if _is_ours(facts, rule, finalizer) else (_foreign(facts, finalizer),)
    setter = f"{rule.setter} of {facts.driver}" if rule.is_prefix else rule.setter
    return Verdict(finalizer, setter, rule.protects, (*_not_deleted(facts), *points))


def _is_ours(facts: Facts, rule: Rule, finalizer: str) -> bool:
    return not rule.is_prefix or finalizer == finalizer_of(facts.driver)


def _not_deleted(facts: Facts) -> Iterator[Point]:
    if not is_deleting(facts.obj):
        yield Objection("the object is not being deleted, so nothing waits for the finalizer to go", "delete the object first")


def _author(facts: Facts, finalizer: str) -> tuple[str, str]:
    author = facts.authors.get(finalizer)
    setter = f"{author.manager} (it wrote it at {author.at})" if author is not None else "an unknown program"
    return setter, "unknown: it is no finalizer of Kubernetes' storage on this kind"


def _unknown(facts: Facts, finalizer: str) -> Objection:
    author = facts.authors.get(finalizer)
    who = f"whoever runs {author.manager}" if author is not None else "whoever set it"
    return Objection("nobody here knows what it protects", f"ask {who}: that program has to take it off")


def _foreign(facts: Facts, finalizer: str) -> Objection:
    return Objection(f"it belongs to the attacher of another driver than {facts.driver}", "see which driver's attacher set it")
