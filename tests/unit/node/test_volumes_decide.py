"""The next step for a volume on a node: a row for each state that matters. Ids: the scenarios of the node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.control.decision import Decision
from mooring.control.result import Because
from mooring.node.volumes import reasons as why
from mooring.node.volumes.decide import Action, Await, Do, Facts, Refuse, decide_volume, do_of
from mooring.node.volumes.state.actual import Device, Failure, Publication, Refusal, Stand, Step, VolumeState
from mooring.node.volumes.state.desired import READ_WRITE_ONCE_POD, Growth, Volume
from mooring.node.volumes.state.in_use import REPORTED
from tests.support.rows import each_row

ABSENT, UNCERTAIN, DONE = Stand.ABSENT, Stand.UNCERTAIN, Stand.DONE
STAGED, UNSURE = Device.STAGED, Device.UNCERTAIN
VOLUME = Volume("kubernetes.io/csi/d^h", "d", "h", "pv")
NOW = 100.0
AWAITS_REPORT = frozenset({REPORTED})
LATER = Failure("no", 1, NOW + 5)
PAST = Failure("no", 1, NOW - 5)


def state(
    device: Device = Device.ABSENT,
    *,
    volume: Volume = VOLUME,
    attachable: bool = False,
    failure: Failure | None = None,
    **pods: Any,
) -> VolumeState:
    """pods: by uid, a stand, or a whole publication."""
    publications = {uid: one if isinstance(one, Publication) else Publication("pv", one) for uid, one in pods.items()}
    return VolumeState(volume, device, attachable=attachable, device_failure=failure, publications=publications)


def facts(*wanted: str, **changes: Any) -> Facts:
    values = {
        "unsure": frozenset(),
        "may_take_away": True,
        "reported": True,
        "attached": True,
        "has_driver": True,
        "now": NOW,
        **changes,
    }
    return Facts(wanted={uid: f"pod-{uid}" for uid in wanted}, **values)


ONE_POD = msgspec.structs.replace(VOLUME, access_modes=(READ_WRITE_ONCE_POD,))
GROWING = msgspec.structs.replace(VOLUME, growth=Growth("ns", "claim", "7", "2Gi"))
ELSEWHERE = msgspec.structs.replace(VOLUME, growth=Growth("ns", "claim", "7", "2Gi", is_written=True))
INLINE = msgspec.structs.replace(VOLUME, is_inline=True)


def decided(
    because: Because,
    step: Step | None = None,
    pod: str = "",
    *,
    first: str = "",
    waits: Await | None = None,
    refused: Mapping[str, Because] | None = None,
    refused_at: str = "NewMounter initialization",
    **more: Any,
) -> Decision[Action]:
    """refused, refused_at: pods, to what they are told, and where."""
    told = (Refuse(refused, refused_at),) if refused else ()
    work = (Do(step, pod, first),) if step is not None else ()
    return Decision(because, (*told, *work, *((waits,) if waits is not None else ())), **more)


@each_row(
    ("before", "known", "decision"),
    [
        pytest.param(state(), facts("a"), decided(why.Staging(), Step.STAGE, first="a"), id="MNT-1-staged-first"),
        pytest.param(
            state(STAGED), facts("a"), decided(why.Publishing("pod-a"), Step.PUBLISH, "a"), id="MNT-1-then-published"
        ),
        pytest.param(
            state(STAGED, a=UNCERTAIN, b=DONE),
            facts(leaving=frozenset("a")),
            decided(why.Unpublishing("b"), Step.UNPUBLISH, "b"),
            id="pods-leave-at-the-same-time",
        ),
        pytest.param(
            state(STAGED, volume=ONE_POD),
            facts("a", may_be_unread=True),
            decided(why.Unread(), refused={"a": why.Unread()}),
            id="a-volume-for-one-pod-is-not-given-while-another-may-have-it-unread",
        ),
        pytest.param(
            state(STAGED, volume=ONE_POD, a=UNCERTAIN),
            facts("a", may_be_unread=True),
            decided(why.Publishing("pod-a"), Step.PUBLISH, "a"),
            id="the-pod-that-has-a-volume-for-one-pod-gets-it-again",
        ),
        pytest.param(
            state(STAGED, a=UNCERTAIN),
            facts("c", leaving=frozenset("a")),
            decided(why.Unpublishing("a")),
            id="nothing-is-given-while-a-pod-leaves",
        ),
        pytest.param(
            state(STAGED, a=UNCERTAIN),
            facts(leaving=frozenset("a")),
            decided(why.Unpublishing("a")),
            id="not-unstaged-while-a-pod-leaves",
        ),
        pytest.param(
            state(STAGED), facts(may_be_unread=True), decided(why.Unread()), id="not-unstaged-while-a-record-is-unread"
        ),
        pytest.param(
            state(), facts(may_be_unread=True), decided(why.Unread()), id="not-forgotten-while-a-record-is-unread"
        ),
        pytest.param(
            state(), facts("a", has_slot=False), decided(why.ManyMounts("d"), waits=Await.SLOT), id="waits-for-its-turn"
        ),
        pytest.param(
            state(STAGED, b=DONE),
            facts(has_slot=False),
            decided(why.Unpublishing("b"), Step.UNPUBLISH, "b"),
            id="what-goes-waits-for-none",
        ),
        pytest.param(
            state(STAGED, b=DONE),
            facts("a", labels={"a": "l"}),
            decided(why.Unpublishing("b"), Step.UNPUBLISH, "b"),
            id="another-label-after-the-pod-that-is-gone",
        ),
        pytest.param(
            state(STAGED, b=DONE),
            facts("a", "b", labels={"a": "l"}),
            decided(why.LabelledOtherwise("pv"), refused={"a": why.LabelledOtherwise("pv")}),
            id="another-label-while-a-pod-has-it",
        ),
        pytest.param(
            state(STAGED),
            facts("a", labels={"a": "l"}),
            decided(why.LabelledOtherwise("pv"), Step.UNSTAGE, refused={"a": why.LabelledOtherwise("pv")}),
            id="another-label-leaves-the-node-first",
        ),
        pytest.param(
            state(UNSURE, b=UNCERTAIN),
            facts("a", "b", labels={"a": "l"}),
            decided(why.Staging(), Step.STAGE, first="b", refused={"a": why.LabelledOtherwise("pv")}),
            id="staged-again-as-it-is-here",
        ),
        pytest.param(
            state(STAGED, b=DONE),
            facts("a", "b", "c", labels={"a": "l"}),
            decided(why.Publishing("pod-c"), Step.PUBLISH, "c", refused={"a": why.LabelledOtherwise("pv")}),
            id="the-pod-of-the-same-label-goes-on",
        ),
        pytest.param(
            state(),
            facts("a", in_reach=False),
            decided(why.OutOfReach(), refused={"a": why.OutOfReach()}, refused_at="NodeAffinity check"),
            id="out-of-the-nodes-reach",
        ),
        pytest.param(state(STAGED, a=DONE), facts("a"), decided(why.Settled()), id="all-have-it"),
        pytest.param(
            state(volume=INLINE),
            facts("a"),
            decided(why.Publishing("pod-a"), Step.PUBLISH, "a"),
            id="MNT-18-inline-is-not-staged",
        ),
        pytest.param(
            state(attachable=True),
            facts("a", reported=False),
            decided(why.ToBeReported(), waits_for=AWAITS_REPORT),
            id="VM-1",
        ),
        pytest.param(
            state(attachable=True),
            facts("a", attached=False),
            decided(why.NotAttached(), waits=Await.ATTACHMENT),
            id="VM-2",
        ),
        pytest.param(
            state(),
            facts("a", reported=False, attached=False),
            decided(why.Staging(), Step.STAGE, first="a"),
            id="MNT-3-no-attachment-needed",
        ),
        pytest.param(
            state(),
            facts("a", has_driver=False),
            decided(why.NoDriver("d"), refused={"a": why.NoDriver("d")}),
            id="MNT-12-mount",
        ),
        pytest.param(state(STAGED, a=DONE), facts(has_driver=False), decided(why.NoDriver("d")), id="MNT-12-unpublish"),
        pytest.param(
            state(STAGED),
            facts(has_driver=False),
            decided(why.NoDriver("d")),
            id="MNT-12-unstage",
        ),
        pytest.param(
            state(Device.READY),
            facts(has_driver=False),
            decided(why.Unstaging(), Step.UNSTAGE),
            id="UNM-4-never-staged",
        ),
        pytest.param(
            state(STAGED, a=DONE),
            facts("a", "b"),
            decided(why.Publishing("pod-b"), Step.PUBLISH, "b"),
            id="MNT-11-the-second-pod",
        ),
        pytest.param(
            state(STAGED, a=DONE, b=DONE),
            facts("b"),
            decided(why.Unpublishing("a"), Step.UNPUBLISH, "a"),
            id="MNT-11-the-first-goes",
        ),
        pytest.param(
            state(STAGED, b=DONE), facts("b"), decided(why.Settled()), id="MNT-11-no-unstage-while-one-is-left"
        ),
        pytest.param(
            state(STAGED), facts(), decided(why.Unstaging(), Step.UNSTAGE), id="MNT-11-unstaged-after-the-last"
        ),
        pytest.param(state(UNSURE), facts(), decided(why.Unstaging(), Step.UNSTAGE), id="MNT-6-may-have-been-staged"),
        pytest.param(
            state(STAGED, a=UNCERTAIN),
            facts(),
            decided(why.Unpublishing("a"), Step.UNPUBLISH, "a"),
            id="MNT-8-may-have-been-published",
        ),
        pytest.param(
            state(STAGED, a=ABSENT), facts(), decided(why.Unstaging(), Step.UNSTAGE), id="MNT-9-was-not-published"
        ),
        pytest.param(state(), facts(), decided(why.Forgotten(), Step.FORGET), id="nothing-is-left"),
        pytest.param(state(failure=LATER), facts("a"), decided(why.Failing("no"), after_s=5.0), id="the-device-rests"),
        pytest.param(
            state(failure=PAST), facts("a"), decided(why.Staging(), Step.STAGE, first="a"), id="the-device-is-due"
        ),
        pytest.param(
            state(STAGED, a=Publication("pv", ABSENT, failure=LATER)),
            facts("a", "b"),
            decided(why.Publishing("pod-b"), Step.PUBLISH, "b"),
            id="one-pod-rests-the-other-does-not-wait",
        ),
        pytest.param(
            state(STAGED, a=Publication("pv", UNCERTAIN, failure=LATER)),
            facts(),
            decided(why.Failing("no"), after_s=5.0),
            id="UNM-3-rests",
        ),
        pytest.param(
            state(STAGED, a=Publication("pv", UNCERTAIN, failure=LATER)),
            facts("b"),
            decided(why.Publishing("pod-b"), Step.PUBLISH, "b", after_s=5.0),
            id="UNM-3-a-new-pod-does-not-wait-for-it",
        ),
        pytest.param(
            state(STAGED, a=Publication("pv", Stand.OUTDATED)),
            facts("a"),
            decided(why.Publishing("pod-a"), Step.PUBLISH, "a"),
            id="VM-6-published-again",
        ),
        pytest.param(
            state(STAGED, volume=ONE_POD, a=DONE),
            facts("a", "b"),
            decided(why.TakenByAnotherPod(), refused={"b": why.TakenByAnotherPod()}),
            id="MNT-21",
        ),
        pytest.param(
            state(UNSURE, volume=ONE_POD, a=UNCERTAIN),
            facts("a", "b"),
            decided(why.Staging(), Step.STAGE, first="a", refused={"b": why.TakenByAnotherPod()}),
            id="MNT-21-the-pod-that-may-have-it-goes-on",
        ),
        pytest.param(
            state(STAGED, volume=ONE_POD, a=Publication("pv", UNCERTAIN, failure=LATER)),
            facts("a", "b"),
            decided(why.Failing("no"), after_s=5.0, refused={"b": why.TakenByAnotherPod()}),
            id="MNT-21-the-pod-that-may-have-it-is-tried-again",
        ),
        pytest.param(
            state(STAGED, volume=ONE_POD, a=Publication("pv", UNCERTAIN, failure=LATER)),
            facts("b"),
            decided(why.TakenByAnotherPod(), after_s=5.0, refused={"b": why.TakenByAnotherPod()}),
            id="MNT-21-the-pod-that-is-gone-is-tried-again",
        ),
        pytest.param(
            state(STAGED, a=Publication("pv", UNCERTAIN, failure=LATER), b=DONE),
            facts("b"),
            decided(why.Settled(), after_s=5.0),
            id="UNM-3-is-tried-again-while-another-pod-has-the-volume",
        ),
        pytest.param(
            state(STAGED, attachable=True, a=Publication("pv", UNCERTAIN, failure=LATER)),
            facts("b", attached=False),
            decided(why.NotAttached(), waits=Await.ATTACHMENT, after_s=5.0),
            id="UNM-3-is-tried-again-while-another-pod-waits-for-the-attachment",
        ),
        pytest.param(
            state(STAGED, a=UNCERTAIN),
            facts(unsure=frozenset({"a"})),
            decided(why.PodsUnknown()),
            id="RST-1-not-yet-known",
        ),
        pytest.param(
            state(UNSURE, a=UNCERTAIN),
            facts("a"),
            decided(why.Staging(), Step.STAGE, first="a"),
            id="RST-1-staged-again",
        ),
        pytest.param(
            state(STAGED, a=UNCERTAIN),
            facts("a"),
            decided(why.Publishing("pod-a"), Step.PUBLISH, "a"),
            id="RST-1-published-again",
        ),
        pytest.param(
            state(STAGED, a=DONE), facts(may_take_away=False), decided(why.PodsUnknown()), id="RST-2-waits-for-all-pods"
        ),
        pytest.param(
            state(STAGED), facts(may_take_away=False), decided(why.PodsUnknown()), id="RST-2-the-device-waits-too"
        ),
        pytest.param(
            state(STAGED, volume=GROWING, a=DONE), facts("a"), decided(why.Growing("2Gi"), Step.EXPAND, "a"), id="EXP-1"
        ),
        pytest.param(
            state(STAGED, volume=GROWING, a=DONE),
            facts("a", "b"),
            decided(why.Growing("2Gi"), Step.EXPAND, "a"),
            id="who-waits-for-its-size-waits-for-no-other-pod",
        ),
        pytest.param(
            state(STAGED, volume=GROWING, a=Publication("pv", DONE, is_held=True)),
            facts("a", has_driver=False),
            decided(why.NoDriver("d"), refused={"a": why.NoDriver("d")}),
            id="held-while-the-driver-is-away",
        ),
        pytest.param(
            msgspec.structs.replace(state(STAGED, volume=ELSEWHERE, a=DONE), size_bytes=1 << 30),
            facts("a"),
            decided(why.Growing("2Gi"), Step.EXPAND, "a"),
            id="grown-on-another-node",
        ),
        pytest.param(
            msgspec.structs.replace(state(STAGED, volume=ELSEWHERE, a=DONE), size_bytes=2 << 30),
            facts("a"),
            decided(why.Settled()),
            id="grown-on-another-node-and-mounted-since",
        ),
        pytest.param(
            state(STAGED, volume=GROWING, a=DONE),
            facts("a", readers=frozenset({"a"})),
            decided(why.OnlyRead("2Gi"), Step.EXPAND, "a"),
            id="EXP-readers-are-told",
        ),
        pytest.param(
            state(STAGED, volume=GROWING, a=Publication("pv", DONE, told_size="2Gi")),
            facts("a", readers=frozenset({"a"})),
            decided(why.Settled()),
            id="EXP-not-for-readers",
        ),
    ],
)
def test_a_volume_s_next_step(before: VolumeState, known: Facts, decision: Decision[Action]) -> None:
    assert decision == decide_volume(before, known)


@each_row("changes", [{"grown": "7"}, {"growth_refusal": Refusal.IN_USE}], ids=["EXP-2-done-with", "EXP-4-in-use"])
def test_a_growth_that_is_done_with_is_not_tried_again(changes: dict[str, Any]) -> None:
    before = msgspec.structs.replace(state(STAGED, volume=GROWING, a=DONE), **changes)
    assert decided(why.Settled()) == decide_volume(before, facts("a"))


def test_reasons_are_sentences() -> None:
    shown = [
        why.Settled(),
        why.Forgotten(),
        why.ToBeReported(),
        why.NotAttached(),
        why.NoDriver("d"),
        why.TakenByAnotherPod(),
        why.Staging(),
    ]
    shown += [
        why.Publishing("a"),
        why.Unpublishing("a"),
        why.Unstaging(),
        why.Failing("x"),
        why.PodsUnknown(),
        why.Growing("1Gi"),
    ]
    shown += [why.PodGone(), why.PodLeaves(), why.PodFinished(), why.PodRuns(), why.PodWaits()]
    assert len({str(reason) for reason in shown}) == len(shown)


PAGE = Path(__file__).parents[3] / "docs" / "node-agent.md"
SITUATIONS: Mapping[str, Facts] = {
    "a pod wants it": facts("a"),
    "it is not attached": facts("a", attached=False),
    "its driver is away": facts("a", has_driver=False),
    "no pod wants it": facts(),
    "no pod wants it, its driver is away": facts(has_driver=False),
    "not all pods are known yet": facts(may_take_away=False),
}


def drawn() -> list[tuple[Device, Stand, str, str]]:
    """The page's table of a volume's life: its stages, the situation, and the word for what comes next."""
    lines = PAGE.read_text().partition("## A volume's life")[2].partition("## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head, *stages = [row for row in rows if len(row) == 2 + len(SITUATIONS)]
    return [
        (Device(row[0]), Stand(row[1]), situation, word)
        for row in stages[1:]
        for situation, word in zip(head[2:], row[2:], strict=True)
    ]


def test_the_page_draws_the_life_as_it_is_decided() -> None:
    assert {device for device, *_ in drawn()} == set(Device)
    assert {stand for _, stand, *_ in drawn()} == set(Stand)
    for device, stand, situation, word in drawn():
        pods = {"a": stand} if stand is not ABSENT else {}
        decision = decide_volume(state(device, attachable=True, **pods), SITUATIONS[situation])
        do = do_of(decision)
        found = do.step.value if do is not None else "settled" if decision.because == why.Settled() else "wait"
        assert found == word, (device, stand, situation)
