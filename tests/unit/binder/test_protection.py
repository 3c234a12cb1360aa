"""Who keeps a finalizer: B33 to B37, claims, volumes and attributes classes."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.binding import PV_PROTECTION, PVC_PROTECTION, VAC_PROTECTION
from mooring.base.clock import LoopClock
from mooring.cluster.binder.protection.decide import Guard, decide_attributes_class, decide_claim, decide_volume
from mooring.cluster.binder.protection.reconcile import LivePods
from mooring.kube.cluster import Page, Selection, Unread
from mooring.kube.errors import ServerError
from tests.support.builders import NS, Json, a_claim, a_pod, a_volume, an_ephemeral_volume, typed

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
HELD = {"finalizers": [PVC_PROTECTION]}
GOING = {**DELETED, **HELD}
OWNED = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-pod", "controller": True}]}
SCRATCH = an_ephemeral_volume()

CLAIMS: dict[str, tuple[Json, list[Json], Guard]] = {
    "B33-finalizer-missing": (a_claim(), [], Guard.ADD),
    "B33-finalizer-there": (a_claim(**HELD), [], Guard.NOTHING),
    "B33-used-by-a-running-pod": (a_claim(**GOING), [a_pod("p", "claim", node="n1", phase="Running")], Guard.KEEP),
    "B33-no-pod": (a_claim(**GOING), [], Guard.REMOVE),
    "B33-held-by-others-alone": (a_claim(**DELETED, finalizers=["kit/hold"]), [], Guard.NOTHING),
    "B34-pod-without-a-node": (a_claim(**GOING), [a_pod("p", "claim")], Guard.REMOVE),
    "B35-finished-pod": (a_claim(**GOING), [a_pod("p", "claim", node="n1", phase="Succeeded")], Guard.KEEP),
    "B35-failed-pod": (a_claim(**GOING), [a_pod("p", "claim", node="n1", phase="Failed")], Guard.KEEP),
    "another-claim": (a_claim(**GOING), [a_pod("p", "other", node="n1")], Guard.REMOVE),
    "ephemeral": (
        a_claim("pod-scratch", **GOING, **OWNED),
        [a_pod("pod", node="n1", uid="uid-pod", volumes=(SCRATCH,))],
        Guard.KEEP,
    ),
    "ephemeral-of-another": (
        a_claim("pod-scratch", **GOING),
        [a_pod("pod", node="n1", uid="uid-pod", volumes=(SCRATCH,))],
        Guard.REMOVE,
    ),
    "ephemeral-shut-down": (
        a_claim("pod-scratch", **GOING, **OWNED),
        [a_pod("pod", node="n1", uid="uid-pod", volumes=(SCRATCH,), **DELETED, deletionGracePeriodSeconds=0)],
        Guard.REMOVE,
    ),
}


@pytest.mark.parametrize(("claim", "pods", "expected"), CLAIMS.values(), ids=CLAIMS)
def test_claims(claim: Json, pods: list[Json], expected: Guard) -> None:
    assert expected is decide_claim(typed(claim), [typed(pod) for pod in pods], pods_are_fresh=True).guard


def test_B36_a_cache_that_may_be_behind_lets_nothing_go() -> None:
    assert Guard.ASK is decide_claim(typed(a_claim(**GOING)), (), pods_are_fresh=False).guard
    user = typed(a_pod("p", "claim", node="n1"))
    assert Guard.KEEP is decide_claim(typed(a_claim(**GOING)), (user,), pods_are_fresh=False).guard


def test_B35_it_is_told_which_pod_holds_the_claim() -> None:
    decision = decide_claim(typed(a_claim(**GOING)), (typed(a_pod("p", "claim", node="n1", phase="Failed")),), pods_are_fresh=True)
    assert decision.holder_finished
    assert 'still used by pod "p", which is finished and counts until it is deleted' == str(decision.because)


def _pv(phase: str, **meta: Any) -> Json:
    return a_volume(phase=phase, claim="claim", **meta)


VOLUMES: dict[str, tuple[Json, Guard]] = {
    "B37-finalizer-missing": (_pv("Available"), Guard.ADD),
    "B37-bound": (_pv("Bound", **DELETED, finalizers=[PV_PROTECTION]), Guard.KEEP),
    "B37-released": (_pv("Released", **DELETED, finalizers=[PV_PROTECTION]), Guard.REMOVE),
    "B37-available": (_pv("Available", **DELETED, finalizers=[PV_PROTECTION]), Guard.REMOVE),
    "B37-held-by-the-provisioner": (_pv("Released", **DELETED, finalizers=["external-provisioner/x"]), Guard.NOTHING),
    "B37-untouched": (_pv("Bound", finalizers=[PV_PROTECTION]), Guard.NOTHING),
}


@pytest.mark.parametrize(("pv", "expected"), VOLUMES.values(), ids=VOLUMES)
def test_volumes(pv: Json, expected: Guard) -> None:
    assert expected is decide_volume(typed(pv)).guard


def test_an_attributes_class_stays_while_somebody_names_it() -> None:
    one = {"kind": "VolumeAttributesClass", "metadata": {"name": "gold", **DELETED, "finalizers": [VAC_PROTECTION]}}
    assert Guard.REMOVE is decide_attributes_class(typed(one), ()).guard
    assert Guard.KEEP is decide_attributes_class(typed(one), (typed(a_claim()),)).guard
    free = {"kind": "VolumeAttributesClass", "metadata": {"name": "gold", "finalizers": [VAC_PROTECTION]}}
    assert Guard.NOTHING is decide_attributes_class(typed(free), ()).guard


async def test_B36_a_pod_that_can_not_be_read_may_use_the_claim() -> None:
    class Odd:
        async def list(self, kind: object, selection: Selection) -> Page[Any]:
            return Page((), "9", "", (Unread(NS, "odd", "u"),))

    with pytest.raises(ServerError, match="1 of the pods can't be read"):
        await LivePods(Odd(), LoopClock()).of(NS, "5")  # type: ignore[arg-type]
