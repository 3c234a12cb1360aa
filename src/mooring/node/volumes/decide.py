"""The next step for one volume on this node. Pure: what pods want, what has been done, what the Node's status says; a step and its reason.

Taking away comes before giving: a pod that is gone is unpublished first, and an unwanted device goes only after every pod has gone.
The Node reports a volume in use before the first step and until the last, for that is what keeps the controller from detaching it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from mooring.control.result import Because
from mooring.node.volumes import reasons as why
from mooring.node.volumes.state.actual import Failure, Publication, Stand, VolumeState


class Step(enum.Enum):
    NOTHING = "nothing"
    ATTACH = "attach"
    DETACH = "detach"
    STAGE = "stage"
    PUBLISH = "publish"
    UNPUBLISH = "unpublish"
    UNSTAGE = "unstage"
    EXPAND = "expand"
    FORGET = "forget"


MOUNTS: Final = (Step.STAGE, Step.PUBLISH)


class Waits(enum.Enum):
    """What the volume waits for, in place of a step."""

    REPORT = "report"
    ATTACHMENT = "attachment"
    DRIVER = "driver"
    PODS = "pods"
    OTHER_POD = "other-pod"
    SLOT = "slot"
    NODE = "node"


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What is known outside of the state.

    wanted: the pods that use the volume, by uid, to their names. unsure: pods that are alive, and whose volumes are not known yet.
    may_take_away: False until every pod of this node was looked at after a start. reported: the Node's status says that it is in use.
    attached: the Node's status lists it. attaches: no controller attaches volumes to this node, which does so itself. has_driver: its
    driver is registered. now: monotonic seconds. in_reach: its node affinity means this node. readers: the pods that only read it. labels:
    the SELinux labels that pods want, where they want one. clashing: the pods that name it by another PersistentVolume and can't have it
    beside those of the first, to that one's name. leaving: the pods that it is being taken from at this moment. has_slot: its driver may
    mount one more volume now. may_be_unread: it may be in a place of which no record can be read.
    """

    wanted: Mapping[str, str]
    unsure: frozenset[str]
    may_take_away: bool
    reported: bool
    attached: bool
    has_driver: bool
    now: float
    in_reach: bool = True
    readers: frozenset[str] = frozenset()
    clashing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    has_slot: bool = True
    leaving: frozenset[str] = frozenset()
    may_be_unread: bool = False
    attaches: bool = False
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_unsure(self) -> bool:
        """True while somebody may have the volume of whom that is not known."""
        return bool(self.unsure) or self.may_be_unread or not self.may_take_away


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """step, and for whom: the pod's uid for PUBLISH and UNPUBLISH. first: for STAGE, the pod whose group and label the volume gets.

    waits: in place of a step. after_s: when to look again, at the latest.

    refused: pods that can't have the volume as things are, to the reason that they are told. refused_at: the step in their event.
    """

    because: Because
    step: Step = Step.NOTHING
    pod: str = ""
    first: str = ""
    waits: Waits | None = None
    after_s: float | None = None
    refused: Mapping[str, Because] = dataclasses.field(default_factory=dict)
    refused_at: str = "NewMounter initialization"


def decide_volume(state: VolumeState, facts: Facts) -> Decision:
    """The next step, or what is waited for."""
    decision = _next_step(state, facts)
    if facts.leaving and decision.step not in (Step.NOTHING, Step.UNPUBLISH):  # nothing else is done for the volume meanwhile
        return dataclasses.replace(decision, because=why.Unpublishing(min(facts.leaving)), step=Step.NOTHING, pod="")
    if decision.step in MOUNTS and not facts.has_slot:
        return Decision(why.ManyMounts(state.volume.driver), waits=Waits.SLOT, refused=decision.refused, refused_at=decision.refused_at)
    return decision


def _next_step(state: VolumeState, facts: Facts) -> Decision:
    leaving = _leaving(state, facts)
    if leaving is not None and (leaving.step is not Step.NOTHING or not facts.wanted):
        return leaving
    if facts.wanted:  # a pod that can't be got rid of does not keep the others waiting, and is not forgotten for them
        arriving = _arriving(state, facts)
        return arriving if leaving is None else dataclasses.replace(arriving, after_s=_sooner(arriving.after_s, leaving.after_s))
    if facts.leaving:
        return Decision(why.Unpublishing(min(facts.leaving)))
    if any(one.stand is not Stand.ABSENT for one in state.publications.values()):
        return Decision(why.PodsUnknown(), waits=Waits.PODS)
    if facts.may_be_unread:
        return Decision(why.Unread(), waits=Waits.PODS)
    if state.device is Stand.ABSENT and state.attachment is Stand.ABSENT:
        return Decision(why.Forgotten(), Step.FORGET)
    if not facts.may_take_away or facts.unsure:
        return Decision(why.PodsUnknown(), waits=Waits.PODS)
    if state.device is Stand.ABSENT:
        return _once_awaited(state, facts) or Decision(why.Detaching(), Step.DETACH)
    if not facts.has_driver and state.may_be_staged:
        return Decision(why.NoDriver(state.volume.driver), waits=Waits.DRIVER)
    return _once_due(state.device_failure, facts) or Decision(why.Unstaging(), Step.UNSTAGE)


def _leaving(state: VolumeState, facts: Facts) -> Decision | None:
    """The next pod that the volume is taken from, or a wait where all of these have failed or the driver is away; None when none leaves."""
    gone = [
        (uid, one)
        for uid, one in state.publications.items()
        if one.stand is not Stand.ABSENT and uid not in (*facts.wanted, *facts.unsure, *facts.leaving)
    ]
    if not gone or not facts.may_take_away:
        return None
    due = [(uid, one) for uid, one in gone if _is_due(one.failure, facts)]
    if due and facts.has_driver:
        uid, _ = due[0]
        return Decision(why.Unpublishing(uid), Step.UNPUBLISH, uid)
    if not facts.has_driver:
        return Decision(why.NoDriver(state.volume.driver), waits=Waits.DRIVER)
    return _failing(min((one.failure for _, one in gone if one.failure is not None), key=lambda failure: failure.not_before), facts)


def _arriving(state: VolumeState, facts: Facts) -> Decision:
    due = {uid: name for uid, name in facts.wanted.items() if _needs(state.publications.get(uid))}
    growing = _growing(state, facts)
    if growing is not None and (not due or growing.step is Step.EXPAND):
        return growing
    if not due:
        return Decision(why.Settled())
    holder = state.volume.spec_name
    clashing = {uid: why.NamedTwice(state.volume.handle, name, holder) for uid, name in facts.clashing.items() if uid in due}
    if len(clashing) == len(due):
        return dataclasses.replace(_leaving_for_others(state, facts, next(iter(clashing.values()))), refused=clashing)
    others = _kept_for_one(state, facts, due) if state.volume.is_for_one_pod else {}
    refused: dict[str, Because] = {**others, **clashing}
    if len(refused) == len(due):
        return Decision(next(iter(refused.values())), waits=Waits.OTHER_POD, refused=refused)
    giving = _giving(state, facts, {uid: name for uid, name in due.items() if uid not in refused})
    after_s = giving.after_s if growing is None else _sooner(giving.after_s, growing.after_s)
    return dataclasses.replace(giving, refused={**giving.refused, **refused}, after_s=after_s)


def _giving(state: VolumeState, facts: Facts, due: Mapping[str, str]) -> Decision:
    """due: the pods that are to get the volume, to their names."""
    if state.attachable and not facts.reported:
        return Decision(why.ToBeReported(), waits=Waits.REPORT)
    if state.attachable and facts.attaches and state.attachment is not Stand.DONE:
        return _once_awaited(state, facts) or Decision(why.Attaching(), Step.ATTACH)
    if state.attachable and not facts.attaches and not facts.attached:
        return Decision(why.NotAttached(), waits=Waits.ATTACHMENT)
    if not facts.has_driver:
        absent = why.NoDriver(state.volume.driver)
        return Decision(absent, waits=Waits.DRIVER, refused=dict.fromkeys(due, absent))
    if not facts.in_reach:
        far = why.OutOfReach()
        return Decision(far, waits=Waits.NODE, refused=dict.fromkeys(due, far), refused_at="NodeAffinity check")
    alike = _labelled_alike(state, facts, due)
    unlike = dict.fromkeys(due.keys() - alike.keys(), why.LabelledOtherwise(state.volume.spec_name))
    decision = _mounting(state, facts, alike) if alike else _leaving_for_others(state, facts, why.LabelledOtherwise(state.volume.spec_name))
    return dataclasses.replace(decision, refused={**decision.refused, **unlike})


def _labelled_alike(state: VolumeState, facts: Facts, due: Mapping[str, str]) -> Mapping[str, str]:
    """The pods that want the volume under the SELinux label that it has here; before it is here, the label of the first pod."""
    if state.volume.is_block:
        return due
    label = facts.labels.get(next(iter(due)), "") if state.is_empty else state.label
    return {uid: name for uid, name in due.items() if facts.labels.get(uid, "") == label}


def _leaving_for_others(state: VolumeState, facts: Facts, because: Because) -> Decision:
    """The volume is here in another way than any pod that is due wants it: it has to leave the node first."""
    is_held = any(one.stand is not Stand.ABSENT for one in state.publications.values())
    if is_held or facts.is_unsure or not facts.has_driver:
        return Decision(because, waits=Waits.OTHER_POD)
    return _once_due(state.device_failure, facts) or Decision(because, Step.UNSTAGE)


def _mounting(state: VolumeState, facts: Facts, due: Mapping[str, str]) -> Decision:
    """Nothing keeps these pods from having the volume but its own steps."""
    if state.device is not Stand.DONE and not state.volume.is_inline:
        return _once_due(state.device_failure, facts) or Decision(why.Staging(), Step.STAGE, first=next(iter(due)))
    ready = [uid for uid in due if (one := state.publications.get(uid)) is None or _is_due(one.failure, facts)]
    if ready:
        return Decision(why.Publishing(due[ready[0]]), Step.PUBLISH, ready[0])
    failures = [one.failure for uid in due if (one := state.publications.get(uid)) is not None and one.failure is not None]
    return _failing(min(failures, key=lambda failure: failure.not_before), facts)


def _growing(state: VolumeState, facts: Facts) -> Decision | None:
    """The growth of the volume that the node still has to do, through a pod that has the volume; None for none.

    That comes before further pods get it: who waits for its size is not to wait for a pod that can't have it.
    """
    growth = state.volume.growth
    if growth is None or not state.is_to_grow:
        return None
    if not facts.has_driver:
        absent = why.NoDriver(state.volume.driver)
        held = [uid for uid in facts.wanted if (one := state.publications.get(uid)) is not None and one.is_held]
        return Decision(absent, waits=Waits.DRIVER, refused=dict.fromkeys(held, absent)) if held else None
    users = [uid for uid in facts.wanted if not _needs(state.publications.get(uid))]
    writers = [uid for uid in users if uid not in facts.readers]
    if writers:
        return _once_due(state.growth_failure, facts) or Decision(why.Growing(growth.size), Step.EXPAND, writers[0])
    untold = [uid for uid in users if state.publications[uid].told_size != growth.size]
    return Decision(why.OnlyRead(growth.size), Step.EXPAND, untold[0]) if untold else None


def _needs(publication: Publication | None) -> bool:
    return publication is None or publication.stand is not Stand.DONE or publication.is_outdated


def _kept_for_one(state: VolumeState, facts: Facts, due: Mapping[str, str]) -> dict[str, Because]:
    """The pods that a volume for one pod is kept from: another has it, or may have it where no record can be read."""
    unread = [uid for uid in due if (one := state.publications.get(uid)) is None or one.stand is Stand.ABSENT]
    maybe = dict.fromkeys(unread, why.Unread()) if facts.may_be_unread else {}
    return {**maybe, **dict.fromkeys(_held_by_others(state, due), why.TakenByAnotherPod())}


def _held_by_others(state: VolumeState, due: Mapping[str, str]) -> list[str]:
    """The pods that must wait for another one: all of them while one has the volume, all but the first while none has."""
    holders = [uid for uid, one in state.publications.items() if one.stand is not Stand.ABSENT]
    return [uid for uid in due if any(holder != uid for holder in holders)]


def _is_due(failure: Failure | None, facts: Facts) -> bool:
    return failure is None or failure.not_before <= facts.now


def _once_due(failure: Failure | None, facts: Facts) -> Decision | None:
    return None if failure is None or _is_due(failure, facts) else _failing(failure, facts)


def _once_awaited(state: VolumeState, facts: Facts) -> Decision | None:
    """The wait for the next look at an attachment that this node has asked for, or has given back."""
    wait = state.attach_wait
    if wait is None or _is_due(wait, facts):
        return None
    return Decision(why.AwaitsAttacher(wait.text), waits=Waits.ATTACHMENT, after_s=wait.not_before - facts.now)


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((seconds for seconds in (one, other) if seconds is not None), default=None)


def _failing(failure: Failure, facts: Facts) -> Decision:
    return Decision(why.Failing(failure.text), after_s=max(0.0, failure.not_before - facts.now))
