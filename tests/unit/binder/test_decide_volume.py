"""The judgement on volumes, by the ids of docs/behaviours/binder.md."""

from __future__ import annotations

from mooring.api.binding import BOUND_BY_CONTROLLER, PROVISIONED_BY
from mooring.api.meta import Key
from mooring.cluster.binder.reasons import EventText
from mooring.cluster.binder.volumes.decide import decide_volume
from mooring.cluster.binder.volumes.decision import (
    Action,
    GiveBack,
    LookUpClaim,
    SetVolumePhase,
    Tell,
    TellClaim,
    WakeClaim,
    writes_of,
)
from tests.support.builders import DRIVER, NS, Json, a_bound_claim, a_claim, a_volume
from tests.support.rows import each_row
from tests.support.stores import Stores

CLAIM = Key(NS, "claim")
OURS = a_claim(uid="uid-claim")
BOUND = a_bound_claim()
ELSEWHERE = a_bound_claim(volume="another")
PROVISIONED = {"annotations": {PROVISIONED_BY: DRIVER}, "policy": "Delete"}
LOOK_UP = LookUpClaim(CLAIM, "uid-claim")
NOWHERE = a_volume(phase="Available", claim=OURS)
del NOWHERE["spec"]["claimRef"]["namespace"]

ROWS: dict[str, tuple[list[Json], tuple[Action, ...]]] = {
    "new": ([a_volume(phase="Pending")], (SetVolumePhase("Available"),)),
    "available": ([a_volume()], ()),
    "reserved-by-name": ([a_volume(phase="Pending", claim="claim"), OURS], (SetVolumePhase("Available"),)),
    "B29-claimRef-dropped": ([a_volume(phase="Released")], (SetVolumePhase("Available"),)),
    "B19-claim-not-bound-yet": ([a_volume(phase="Pending", claim=OURS), OURS], (WakeClaim(CLAIM),)),
    "in-use": ([a_volume(phase="Pending", claim=BOUND), BOUND], (SetVolumePhase("Bound"),)),
    "B27-claim-not-in-the-cache": ([a_volume(phase="Bound", claim=OURS)], (LOOK_UP,)),
    "B28-new-claim-of-the-same-name": ([a_volume(phase="Bound", claim=OURS), a_claim(uid="uid-new")], (LOOK_UP,)),
    "B27-reference-without-a-namespace": ([NOWHERE, OURS], (SetVolumePhase("Released"),)),
    "B27-released-before": ([a_volume(phase="Released", claim=OURS)], ()),
    "B30-second-volume-for-one-claim": (
        [a_volume(phase="Pending", claim=BOUND, **PROVISIONED), ELSEWHERE],
        (SetVolumePhase("Released"),),
    ),
    "B31-claim-bound-to-a-static-one": (
        [a_volume(phase="Available", claim=BOUND, **PROVISIONED), ELSEWHERE],
        (SetVolumePhase("Released"),),
    ),
    "B31-released-before": ([a_volume(phase="Released", claim=BOUND, **PROVISIONED), ELSEWHERE], ()),
    "B31-reserved-by-us": (
        [a_volume(phase="Bound", claim=BOUND, annotations={BOUND_BY_CONTROLLER: "yes"}), ELSEWHERE],
        (GiveBack(whole=True), SetVolumePhase("Available")),
    ),
    "B31-reserved-by-a-user": (
        [a_volume(phase="Bound", claim=BOUND), ELSEWHERE],
        (GiveBack(whole=False), SetVolumePhase("Available")),
    ),
    "B31-provisioned-but-retained": (
        [a_volume(phase="Bound", claim=BOUND, annotations={PROVISIONED_BY: DRIVER}), ELSEWHERE],
        (GiveBack(whole=False), SetVolumePhase("Available")),
    ),
}


@each_row(("bodies", "expected"), ROWS.values(), ids=ROWS)
def test_volumes(bodies: list[Json], expected: tuple[Action, ...]) -> None:
    assert expected == writes_of(decide_volume(Stores(*bodies).binder(), "pv"))


@each_row("policy", ["Retain", "Delete"])
def test_B27_let_go_once_the_api_server_has_said_that_the_claim_is_gone(policy: str) -> None:
    view = Stores(a_volume(phase="Bound", claim=OURS, policy=policy)).binder()
    assert (SetVolumePhase("Released"),) == writes_of(decide_volume(view, "pv", gone_uid="uid-claim"))
    assert (LOOK_UP,) == writes_of(decide_volume(view, "pv", gone_uid="uid-before"))


def test_B28_a_new_claim_of_the_same_name_does_not_keep_the_volume() -> None:
    view = Stores(a_volume(phase="Bound", claim=OURS), a_claim(uid="uid-new")).binder()
    assert (SetVolumePhase("Released"),) == writes_of(decide_volume(view, "pv", gone_uid="uid-claim"))


def test_an_unknown_policy_is_told_once() -> None:
    released = decide_volume(Stores(a_volume(phase="Released", claim=OURS, policy="Shred")).binder(), "pv")
    event = EventText("Warning", "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")
    assert (SetVolumePhase("Failed"), Tell(event)) == released.actions
    failed = decide_volume(Stores(a_volume(phase="Failed", claim=OURS, policy="Shred")).binder(), "pv")
    assert () == failed.actions


def test_B19_modes_that_differ_are_told_on_both() -> None:
    decision = decide_volume(Stores(a_volume(claim=OURS, volumeMode="Block"), OURS).binder(), "pv")
    of_volume = (
        'Cannot bind PersistentVolume to requested PersistentVolumeClaim "claim" due to incompatible volumeMode.'
    )
    of_claim = 'Cannot bind PersistentVolume "pv" to requested PersistentVolumeClaim due to incompatible volumeMode.'
    tells = (
        Tell(EventText("Warning", "VolumeMismatch", of_volume)),
        TellClaim(EventText("Warning", "VolumeMismatch", of_claim)),
    )
    assert tells == decision.actions


def test_a_volume_that_is_gone() -> None:
    assert () == writes_of(decide_volume(Stores().binder(), "pv"))
