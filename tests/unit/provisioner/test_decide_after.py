"""What follows from an answer: rows of (what is true, what becomes of the volume, or of the claim)."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from mooring.api.core import PersistentVolumeClaim
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.controller import ending
from mooring.sidecars.provisioner.claims.decide_after import (
    RESCHEDULES_MAX,
    After,
    Attempted,
    Fate,
    Holder,
    Then,
    Verdict,
    after_deletion,
    decide_claim_after_failure,
    decide_unusable_volume,
    decide_volume_after_pv_refused,
    reported_failure,
)
from mooring.sidecars.provisioner.model.intent import Intent, OwnVolume
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failure, Save, State
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_claim, typed
from tests.support.rows import each_row

WANTED = "as the claim is now"
ODD = Failure("odd", State.BACKGROUND)
GONE = {"state": State.FINISHED, "proves_absent": True}


def an_order(*, policy: str = "Delete", kept: bool = False, former: bool = False, node: str = "") -> Order:
    volume = f'{{"spec":{{"persistentVolumeReclaimPolicy":"{policy}"}}}}'
    intent = Intent("u", "ns", "c", "pvc-u", "{}", volume, node_name=node)
    own = OwnVolume.UNSEEN if kept else OwnVolume.NONE
    return Order(intent, csi.CreateVolumeRequest(), fingerprint=None if former else WANTED, own=own)


def chosen_for(*, volume: str = "", node: str = "n1") -> PersistentVolumeClaim:
    return typed(a_claim("c", namespace="ns", uid="u", selected=node, volume=volume))


ORDER, FORMER, KEPT, UNSEEN = (
    an_order(),
    an_order(former=True),
    an_order(policy="Retain"),
    an_order(kept=True),
)


# -- a volume that can't be used, or whose object is refused


@each_row(
    ("order", "owner", "verdict"),
    [
        pytest.param(ORDER, Save.REFUSED, Verdict(Fate.DELETED, ODD), id="P36-P55-no-object-names-it"),
        pytest.param(KEPT, Save.REFUSED, Verdict(Fate.DELETED, ODD), id="it-was-never-its-users"),
        pytest.param(ORDER, Save.STORED, Verdict(Fate.STORED, ODD), id="the-claims-own-object-names-it"),
        pytest.param(ORDER, None, Verdict(Fate.LEFT, ODD), id="nobody-can-name-it"),
        pytest.param(
            ORDER, Save.TAKEN, Verdict(Fate.LEFT, Failure("why", **GONE)), id="another-claims-object-names-it"
        ),
        pytest.param(
            ORDER,
            Save.LATER,
            Verdict(Fate.LEFT, Failure("odd; its PersistentVolume can't be looked up: why", State.BACKGROUND)),
            id="nobody-knows",
        ),
        pytest.param(
            UNSEEN,
            Save.REFUSED,
            Verdict(Fate.LEFT, Failure("odd. Volume pvc-u is left alone: it may have been kept on purpose", **GONE)),
            id="it-may-have-been-kept",
        ),
    ],
)
def test_a_volume_that_can_not_be_used(order: Order, owner: Save | None, verdict: Verdict):
    assert verdict == decide_unusable_volume(order, ODD, owner, "why")


REFUSED = "the API server refused the PersistentVolume: why"
UNCLAIMED = f"{REFUSED}. Volume pvc-u is left alone: its claim may be gone, and its class retains volumes"
MAY_BE_KEPT = f"{REFUSED}. Volume pvc-u is left alone: it may have been kept on purpose"


@each_row(
    ("order", "saved", "is_awaited", "fate", "state", "error"),
    [
        pytest.param(ORDER, Save.REFUSED, True, Fate.DELETED, State.FINISHED, REFUSED, id="P46-refused-for-good"),
        pytest.param(ORDER, Save.REFUSED, False, Fate.DELETED, State.FINISHED, REFUSED, id="its-class-deletes-volumes"),
        pytest.param(
            KEPT, Save.REFUSED, True, Fate.DELETED, State.FINISHED, REFUSED, id="its-claim-has-not-had-it-yet"
        ),
        pytest.param(
            KEPT, Save.REFUSED, False, Fate.LEFT, State.BACKGROUND, UNCLAIMED, id="its-user-may-have-taken-it"
        ),
        pytest.param(
            ORDER, Save.TAKEN, True, Fate.LEFT, State.FINISHED, "why", id="somebody-elses-object-may-be-about-it"
        ),
        pytest.param(KEPT, Save.TAKEN, False, Fate.LEFT, State.FINISHED, "why", id="whatever-became-of-the-claim"),
        pytest.param(UNSEEN, Save.REFUSED, True, Fate.LEFT, State.FINISHED, MAY_BE_KEPT, id="it-may-have-been-kept"),
    ],
)
def test_a_volume_whose_object_is_refused(
    order: Order, saved: Save, is_awaited: bool, fate: Fate, state: State, error: str
):
    verdict = decide_volume_after_pv_refused(order, saved, "why", Holder.WAITS if is_awaited else Holder.GONE)
    assert (fate, state) == (verdict.fate, verdict.failure.state)
    assert error == verdict.failure.error
    assert (fate is Fate.DELETED) == verdict.failure.infeasible


@each_row(("order", "depends"), [(ORDER, False), (KEPT, True), (an_order(policy="Retain", kept=True), False)])
def test_whether_the_claim_is_gone_matters_for_volumes_that_are_retained(order: Order, depends: bool):
    refused = [
        decide_volume_after_pv_refused(order, Save.REFUSED, "why", claim) for claim in (Holder.WAITS, Holder.GONE)
    ]
    assert depends == (refused[0] != refused[1])


@each_row("order", [ORDER, KEPT])
@each_row("claim", [Holder.BOUND, Holder.UNKNOWN])
def test_a_volume_whose_claim_is_bound_to_it_or_cannot_be_looked_up_is_left_alone(order: Order, claim: Holder):
    """Its object was stored before, and was forced away: there may be data in it."""
    verdict = decide_volume_after_pv_refused(order, Save.REFUSED, "why", claim)
    assert (Fate.LEFT, State.BACKGROUND) == (verdict.fate, verdict.failure.state)
    assert f"{REFUSED}. Volume pvc-u is left alone: as for its claim, {claim.value}" == verdict.failure.error


def test_a_volume_that_was_deleted_is_ruled_out():
    assert Failure("odd", **GONE) == after_deletion(ORDER, Verdict(Fate.DELETED, ODD), None)


def test_users_learn_whether_a_volume_was_deleted_whose_object_was_refused():
    verdict = decide_volume_after_pv_refused(ORDER, Save.REFUSED, "why", Holder.WAITS)
    assert f"{REFUSED}. Volume pvc-u was deleted" == after_deletion(ORDER, verdict, None).error
    kept = after_deletion(ORDER, verdict, DriverError(Code.INTERNAL, "no")).error
    assert kept.startswith(f"{REFUSED}. Cleanup of volume pvc-u failed, volume is orphaned: ")


def test_a_volume_that_could_not_be_deleted_may_be_there():
    verdict = Verdict(Fate.DELETED, msgspec.structs.replace(ODD, infeasible=True))
    failure = after_deletion(ORDER, verdict, DriverError(Code.INTERNAL, "no"))
    assert (State.BACKGROUND, False, False) == (failure.state, failure.proves_absent, failure.infeasible)
    assert failure.error.startswith("odd. Cleanup of volume pvc-u failed, volume is orphaned: ")


@each_row("saved", [Save.STORED, Save.REFUSED, Save.TAKEN])
def test_the_reason_that_nothing_is_left_to_store_says_whether_the_object_is_stored(saved: Save):
    because = ending("pvc-u", saved, "why")
    assert (why.Provisioned("pvc-u") if saved is Save.STORED else why.NotStorable("pvc-u", "why")) == because


# -- a claim whose attempt has failed

WAITS, BOUND = chosen_for(), chosen_for(volume="pvc-other")
FINISHED, BACKGROUND = Failure("no", State.FINISHED), Failure("lost", State.BACKGROUND)
UNCHANGED, FULL = Failure("not yet", State.NO_CHANGE), Failure("full", State.RESCHEDULE)
INFEASIBLE = Failure("bad", State.FINISHED, infeasible=True)
ON_N1 = an_order(node="n1")


def attempted(
    failure: Failure, order: Order | None = ORDER, claim: PersistentVolumeClaim | None = WAITS, **more: Any
) -> Attempted:
    return Attempted(reported_failure(failure, order), order, claim, **more)


AWAITED = {
    "P37-refused": (attempted(FINISHED), After(Then.RETRY)),
    "P37-may-be-made": (attempted(BACKGROUND), After(Then.RETRY)),
    "P33-not-asked": (attempted(UNCHANGED, None), After(Then.RETRY)),
    "P12-wrong-claim": (attempted(FINISHED, None), After(Then.RETRY)),
    "P45-infeasible": (attempted(INFEASIBLE), After(Then.REST, fingerprint=WANTED)),
    "P42-refused-and-unknown": (attempted(FINISHED, is_open=True), After(Then.RETRY)),
    "refused-as-it-was-wanted-before": (attempted(FINISHED, FORMER), After(Then.AT_ONCE)),
    "infeasible-as-it-was-wanted-before": (attempted(INFEASIBLE, FORMER), After(Then.AT_ONCE)),
    "in-the-making-as-it-was-wanted-before": (attempted(BACKGROUND, FORMER), After(Then.RETRY)),
}
UNAWAITED = {
    "P43-gone-and-refused": (attempted(FINISHED, claim=None), After(Then.FORGET, releases_source=True)),
    "gone-and-infeasible": (attempted(INFEASIBLE, claim=None), After(Then.FORGET, releases_source=True)),
    "P41-gone-and-may-be-made": (attempted(BACKGROUND, claim=None), After(Then.RETRY)),
    "P44-gone-and-not-asked": (attempted(UNCHANGED, FORMER, None, is_open=True), After(Then.RETRY)),
    "P42-gone-and-unknown": (attempted(FINISHED, FORMER, None, is_open=True), After(Then.REST, releases_source=True)),
    "P42-has-another-volume": (
        attempted(FINISHED, FORMER, BOUND, is_open=True),
        After(Then.REST, releases_source=True),
    ),
    "stored-by-hand-and-unknown": (
        attempted(FINISHED, FORMER, is_open=True, has_object=True),
        After(Then.REST, releases_source=True),
    ),
    "infeasible-and-unknown": (
        attempted(INFEASIBLE, ORDER, None, is_open=True),
        After(Then.REST, releases_source=True, fingerprint=WANTED),
    ),
    "bound-and-refused": (attempted(FINISHED, FORMER, BOUND), After(Then.FORGET, releases_source=True)),
}
OTHER = After(Then.RETRY, node_unsuitable=True, other_node=True)
RESCHEDULED = {
    "P38-full": (attempted(FULL, ON_N1, node_tried="n1"), OTHER),
    "P69-no-such-node": (attempted(FULL, None, node_tried="n1"), OTHER),
    "P39-no-node-selected": (attempted(FULL, node_tried=""), After(Then.RETRY)),
    "another-node-is-selected-by-now": (
        attempted(FULL, ON_N1, chosen_for(node="n2"), node_tried="n1"),
        After(Then.RETRY),
    ),
    "its-claim-is-gone": (attempted(FULL, ON_N1, None, node_tried="n1"), After(Then.FORGET, releases_source=True)),
    "of-a-former-request": (
        attempted(FULL, an_order(node="n1", former=True), node_tried="n1"),
        After(Then.AT_ONCE, node_unsuitable=True, other_node=True),
    ),
}


@each_row(
    ("answer", "after"), [pytest.param(*row, id=name) for name, row in {**AWAITED, **UNAWAITED, **RESCHEDULED}.items()]
)
def test_when_a_claim_comes_again(answer: Attempted, after: After):
    assert after == decide_claim_after_failure(answer)


def test_many_nodes_in_a_row_make_every_other_one_wait():
    asked = [
        decide_claim_after_failure(attempted(FULL, ON_N1, node_tried="n1", reschedules=n)).other_node
        for n in range(RESCHEDULES_MAX + 4)
    ]
    assert [True] * RESCHEDULES_MAX + [True, False, True, False] == asked


def test_what_a_former_request_was_refused_for_is_not_held_against_the_claim():
    assert not reported_failure(INFEASIBLE, FORMER).infeasible
    assert INFEASIBLE == reported_failure(INFEASIBLE, ORDER) == reported_failure(INFEASIBLE, None)


ALL = tuple(
    attempted(failure, order, claim, node_tried="n1", is_open=is_open)
    for failure, order, claim, is_open in itertools.product(
        (FINISHED, BACKGROUND, UNCHANGED, FULL, INFEASIBLE), (None, ORDER, FORMER), (None, WAITS, BOUND), (True, False)
    )
)


@each_row("answer", ALL)
def test_nothing_that_may_exist_is_forgotten_and_no_source_of_it_released_while_it_is_waited_for(answer: Attempted):
    after = decide_claim_after_failure(answer)
    if answer.is_open or not answer.failure.is_over or answer.claim is WAITS:
        assert after.then is not Then.FORGET
    if not answer.failure.is_over or answer.claim is WAITS:
        assert not after.releases_source
