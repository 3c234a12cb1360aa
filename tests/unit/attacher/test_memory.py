"""The fate of an unconfirmed publish, the patch that adds a finalizer, and the memory of attachments: tables of the pure parts."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import SecretReference
from mooring.sidecars.attacher import reasons as why
from mooring.sidecars.attacher.decide import decide_attachment
from mooring.sidecars.attacher.decision import EndUndo, LoadSecret, Unpublish, WaitForCall
from mooring.sidecars.attacher.memory import UNDOS_MAX, UNSURE_MAX, After, Drift, Learnt, Memory, UnconfirmedPublish
from mooring.sidecars.attacher.requests import UnpublishOrder
from mooring.sidecars.attacher.view import STATUS_OF_ANNOTATION
from mooring.sidecars.attacher.writes import finalizer_changes
from tests.support.builders import FINALIZER, NODE_ID_ANNOTATION, a_csi_node, a_held_pv, a_va, an_attached_va, typed
from tests.unit.attacher.views import a_view

UNDO, FREED = After(undo=True), After(over=True, freed=True)


# -- an unconfirmed publish


def an_unconfirmed(
    name: str = "torn", handle: str = "handle1", secret: SecretReference | None = None, node: str = "node1"
) -> UnconfirmedPublish:
    return UnconfirmedPublish(UnpublishOrder(handle, "nodeID1", secret), typed(a_va(name, node=node)))


def remembering(*unconfirmed_publishes: UnconfirmedPublish) -> Memory:
    memory = Memory()
    for unconfirmed in unconfirmed_publishes:
        memory.mark_unconfirmed(unconfirmed)
    return memory


def test_only_an_unconfirmed_publish_outlives_its_attachment():
    unconfirmed = an_unconfirmed()
    memory = remembering(unconfirmed)
    memory.mark_drift("torn", Drift.EXTRA)
    memory.mark_finalizer_unknown("torn", "uid")
    memory.mark_drift("other", Drift.EXTRA)
    assert memory.orphaned("torn") is None
    assert (True, False, False) == (memory.ended("torn"), memory.ended("other"), memory.ended("unknown"))
    assert (unconfirmed, None, None) == (memory.orphaned("torn"), memory.drift("torn"), memory.drift("other"))
    assert (unconfirmed,) == memory.unconfirmed_about("handle1")
    assert FREED == memory.learn("torn", Learnt.UNDONE)
    assert (0, ()) == (len(memory), memory.unconfirmed_about("handle1"))


def test_a_mark_that_was_confirmed_too_late_does_not_end_an_undo():
    memory = remembering(an_unconfirmed())
    memory.ended("torn")
    for learnt in (Learnt.MARKED, Learnt.UNPUBLISHED, Learnt.RELEASED):
        assert UNDO == memory.learn("torn", learnt)
    assert memory.orphaned("torn") is not None


def test_where_nothing_is_unconfirmed_nothing_follows():
    assert After() == Memory().learn("va", Learnt.VANISHED)


def test_unconfirmed_publishes_are_found_by_their_volume():
    first, second, other = an_unconfirmed("a"), an_unconfirmed("b"), an_unconfirmed("c", "handle2")
    memory = remembering(first, second, other)
    assert (first, second) == memory.unconfirmed_about("handle1")
    memory.learn("a", Learnt.MARKED)
    assert ((second,), (other,), ()) == tuple(
        memory.unconfirmed_about(handle) for handle in ("handle1", "handle2", "handle3")
    )
    moved = an_unconfirmed("b", "handle2")
    memory.mark_unconfirmed(moved)
    assert ((), (other, moved)) == (memory.unconfirmed_about("handle1"), memory.unconfirmed_about("handle2"))


def test_of_too_many_undos_one_that_failed_is_given_up():
    memory = remembering(*(an_unconfirmed(f"va{n}", f"handle{n}") for n in range(UNDOS_MAX + 1)))
    for number in range(UNDOS_MAX + 1):
        memory.ended(f"va{number}")
    assert memory.orphaned("va7") is not None, "each is tried once"
    memory.undo_failed("va7")
    memory.undo_failed("va8")
    assert memory.orphaned("va7") is None
    assert memory.orphaned("va8") is not None


def test_finalizers_without_an_answer_are_of_one_object():
    memory = Memory()
    claimed, of_its_name = ({**a_va("va"), "metadata": {"name": "va", "uid": uid}} for uid in "12")
    memory.mark_finalizer_unknown("va", "1")
    assert (True, False) == (memory.finalizer_unknown(typed(claimed)), memory.finalizer_unknown(typed(of_its_name)))
    memory.mark_finalizer_known("va")
    assert (False, 0) == (memory.finalizer_unknown(typed(claimed)), len(memory))


def test_from_some_number_on_every_volume_is_unsure():
    memory = Memory()
    for number in range(UNSURE_MAX - 1):
        memory.volume_unsure(f"pv{number}")
    assert (True, False) == (memory.is_unsure("pv1"), memory.is_unsure("another"))
    memory.volume_unsure("last")
    assert memory.is_unsure("another")
    memory.volume_sure("last")
    assert (False, False) == (memory.is_unsure("another"), memory.is_unsure("last"))


# -- taking it back


SECRET = SecretReference("secret", "default")


def undone(unconfirmed: UnconfirmedPublish, **view: Any) -> Any:
    return decide_attachment(
        a_view(orphaned=[unconfirmed], pvs=[a_held_pv()], nodes=[a_csi_node()], **view), unconfirmed.name
    )


ELSEWHERE = an_attached_va("other-node", node="node2", annotations={NODE_ID_ANNOTATION: "nodeID2"})


@pytest.mark.parametrize(
    "vas",
    [
        (),
        (a_va("torn", deleting=True),),
        (a_va("torn", "pv2"),),
        (ELSEWHERE,),
        (an_attached_va("twin", deleting=True),),
    ],
)
def test_what_an_attachment_left_behind_is_taken_back_first(vas):
    decision = undone(an_unconfirmed(), vas=vas)
    assert (Unpublish(UnpublishOrder("handle1", "nodeID1")), EndUndo()) == decision.actions
    assert decision.again
    assert why.TakingBack("node1", "nodeID1") == decision.because


def test_taking_back_needs_the_secret_of_the_publish():
    assert (LoadSecret(SECRET),) == undone(an_unconfirmed(secret=SECRET)).actions
    read = undone(an_unconfirmed(secret=SECRET), secret_at_hand={"torn": SECRET})
    assert [Unpublish, EndUndo] == [type(action) for action in read.actions]


def test_what_another_attachment_holds_there_is_left_to_it():
    decision = undone(an_unconfirmed(), vas=[an_attached_va("twin")])
    assert (why.HeldByAnother("twin"), (EndUndo(),), True) == (decision.because, decision.actions, decision.again)


@pytest.mark.parametrize(
    ("view", "volume_handle"),
    [
        pytest.param({"in_flight": {"handle1": "twin"}}, "handle1", id="its-volume-is-taken"),
        pytest.param({"calls_full": True}, None, id="every-call-is-taken"),
    ],
)
def test_taking_back_waits_for_a_call_as_all_others_do(view, volume_handle):
    decision = undone(an_unconfirmed(), vas=[an_attached_va("twin")], **view)
    assert (WaitForCall(volume_handle),) == decision.actions


# -- the finalizer


OTHERS = "kit/other"


@pytest.mark.parametrize(
    ("va", "changes"),
    [
        pytest.param(a_va(), {"annotations": {NODE_ID_ANNOTATION: "n"}, "finalizers": [FINALIZER]}, id="new"),
        pytest.param(a_va(finalizers=[FINALIZER], annotations={NODE_ID_ANNOTATION: "n"}), {}, id="claimed"),
        pytest.param(a_va(finalizers=[FINALIZER]), {"annotations": {NODE_ID_ANNOTATION: "n"}}, id="without-node-id"),
        pytest.param(a_va(annotations={NODE_ID_ANNOTATION: "n"}), {"finalizers": [FINALIZER]}, id="without-finalizer"),
        pytest.param(
            a_va(finalizers=[OTHERS], annotations={NODE_ID_ANNOTATION: "n"}),
            {"finalizers": [OTHERS, FINALIZER], "resourceVersion": "7"},
            id="beside-others-with-a-version",
        ),
        pytest.param(
            a_va(finalizers=[FINALIZER], annotations={NODE_ID_ANNOTATION: "old"}),
            {"annotations": {NODE_ID_ANNOTATION: "n"}},
            id="new-machine",
        ),
        pytest.param(
            an_attached_va(annotations={NODE_ID_ANNOTATION: "old"}),
            {"annotations": {NODE_ID_ANNOTATION: "n", STATUS_OF_ANNOTATION: "old"}},
            id="new-machine-under-an-attached-one",
        ),
        pytest.param(
            an_attached_va(annotations={NODE_ID_ANNOTATION: "old", STATUS_OF_ANNOTATION: "oldest"}),
            {"annotations": {NODE_ID_ANNOTATION: "n"}},
            id="the-status-is-still-of-the-first",
        ),
    ],
)
def test_a_claim_writes_what_lacks(va, changes):
    va["metadata"]["resourceVersion"] = "7"
    assert changes == finalizer_changes(typed(va), "n", FINALIZER)
