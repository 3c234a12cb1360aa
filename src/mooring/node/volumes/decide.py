"""The next step for one volume on this node. Pure: what pods want, what has been done, what the Node's status says; a step and its reason.

Taking away comes before giving: a pod that is gone is unpublished first, and an unwanted device goes only after every pod has gone.
The Node reports a volume in use before the first step and until the last, for that is what keeps the controller from detaching it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from mooring.control.result import Because
from mooring.node.volumes import reasons as why
from mooring.node.volumes.state import Failure, Publication, Stand, VolumeState


class Step(enum.Enum):
    NOTHING = "nothing"
    STAGE = "stage"
    PUBLISH = "publish"
    UNPUBLISH = "unpublish"
    UNSTAGE = "unstage"
    EXPAND = "expand"
    FORGET = "forget"


class Waits(enum.Enum):
    """What the volume waits for, in place of a step."""

    REPORT = "report"
    ATTACHMENT = "attachment"
    DRIVER = "driver"
    PODS = "pods"
    OTHER_POD = "other-pod"


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What is known outside of the state.

    wanted: the pods that use the volume, by uid, to their names. unsure: pods that are alive, and whose volumes are not known yet.
    may_take_away: False until every pod of this node was looked at after a start. reported: the Node's status says that it is in use.
    attached: the Node's status lists it. has_driver: its driver is registered. now: monotonic seconds. readers: the
    pods that only read it.
    """

    wanted: Mapping[str, str]
    unsure: frozenset[str]
    may_take_away: bool
    reported: bool
    attached: bool
    has_driver: bool
    now: float
    readers: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """step, and for whom: the pod's uid for PUBLISH and UNPUBLISH. waits: in place of a step. after_s: when to look again, at the latest.

    refused: pods that can't have the volume as things are, to the reason that they are told.
    """

    because: Because
    step: Step = Step.NOTHING
    pod: str = ""
    waits: Waits | None = None
    after_s: float | None = None
    refused: Mapping[str, Because] = dataclasses.field(default_factory=dict)


def decide_volume(state: VolumeState, facts: Facts) -> Decision:
    """The next step, or what is waited for."""
    leaving = _leaving(state, facts)
    if leaving is not None:
        return leaving
    if facts.wanted:
        return _looked_at_by(_arriving(state, facts), _next_leaving_s(state, facts))
    if any(one.stand is not Stand.ABSENT for one in state.publications.values()):
        return Decision(why.PodsUnknown(), waits=Waits.PODS)
    if state.device is Stand.ABSENT:
        return Decision(why.Forgotten(), Step.FORGET)
    if not facts.may_take_away or facts.unsure:
        return Decision(why.PodsUnknown(), waits=Waits.PODS)
    if not facts.has_driver:
        return Decision(why.NoDriver(state.volume.driver), waits=Waits.DRIVER)
    return _once_due(state.device_failure, facts) or Decision(why.Unstaging(), Step.UNSTAGE)


def _leaving(state: VolumeState, facts: Facts) -> Decision | None:
    """The next pod that the volume is taken from, or a wait where all of those that are due have failed; None when none leaves."""
    gone = _gone(state, facts)
    if not gone or not facts.may_take_away:
        return None
    due = [(uid, one) for uid, one in gone if _is_due(one.failure, facts)]
    if due and facts.has_driver:
        uid, _ = due[0]
        return Decision(why.Unpublishing(uid), Step.UNPUBLISH, uid)
    if facts.wanted:
        return None  # a pod that can't be got rid of does not keep the others waiting
    if not facts.has_driver:
        return Decision(why.NoDriver(state.volume.driver), waits=Waits.DRIVER)
    return _failing(min((one.failure for _, one in gone if one.failure is not None), key=lambda failure: failure.not_before), facts)


def _gone(state: VolumeState, facts: Facts) -> list[tuple[str, Publication]]:
    """The pods that have the volume, or may have it, and are to have it no more."""
    return [
        (uid, one)
        for uid, one in state.publications.items()
        if one.stand is not Stand.ABSENT and uid not in facts.wanted and uid not in facts.unsure
    ]


def _next_leaving_s(state: VolumeState, facts: Facts) -> float | None:
    """Seconds until a pod may be tried again that could not be got rid of; None where the clock is not what that waits for."""
    failures = [one.failure for _, one in _gone(state, facts) if one.failure is not None and not _is_due(one.failure, facts)]
    return min(failure.not_before for failure in failures) - facts.now if failures and facts.may_take_away else None


def _looked_at_by(decision: Decision, at_most_s: float | None) -> Decision:
    """The decision, with a look after so many seconds at the latest, where it is to wait. None asks for no look."""
    if at_most_s is None or decision.step is not Step.NOTHING:
        return decision
    return dataclasses.replace(decision, after_s=at_most_s if decision.after_s is None else min(decision.after_s, at_most_s))


def _arriving(state: VolumeState, facts: Facts) -> Decision:
    due = {uid: name for uid, name in facts.wanted.items() if _needs(state.publications.get(uid))}
    if not due:
        return _growing(state, facts) or Decision(why.Settled())
    if state.attachable and not facts.reported:
        return Decision(why.ToBeReported(), waits=Waits.REPORT)
    if state.attachable and not facts.attached:
        return Decision(why.NotAttached(), waits=Waits.ATTACHMENT)
    if not facts.has_driver:
        absent = why.NoDriver(state.volume.driver)
        return Decision(absent, waits=Waits.DRIVER, refused=dict.fromkeys(due, absent))
    if state.volume.is_for_one_pod and (others := _held_by_others(state, due)):
        taken = why.TakenByAnotherPod()
        return Decision(taken, waits=Waits.OTHER_POD, refused=dict.fromkeys(others, taken))
    if state.device is not Stand.DONE and not state.volume.is_inline:
        return _once_due(state.device_failure, facts) or Decision(why.Staging(), Step.STAGE)
    ready = [uid for uid in due if (one := state.publications.get(uid)) is None or _is_due(one.failure, facts)]
    if ready:
        return Decision(why.Publishing(due[ready[0]]), Step.PUBLISH, ready[0])
    failures = [one.failure for uid in due if (one := state.publications.get(uid)) is not None and one.failure is not None]
    return _failing(min(failures, key=lambda failure: failure.not_before), facts)


def _growing(state: VolumeState, facts: Facts) -> Decision | None:
    """The volume is where it is wanted: what its size still asks of the node, None for nothing."""
    growth = state.volume.growth
    if growth is None or state.may_not_grow or state.grown == growth.claim_version or not facts.has_driver:
        return None
    writers = [uid for uid in facts.wanted if uid not in facts.readers]
    if not writers:
        return None
    return _once_due(state.growth_failure, facts) or Decision(why.Growing(growth.size), Step.EXPAND, writers[0])


def _needs(publication: Publication | None) -> bool:
    return publication is None or publication.stand is not Stand.DONE or publication.is_outdated


def _held_by_others(state: VolumeState, due: Mapping[str, str]) -> list[str]:
    """The pods that must wait for another one: all of them while one has the volume, all but the first while none has."""
    holders = [uid for uid, one in state.publications.items() if one.stand is not Stand.ABSENT]
    return [uid for uid in due if any(holder != uid for holder in holders)]


def _is_due(failure: Failure | None, facts: Facts) -> bool:
    return failure is None or failure.not_before <= facts.now


def _once_due(failure: Failure | None, facts: Facts) -> Decision | None:
    return None if failure is None or _is_due(failure, facts) else _failing(failure, facts)


def _failing(failure: Failure, facts: Facts) -> Decision:
    return Decision(why.Failing(failure.text), after_s=max(0.0, failure.not_before - facts.now))
