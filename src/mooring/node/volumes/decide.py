"""The next step for one volume on this node. Pure: what pods want, what has been done, what the Node's status says; a
step and its reason.

Taking away comes before giving: a pod that is gone is unpublished first, and an unwanted device goes only after every
pod has gone. The Node reports a volume in use before the first step and until the last, for that is what keeps the
controller from detaching it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from mooring.control.decision import Decision
from mooring.control.result import Because
from mooring.node.volumes import reasons as why
from mooring.node.volumes.state.actual import Device, Failure, Publication, Stand, Step, VolumeState
from mooring.node.volumes.state.in_use import REPORTED

MOUNTS: Final = (Step.STAGE, Step.PUBLISH)


class Do(msgspec.Struct, frozen=True):
    """The next step, and for whom: the pod's uid for PUBLISH, UNPUBLISH and EXPAND.

    first: for STAGE, the pod whose group and label the volume gets.
    """

    step: Step
    pod: str = ""
    first: str = ""


class Await(enum.Enum):
    """The thing that the volume waits for, beside topics and time: its attachment, or its turn among the mounts of its
    driver.
    """

    ATTACHMENT = "attachment"
    SLOT = "slot"


class Refuse(msgspec.Struct, frozen=True):
    """Pods that can't have the volume as things are, to the reason that they are told. at: the step in their event."""

    pods: Mapping[str, Because]
    at: str = "NewMounter initialization"


Action: TypeAlias = Do | Await | Refuse
"""A decision has each of them once at the most; without one the volume is left as it is."""


class Facts(msgspec.Struct, frozen=True):
    """Facts outside of the state.

    wanted: the pods that use the volume, by uid, to their names. unsure: pods that are alive, and whose volumes are not
    known yet. may_take_away: False until every pod of this node was looked at after a start. reported: the Node's
    status says that it is in use. attached: the Node's status lists it. attaches: no controller attaches volumes to
    this node, which does so itself. has_driver: its driver is registered. now: monotonic seconds. in_reach: its node
    affinity means this node. readers: the pods that only read it. labels: the SELinux labels that pods want, where they
    want one. clashing: the pods that name it by another PersistentVolume and can't have it beside those of the first,
    to that one's name. leaving: the pods that it is being taken from at this moment. has_slot: its driver may mount one
    more volume now. may_be_unread: it may be in a place of which no record can be read.
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
    clashing: Mapping[str, str] = msgspec.field(default_factory=dict)
    has_slot: bool = True
    leaving: frozenset[str] = frozenset()
    may_be_unread: bool = False
    attaches: bool = False
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def is_unsure(self) -> bool:
        """True while somebody may have the volume of whom that is not known."""
        return bool(self.unsure) or self.may_be_unread or not self.may_take_away


def do_of(decision: Decision[Action]) -> Do | None:
    """The step of a decision, None where nothing is to be done."""
    return next((action for action in decision.actions if isinstance(action, Do)), None)


def refused_by(decision: Decision[Action]) -> Refuse:
    return next((action for action in decision.actions if isinstance(action, Refuse)), Refuse({}))


def decide_volume(state: VolumeState, facts: Facts) -> Decision[Action]:
    """The next step, or what is waited for."""
    decision = _next_step(state, facts)
    do = do_of(decision)
    if (
        do is not None and facts.leaving and do.step is not Step.UNPUBLISH
    ):  # nothing else is done for the volume meanwhile
        others = tuple(action for action in decision.actions if action is not do)
        return msgspec.structs.replace(decision, because=why.Unpublishing(min(facts.leaving)), actions=others)
    if do is not None and do.step in MOUNTS and not facts.has_slot:
        refused = tuple(action for action in decision.actions if isinstance(action, Refuse))
        return Decision(why.ManyMounts(state.volume.driver), (*refused, Await.SLOT))
    return decision


def _do(because: Because, step: Step, pod: str = "", first: str = "") -> Decision[Action]:
    return Decision(because, (Do(step, pod, first),))


def _refusing(decision: Decision[Action], pods: Mapping[str, Because]) -> Decision[Action]:
    """The decision, and pods that can't have the volume, beside those that it refuses already."""
    if not pods:
        return decision
    refused = refused_by(decision)
    others = tuple(action for action in decision.actions if not isinstance(action, Refuse))
    return msgspec.structs.replace(decision, actions=(Refuse({**refused.pods, **pods}, refused.at), *others))


def _next_step(state: VolumeState, facts: Facts) -> Decision[Action]:
    leaving = _leaving(state, facts)
    if leaving is not None and (do_of(leaving) is not None or not facts.wanted):
        return leaving
    if facts.wanted:  # a pod that can't be got rid of does not keep the others waiting, and is not forgotten for them
        arriving = _arriving(state, facts)
        return (
            arriving
            if leaving is None
            else msgspec.structs.replace(arriving, after_s=_sooner(arriving.after_s, leaving.after_s))
        )
    if facts.leaving:
        return Decision(why.Unpublishing(min(facts.leaving)))
    if any(one.stand is not Stand.ABSENT for one in state.publications.values()):
        return Decision(why.PodsUnknown())
    if facts.may_be_unread:
        return Decision(why.Unread())
    if state.device is Device.ABSENT and state.attachment is Stand.ABSENT:
        return _do(why.Forgotten(), Step.FORGET)
    if not facts.may_take_away or facts.unsure:
        return Decision(why.PodsUnknown())
    if state.device is Device.ABSENT:
        return _once_awaited(state, facts) or _do(why.Detaching(), Step.DETACH)
    if not facts.has_driver and state.may_be_staged:
        return Decision(why.NoDriver(state.volume.driver))
    return _once_due(state.device_failure, facts) or _do(why.Unstaging(), Step.UNSTAGE)


def _leaving(state: VolumeState, facts: Facts) -> Decision[Action] | None:
    """The next pod that the volume is taken from, or a wait where all of these have failed or the driver is away; None
    when none leaves.
    """
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
        return _do(why.Unpublishing(uid), Step.UNPUBLISH, uid)
    if not facts.has_driver:
        return Decision(why.NoDriver(state.volume.driver))
    return _failing(
        min((one.failure for _, one in gone if one.failure is not None), key=lambda failure: failure.not_before), facts
    )


def _arriving(state: VolumeState, facts: Facts) -> Decision[Action]:
    due = {uid: name for uid, name in facts.wanted.items() if _needs(state.publications.get(uid))}
    growing = _growing(state, facts)
    if growing is not None and (not due or do_of(growing) is not None):
        return growing
    if not due:
        return Decision(why.Settled())
    holder = state.volume.spec_name
    clashing = {
        uid: why.NamedTwice(state.volume.handle, name, holder) for uid, name in facts.clashing.items() if uid in due
    }
    if len(clashing) == len(due):
        return _refusing(_leaving_for_others(state, facts, next(iter(clashing.values()))), clashing)
    others = _kept_for_one(state, facts, due) if state.volume.is_for_one_pod else {}
    refused: dict[str, Because] = {**others, **clashing}
    if len(refused) == len(due):
        return _refusing(Decision(next(iter(refused.values()))), refused)
    giving = _giving(state, facts, {uid: name for uid, name in due.items() if uid not in refused})
    after_s = giving.after_s if growing is None else _sooner(giving.after_s, growing.after_s)
    return msgspec.structs.replace(_refusing(giving, refused), after_s=after_s)


def _giving(state: VolumeState, facts: Facts, due: Mapping[str, str]) -> Decision[Action]:
    """due: the pods that are to get the volume, to their names."""
    if state.attachable and not facts.reported:
        return Decision(why.ToBeReported(), waits_for=frozenset({REPORTED}))
    if state.attachable and facts.attaches and state.attachment is not Stand.DONE:
        return _once_awaited(state, facts) or _do(why.Attaching(), Step.ATTACH)
    if state.attachable and not facts.attaches and not facts.attached:
        return Decision(why.NotAttached(), (Await.ATTACHMENT,))
    if not facts.has_driver:
        absent = why.NoDriver(state.volume.driver)
        return _refusing(Decision(absent), dict.fromkeys(due, absent))
    if not facts.in_reach:
        far = why.OutOfReach()
        return Decision(far, (Refuse(dict.fromkeys(due, far), "NodeAffinity check"),))
    alike = _labelled_alike(state, facts, due)
    unlike = dict.fromkeys(due.keys() - alike.keys(), why.LabelledOtherwise(state.volume.spec_name))
    decision = (
        _mounting(state, facts, alike)
        if alike
        else _leaving_for_others(state, facts, why.LabelledOtherwise(state.volume.spec_name))
    )
    return _refusing(decision, unlike)


def _labelled_alike(state: VolumeState, facts: Facts, due: Mapping[str, str]) -> Mapping[str, str]:
    """The pods that want the volume under the SELinux label that it has here; before it is here, the label of the first
    pod.
    """
    if state.volume.is_block:
        return due
    label = facts.labels.get(next(iter(due)), "") if state.is_empty else state.label
    return {uid: name for uid, name in due.items() if facts.labels.get(uid, "") == label}


def _leaving_for_others(state: VolumeState, facts: Facts, because: Because) -> Decision[Action]:
    """The volume is here in another way than any pod that is due wants it: it has to leave the node first."""
    is_held = any(one.stand is not Stand.ABSENT for one in state.publications.values())
    if is_held or facts.is_unsure or not facts.has_driver:
        return Decision(because)
    return _once_due(state.device_failure, facts) or _do(because, Step.UNSTAGE)


def _mounting(state: VolumeState, facts: Facts, due: Mapping[str, str]) -> Decision[Action]:
    """Decide for pods that only the volume's own steps keep from having it."""
    if state.device not in (Device.STAGED, Device.READY) and not state.volume.is_inline:
        return _once_due(state.device_failure, facts) or _do(why.Staging(), Step.STAGE, first=next(iter(due)))
    ready = [uid for uid in due if (one := state.publications.get(uid)) is None or _is_due(one.failure, facts)]
    if ready:
        return _do(why.Publishing(due[ready[0]]), Step.PUBLISH, ready[0])
    failures = [
        one.failure for uid in due if (one := state.publications.get(uid)) is not None and one.failure is not None
    ]
    return _failing(min(failures, key=lambda failure: failure.not_before), facts)


def _growing(state: VolumeState, facts: Facts) -> Decision[Action] | None:
    """The growth of the volume that the node still has to do, through a pod that has the volume; None for none.

    That comes before further pods get it: who waits for its size is not to wait for a pod that can't have it.
    """
    growth = state.volume.growth
    if growth is None or not state.is_to_grow:
        return None
    if not facts.has_driver:
        absent = why.NoDriver(state.volume.driver)
        held = [uid for uid in facts.wanted if (one := state.publications.get(uid)) is not None and one.is_held]
        return _refusing(Decision(absent), dict.fromkeys(held, absent)) if held else None
    users = [uid for uid in facts.wanted if not _needs(state.publications.get(uid))]
    writers = [uid for uid in users if uid not in facts.readers]
    if writers:
        return _once_due(state.growth_failure, facts) or _do(why.Growing(growth.size), Step.EXPAND, writers[0])
    untold = [uid for uid in users if state.publications[uid].told_size != growth.size]
    return _do(why.OnlyRead(growth.size), Step.EXPAND, untold[0]) if untold else None


def _needs(publication: Publication | None) -> bool:
    return publication is None or publication.stand is not Stand.DONE


def _kept_for_one(state: VolumeState, facts: Facts, due: Mapping[str, str]) -> dict[str, Because]:
    """The pods that a volume for one pod is kept from: another has it, or may have it where no record can be read."""
    unread = [uid for uid in due if (one := state.publications.get(uid)) is None or one.stand is Stand.ABSENT]
    maybe = dict.fromkeys(unread, why.Unread()) if facts.may_be_unread else {}
    return {**maybe, **dict.fromkeys(_held_by_others(state, due), why.TakenByAnotherPod())}


def _held_by_others(state: VolumeState, due: Mapping[str, str]) -> list[str]:
    """The pods that must wait for another one, which has the volume; none of them while nobody has it."""
    holders = [uid for uid, one in state.publications.items() if one.stand is not Stand.ABSENT]
    return [uid for uid in due if any(holder != uid for holder in holders)]


def _is_due(failure: Failure | None, facts: Facts) -> bool:
    return failure is None or failure.not_before <= facts.now


def _once_due(failure: Failure | None, facts: Facts) -> Decision[Action] | None:
    return None if failure is None or _is_due(failure, facts) else _failing(failure, facts)


def _once_awaited(state: VolumeState, facts: Facts) -> Decision[Action] | None:
    """The wait for the next look at an attachment that this node has asked for, or has given back."""
    wait = state.attach_wait
    if wait is None or _is_due(wait, facts):
        return None
    return Decision(why.AwaitsAttacher(wait.text), (Await.ATTACHMENT,), after_s=wait.not_before - facts.now)


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((seconds for seconds in (one, other) if seconds is not None), default=None)


def _failing(failure: Failure, facts: Facts) -> Decision[Action]:
    return Decision(why.Failing(failure.text), after_s=max(0.0, failure.not_before - facts.now))
