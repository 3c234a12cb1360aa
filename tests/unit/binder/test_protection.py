"""Who keeps a finalizer: B33 to B37, claims, volumes and attributes classes."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.binding import PV_PROTECTION, PVC_PROTECTION, VAC_PROTECTION
from mooring.base.clock import LoopClock
from mooring.cluster.binder.protection.decide import (
    AddFinalizer,
    ListPods,
    RemoveFinalizer,
    TellInUse,
    decide_attributes_class,
    decide_claim,
    decide_volume,
)
from mooring.cluster.binder.protection.reconcile import LivePods
from mooring.cluster.binder.reasons import InUse, Protection
from mooring.control.decision import Decision
from mooring.kube.cluster import Page, Selection, UnreadItem
from mooring.kube.errors import ServerError
from tests.support.builders import NS, Json, a_claim, a_pod, a_volume, an_ephemeral_volume, typed
from tests.support.rows import each_row

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
HELD = {"finalizers": [PVC_PROTECTION]}
GOING = {**DELETED, **HELD}
OWNED = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-pod", "controller": True}]}
SCRATCH = an_ephemeral_volume()

ADD, REMOVE = (AddFinalizer(PVC_PROTECTION),), (RemoveFinalizer(PVC_PROTECTION),)
IN_USE, NOTHING = InUse, Protection
PV_ADD, PV_REMOVE = (AddFinalizer(PV_PROTECTION),), (RemoveFinalizer(PV_PROTECTION),)
ENDED = 'the claim stays until it is free: still used by pod "p", which is finished and counts until it is deleted'


def step(decision: Decision[Any]) -> object:
    """The actions, or the class of the reason for none."""
    return decision.actions or type(decision.because)


CLAIMS: dict[str, tuple[Json, list[Json], object]] = {
    "B33-finalizer-missing": (a_claim(), [], ADD),
    "B33-finalizer-there": (a_claim(**HELD), [], NOTHING),
    "B33-used-by-a-running-pod": (a_claim(**GOING), [a_pod("p", "claim", node="n1", phase="Running")], IN_USE),
    "B33-no-pod": (a_claim(**GOING), [], REMOVE),
    "B33-held-by-others-alone": (a_claim(**DELETED, finalizers=["kit/hold"]), [], NOTHING),
    "B34-pod-without-a-node": (a_claim(**GOING), [a_pod("p", "claim")], REMOVE),
    "B35-finished-pod": (a_claim(**GOING), [a_pod("p", "claim", node="n1", phase="Succeeded")], (TellInUse(ENDED),)),
    "B35-failed-pod": (a_claim(**GOING), [a_pod("p", "claim", node="n1", phase="Failed")], (TellInUse(ENDED),)),
    "another-claim": (a_claim(**GOING), [a_pod("p", "other", node="n1")], REMOVE),
    "ephemeral": (
        a_claim("pod-scratch", **GOING, **OWNED),
        [a_pod("pod", node="n1", uid="uid-pod", volumes=(SCRATCH,))],
        IN_USE,
    ),
    "ephemeral-of-another": (
        a_claim("pod-scratch", **GOING),
        [a_pod("pod", node="n1", uid="uid-pod", volumes=(SCRATCH,))],
        REMOVE,
    ),
    "ephemeral-shut-down": (
        a_claim("pod-scratch", **GOING, **OWNED),
        [a_pod("pod", node="n1", uid="uid-pod", volumes=(SCRATCH,), **DELETED, deletionGracePeriodSeconds=0)],
        REMOVE,
    ),
}


@each_row(("claim", "pods", "expected"), CLAIMS.values(), ids=CLAIMS)
def test_claims(claim: Json, pods: list[Json], expected: object) -> None:
    assert expected == step(decide_claim(typed(claim), [typed(pod) for pod in pods], is_fresh=True))


def test_B36_a_cache_that_may_be_behind_lets_nothing_go() -> None:
    asked = decide_claim(typed(a_claim(**GOING, resourceVersion="7")), (), is_fresh=False)
    assert ((ListPods("7"),), True) == (asked.actions, asked.again)
    user = typed(a_pod("p", "claim", node="n1"))
    assert IN_USE is step(decide_claim(typed(a_claim(**GOING)), (user,), is_fresh=False))


def test_B35_it_is_told_which_pod_holds_the_claim() -> None:
    decision = decide_claim(
        typed(a_claim(**GOING)), (typed(a_pod("p", "claim", node="n1", phase="Failed")),), is_fresh=True
    )
    assert (TellInUse(ENDED),) == decision.actions
    assert 'still used by pod "p", which is finished and counts until it is deleted' == str(decision.because)


def _pv(phase: str, **meta: Any) -> Json:
    return a_volume(phase=phase, claim="claim", **meta)


VOLUMES: dict[str, tuple[Json, object]] = {
    "B37-finalizer-missing": (_pv("Available"), PV_ADD),
    "B37-bound": (_pv("Bound", **DELETED, finalizers=[PV_PROTECTION]), IN_USE),
    "B37-released": (_pv("Released", **DELETED, finalizers=[PV_PROTECTION]), PV_REMOVE),
    "B37-available": (_pv("Available", **DELETED, finalizers=[PV_PROTECTION]), PV_REMOVE),
    "B37-held-by-the-provisioner": (_pv("Released", **DELETED, finalizers=["external-provisioner/x"]), NOTHING),
    "B37-untouched": (_pv("Bound", finalizers=[PV_PROTECTION]), NOTHING),
}


@each_row(("pv", "expected"), VOLUMES.values(), ids=VOLUMES)
def test_volumes(pv: Json, expected: object) -> None:
    assert expected == step(decide_volume(typed(pv)))


def test_an_attributes_class_stays_while_somebody_names_it() -> None:
    one = {"kind": "VolumeAttributesClass", "metadata": {"name": "gold", **DELETED, "finalizers": [VAC_PROTECTION]}}
    assert (RemoveFinalizer(VAC_PROTECTION),) == step(decide_attributes_class(typed(one), ()))
    assert IN_USE is step(decide_attributes_class(typed(one), (typed(a_claim()),)))
    free = {"kind": "VolumeAttributesClass", "metadata": {"name": "gold", "finalizers": [VAC_PROTECTION]}}
    assert NOTHING is step(decide_attributes_class(typed(free), ()))


async def test_B36_a_pod_that_can_not_be_read_may_use_the_claim() -> None:
    class Odd:
        async def list(self, kind: object, selection: Selection) -> Page[Any]:
            return Page((), "9", "", (UnreadItem(NS, "odd", "u"),))

    with pytest.raises(ServerError, match="1 of the pods can't be read"):
        await LivePods(Odd(), LoopClock()).of(NS, "5")  # type: ignore[arg-type]
