"""The judgement on claims: rows of (objects, what is to be done), by the ids of docs/behaviours/binder.md."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.binding import BIND_COMPLETED, BOUND_BY_CONTROLLER, PROVISIONED_BY, PROVISIONER
from mooring.api.classes import CLASS_BETA
from mooring.api.meta import Key
from mooring.cluster.binder.volumes import reasons as why
from mooring.cluster.binder.volumes.decide import MISSING_S, NOTHING_ABSENT, decide_claim
from mooring.cluster.binder.volumes.decision import (
    Absent,
    Action,
    Ask,
    Bind,
    LookUpClass,
    LookUpVolume,
    SetClaimPhase,
    SetClass,
    Step,
    Tell,
    writes_of,
)
from mooring.control.decision import Decision
from tests.support.builders import DRIVER, NS, Json, a_bound_claim, a_claim, a_class, a_pod, a_volume
from tests.support.rows import each_row
from tests.support.stores import Stores

CLAIM = Key(NS, "claim")
ALL_FOUR = tuple(Step)
UNCHANGED: tuple[Any, ...] = ()
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
A_B: Json = {"matchLabels": {"a": "b"}}


def decided(*bodies: Json, taken: dict[str, Key] | None = None, absent: Absent = NOTHING_ABSENT) -> Decision[Action]:
    return decide_claim(Stores(*bodies).binder(taken), CLAIM, absent)


def bound_to(name: str, *steps: Step) -> tuple[Bind, ...]:
    return (Bind(name, steps or ALL_FOUR),)


def told(decision: Decision[Action]) -> tuple[str, str, str] | None:
    return next((tuple(action.event) for action in decision.actions if isinstance(action, Tell)), None)


# -- matching

SIZES = [a_volume("pv5", size="5Gi"), a_volume("pv10", size="10Gi"), a_volume("pv20", size="20Gi")]
UID = "8d116ece-1738-47d9-bd9c-172411e20b8f"
OWNER = a_claim(uid=UID, selected="n1")
OWN = a_volume(f"pvc-{UID}", annotations={PROVISIONED_BY: DRIVER})
LARGE_OWN = a_volume(f"pvc-{UID}", size="9Gi", annotations={PROVISIONED_BY: DRIVER})
MATCHES = {
    "B05-the-smallest-that-fits": ([a_claim(size="7Gi"), *SIZES], "pv10"),
    "B07-reserved-by-name-though-larger": (
        [a_claim(), a_volume("small"), a_volume("pv", size="50Gi", claim="claim")],
        "pv",
    ),
    "B08-reserved-for-another": ([a_claim(), a_volume(claim="somebody-else")], None),
    "B09-fewest-modes-first": (
        [
            a_claim(),
            a_volume("both", size="5Gi", modes=("ReadWriteOnce", "ReadWriteMany")),
            a_volume("one", size="10Gi"),
        ],
        "one",
    ),
    "B09-all-modes-are-needed": ([a_claim(modes=("ReadWriteOnce", "ReadWriteMany")), a_volume()], None),
    "B10-selector": ([a_claim(selector=A_B), a_volume("plain"), a_volume("pv", size="5Gi", labels={"a": "b"})], "pv"),
    "B10-nothing-selected": ([a_claim(selector=A_B), a_volume("plain")], None),
    "B11-not-yet-available": ([a_claim(), a_volume(phase="Pending")], None),
    "B11-released": (
        [a_claim(), a_volume(phase="Released", claim={"metadata": {"name": "claim", "uid": "gone"}})],
        None,
    ),
    "B11-released-but-reserved-by-name": ([a_claim(), a_volume(phase="Released", claim="claim")], "pv"),
    "B11-pending-but-reserved-by-name": ([a_claim(), a_volume(phase="Pending", claim="claim")], "pv"),
    "B11-reserved-but-being-deleted": ([a_claim(), a_volume(claim="claim", **DELETED)], None),
    "B11-free-but-being-deleted": ([a_claim(), a_volume(**DELETED)], None),
    "B11-the-next-larger-one-that-stays": ([a_claim(), a_volume(**DELETED), a_volume("larger", size="2Gi")], "larger"),
    "B12-block-claim": ([a_claim(volumeMode="Block"), a_volume()], None),
    "B12-block-volume": ([a_claim(), a_volume(volumeMode="Block")], None),
    "B12-said-or-not-it-is-a-file-system": ([a_claim(volumeMode="Filesystem"), a_volume()], "pv"),
    "B13-attributes-of-the-volume": ([a_claim(), a_volume(volumeAttributesClassName="gold")], None),
    "B13-attributes-of-the-claim": ([a_claim(volumeAttributesClassName="gold"), a_volume()], None),
    "B13-the-same-attributes": (
        [a_claim(volumeAttributesClassName="gold"), a_volume(volumeAttributesClassName="gold")],
        "pv",
    ),
    "B04-no-class-takes-no-class": ([a_claim(sc=""), a_volume("classy"), a_volume("plain", sc="")], "plain"),
    "the-old-annotation-wins": (
        [a_claim(sc="sc", annotations={CLASS_BETA: "old"}), a_volume("new"), a_volume("pv", sc="old")],
        "pv",
    ),
    "B22-static-volume-waits-for-a-pod": ([a_claim(), a_class(wffc=True), a_volume()], None),
    "B22-also-when-a-node-is-chosen": ([a_claim(selected="n1"), a_class(wffc=True), a_volume()], None),
    "its-own-whose-claimRef-was-taken": ([OWNER, a_class(wffc=True), OWN], f"pvc-{UID}"),
    "its-own-by-name-alone": ([OWNER, a_class(wffc=True), a_volume(f"pvc-{UID}")], None),
    "its-own-that-is-too-small": ([a_claim(uid=UID, selected="n1", size="2Gi"), a_class(wffc=True), OWN], None),
    "its-own-that-is-another-claims-by-now": (
        [OWNER, a_class(wffc=True), a_claim("other", volume=f"pvc-{UID}"), OWN],
        None,
    ),
    "its-own-and-no-node-selected": ([a_claim(uid=UID), a_class(wffc=True), OWN], None),
    "its-own-is-one-of-all-without-delay": ([OWNER, a_volume(), LARGE_OWN], "pv"),
    "B23-reserved-waits-for-nobody": ([a_claim(), a_class(wffc=True), a_volume(claim="claim")], "pv"),
}


@each_row(("bodies", "expected"), MATCHES.values(), ids=MATCHES)
def test_the_best_match(bodies: list[Json], expected: str | None) -> None:
    decision = decided(a_class(), a_class("old"), *bodies)
    found = [action.pv_name for action in decision.actions if isinstance(action, Bind)]
    assert ([expected] if expected else []) == found


def test_B05_four_writes_in_order() -> None:
    assert bound_to("pv") == writes_of(decided(a_claim(), a_class(), a_volume()))


def test_B22_a_class_that_is_not_in_the_cache_is_asked_for_before_its_claim_is_bound() -> None:
    decision = decided(a_claim(), a_volume())
    assert ((LookUpClass("sc"),), True) == (writes_of(decision), decision.again)
    assert bound_to("pv") == writes_of(decided(a_claim(), a_volume(), absent=Absent(class_name="sc")))
    assert bound_to("pv") == writes_of(decided(a_claim(), a_volume(claim="claim"))), "reserved: it would not wait"
    assert UNCHANGED == writes_of(decided(a_claim())), "nothing to bind"


def test_a_volume_that_another_claim_is_getting_is_left_alone() -> None:
    volumes = [a_volume(), a_volume("larger", size="2Gi")]
    assert bound_to("larger") == writes_of(decided(a_claim(), a_class(), *volumes, taken={"pv": Key(NS, "other")}))


def test_B06_too_small_asks_for_another() -> None:
    decision = decided(a_claim(size="7Gi"), a_volume(size="5Gi"), a_class())
    assert (Ask(DRIVER),) == writes_of(decision)


def test_B06_too_small_and_no_class() -> None:
    decision = decided(a_claim(size="7Gi", sc=""), a_volume(size="5Gi", sc=""))
    expected = ("Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
    assert (UNCHANGED, expected) == (writes_of(decision), told(decision))


# -- classes


def test_B01_B03_a_claim_without_a_class_gets_the_default() -> None:
    decision = decided(a_claim(sc=None), a_class("standard", default=True))
    assert ((SetClass("standard"),), True) == (writes_of(decision), decision.again)


def test_B02_the_newest_default_then_the_first_by_name() -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    classes = [
        a_class("a", default=True, creationTimestamp=old),
        a_class("z", default=True, creationTimestamp=new),
        a_class("y", default=True, creationTimestamp=new),
    ]
    assert (SetClass("y"),) == writes_of(decided(a_claim(sc=None), *classes))


def test_B03_a_volume_without_a_class_comes_before_the_default() -> None:
    assert bound_to("pv") == writes_of(decided(a_claim(sc=None), a_class(default=True), a_volume(sc="")))


def test_B04_the_empty_class_is_a_choice() -> None:
    assert UNCHANGED == writes_of(decided(a_claim(sc=""), a_class(default=True)))


def test_B32_class_missing() -> None:
    decision = decided(a_claim())
    assert (UNCHANGED, ("Warning", "ProvisioningFailed", 'storageclass.storage.k8s.io "sc" not found')) == (
        writes_of(decision),
        told(decision),
    )


def test_B32_a_provisioner_that_nobody_is() -> None:
    decision = decided(a_claim(), a_class(provisioner="kubernetes.io/no-provisioner"))
    text = "no volume plugin matched name: kubernetes.io/no-provisioner"
    assert (UNCHANGED, ("Warning", "ProvisioningFailed", text)) == (writes_of(decision), told(decision))


# -- asking


def test_B18_external_class() -> None:
    decision = decided(a_claim(), a_class())
    event = told(decision)
    assert (Ask(DRIVER),) == writes_of(decision)
    assert event is not None
    assert ("Normal", "ExternalProvisioning") == event[:2]
    assert event[2].startswith(
        f"Waiting for a volume to be created either by the external provisioner '{DRIVER}' or manually"
    )


def test_B18_who_has_been_asked_is_not_asked_again() -> None:
    assert UNCHANGED == writes_of(decided(a_claim(annotations={PROVISIONER: DRIVER}), a_class()))


FIRST = "waiting for first consumer to be created before binding"
PODS: dict[str, tuple[list[Json], tuple[str, str]]] = {
    "B20-no-pod": ([], ("WaitForFirstConsumer", FIRST)),
    "B20-one-pod": ([a_pod("a", "claim")], ("WaitForPodScheduled", "waiting for pod a to be scheduled")),
    "B20-two-pods": (
        [a_pod("b", "claim"), a_pod("a", "claim")],
        ("WaitForPodScheduled", "waiting for pods a,b to be scheduled"),
    ),
    "B20-scheduled-or-over": (
        [a_pod("a", "claim", node="n1"), a_pod("b", "claim", phase="Failed")],
        ("WaitForFirstConsumer", FIRST),
    ),
}


@each_row(("pods", "expected"), PODS.values(), ids=PODS)
def test_waiting_for_the_first_pod(pods: list[Json], expected: tuple[str, str]) -> None:
    decision = decided(a_claim(), a_class(wffc=True), *pods)
    assert (UNCHANGED, ("Normal", *expected)) == (writes_of(decision), told(decision))


def test_B21_a_node_is_chosen() -> None:
    assert (Ask(DRIVER),) == writes_of(decided(a_claim(selected="n1"), a_class(wffc=True)))


# -- a volume that the user named


def test_B14_named_volume_missing() -> None:
    decision = decided(a_claim(volume="pv"))
    assert (UNCHANGED, ("Normal", "FailedBinding", 'volume "pv" does not exist')) == (
        writes_of(decision),
        told(decision),
    )
    assert [MISSING_S] == [action.patience_s for action in decision.actions if isinstance(action, Tell)], (
        "a volume may come soon after its claim"
    )
    assert bound_to("pv") == writes_of(decided(a_claim(volume="pv"), a_volume(phase="Pending")))


MISMATCHES = {
    "B15-too-small": (a_claim(volume="pv", size="2Gi"), a_volume(), "requested PV is too small"),
    "B15-class": (a_claim(volume="pv", sc="other"), a_volume(), "storageClassName does not match"),
    "B15-attributes": (
        a_claim(volume="pv", volumeAttributesClassName="gold"),
        a_volume(),
        "volumeAttributesClassName does not match",
    ),
    "B15-volume-mode": (a_claim(volume="pv", volumeMode="Block"), a_volume(), "incompatible volumeMode"),
    "B15-access-mode": (a_claim(volume="pv", modes=("ReadWriteMany",)), a_volume(), "incompatible accessMode"),
    "B15-deleting": (a_claim(volume="pv"), a_volume(**DELETED), 'the volume is marked for deletion "pv"'),
}


@each_row(("claim", "pv", "reason"), MISMATCHES.values(), ids=MISMATCHES)
def test_a_named_volume_that_does_not_suit(claim: Json, pv: Json, reason: str) -> None:
    decision = decided(claim, pv)
    expected = ("Warning", "VolumeMismatch", f'Cannot bind to requested volume "pv": {reason}')
    assert (UNCHANGED, expected) == (writes_of(decision), told(decision))


def test_B15_reserved_for_it_is_bound_whatever_it_is() -> None:
    assert bound_to("pv") == writes_of(decided(a_claim(volume="pv", size="9Gi", sc="other"), a_volume(claim="claim")))


@each_row("ours", [False, True])
def test_B16_named_volume_of_someone_else(ours: bool) -> None:
    decision = decided(
        a_claim(volume="pv", annotations={BOUND_BY_CONTROLLER: "yes"} if ours else None),
        a_volume(claim="somebody-else"),
    )
    assert ("Warning", "FailedBinding", 'volume "pv" already bound to a different claim.') == told(decision)
    assert ours is (decision.problem is not None)


# -- bound once

SAVED = a_bound_claim()
HALF = a_claim(volume="pv", annotations={BIND_COMPLETED: "yes"}, uid="uid-claim")
RESTARTS = {
    "B17-after-the-first-write": ([a_claim(uid="uid-claim"), a_volume(claim=SAVED)], ALL_FOUR[1:]),
    "B17-after-the-second": ([a_claim(uid="uid-claim"), a_volume(claim=SAVED, phase="Bound")], ALL_FOUR[2:]),
    "B17-after-the-third": ([HALF, a_volume(claim=SAVED, phase="Bound")], ALL_FOUR[3:]),
    "B17-after-all": ([SAVED, a_volume(claim=SAVED, phase="Bound")], ()),
    "B19-provisioned": ([a_claim(uid="uid-claim"), a_class(), a_volume(claim=SAVED, phase="Pending")], ALL_FOUR[1:]),
    "claimRef-lost": ([SAVED, a_volume(phase="Bound")], (Step.CLAIM_VOLUME,)),
}


@each_row(("bodies", "steps"), RESTARTS.values(), ids=RESTARTS)
def test_only_the_writes_that_lack(bodies: list[Json], steps: tuple[Step, ...]) -> None:
    assert ((Bind("pv", steps),) if steps else ()) == writes_of(decided(*bodies))


LOST = {
    "B24-volume-gone": ([SAVED], "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
    "B25-volume-name-gone": (
        [a_claim(annotations={BIND_COMPLETED: "yes"})],
        "ClaimLost",
        "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
    ),
    "B26-of-another": (
        [SAVED, a_volume(claim=a_claim("other", uid="uid-other"), phase="Bound")],
        "ClaimMisbound",
        "Two claims are bound to the same volume, this one is bound incorrectly",
    ),
}


@each_row(("bodies", "reason", "text"), LOST.values(), ids=LOST)
def test_lost_is_told_once(bodies: list[Json], reason: str, text: str) -> None:
    decision = decided(*bodies, absent=Absent(pv_name="pv"))
    assert ((SetClaimPhase("Lost"),), ("Warning", reason, text)) == (writes_of(decision), told(decision))
    lost = {**bodies[0], "status": {"phase": "Lost"}}
    again = decided(lost, *bodies[1:])
    assert (UNCHANGED, None) == (writes_of(again), told(again))


def test_B24_a_volume_that_is_not_in_the_cache_is_asked_for_before_its_claim_is_lost() -> None:
    decision = decided(SAVED)
    assert ((LookUpVolume("pv"),), True, None) == (writes_of(decision), decision.again, told(decision))


def test_every_reason_is_a_sentence() -> None:
    kinds = [one for one in vars(why).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    assert len(kinds) > 10
    for kind in kinds:
        assert str(kind(*("x" for one in msgspec.structs.fields(kind) if one.required)))
    assert "does not exist" in str(decided().because)
