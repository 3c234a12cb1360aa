"""The fate of an unconfirmed publish, the patch that adds a finalizer, and the memory of attachments: tables of the
pure parts.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import SecretReference
from mooring.sidecars.attacher import reasons as why
from mooring.sidecars.attacher.decide import EndUndo, LoadSecret, Unpublish, WaitForCall, decide_attachment
from mooring.sidecars.attacher.memory import Drift, Evidence, Memory, PublishState, UnconfirmedPublish
from mooring.sidecars.attacher.requests import UnpublishOrder
from mooring.sidecars.attacher.view import STATUS_OF_ANNOTATION
from mooring.sidecars.attacher.writes import finalizer_changes
from tests.support.builders import FINALIZER, NODE_ID_ANNOTATION, a_csi_node, a_held_pv, a_va, an_attached_va, typed
from tests.support.rows import each_row
from tests.unit.attacher.views import a_view

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
    unconfirmed, other = an_unconfirmed(), typed(a_va("other"))
    memory = remembering(unconfirmed)
    memory.drift.update({"torn": Drift.EXTRA, "other": Drift.EXTRA})
    memory.finalizers_unknown.add(unconfirmed.attachment.metadata.uid)
    assert memory.orphaned("torn") is None
    ended = [memory.ended(one) for one in (unconfirmed.attachment, other, typed(a_va("unknown")))]
    assert [True, False, False] == ended
    orphaned = memory.orphaned("torn")
    assert orphaned is not None
    assert (unconfirmed.order, {}, set()) == (orphaned.order, memory.drift, memory.finalizers_unknown)
    assert [orphaned] == list(memory.unconfirmed_about("handle1"))
    assert PublishState.SETTLED is memory.observe("torn", Evidence.UNDONE)
    assert (None, []) == (memory.unconfirmed_of("torn"), list(memory.unconfirmed_about("handle1")))


def test_a_mark_that_was_confirmed_too_late_does_not_end_an_undo():
    memory = remembering(an_unconfirmed())
    memory.ended(an_unconfirmed().attachment)
    for evidence in (Evidence.MARKED, Evidence.UNPUBLISHED, Evidence.RELEASED):
        assert PublishState.ORPHANED is memory.observe("torn", evidence)
    assert memory.orphaned("torn") is not None


def test_unconfirmed_publishes_are_found_by_their_volume():
    first, second, other = an_unconfirmed("a"), an_unconfirmed("b"), an_unconfirmed("c", "handle2")
    memory = remembering(first, second, other)
    assert [first, second] == list(memory.unconfirmed_about("handle1"))
    memory.observe("a", Evidence.MARKED)
    found = [list(memory.unconfirmed_about(handle)) for handle in ("handle1", "handle2", "handle3")]
    assert [[second], [other], []] == found
    moved = an_unconfirmed("b", "handle2")
    memory.mark_unconfirmed(moved)
    assert [[], [other, moved]] == [list(memory.unconfirmed_about(handle)) for handle in ("handle1", "handle2")]


# -- taking it back


SECRET = SecretReference("secret", "default")


def undone(unconfirmed: UnconfirmedPublish, **view: Any) -> Any:
    return decide_attachment(
        a_view(orphaned=[unconfirmed], pvs=[a_held_pv()], nodes=[a_csi_node()], **view),
        unconfirmed.attachment.metadata.name,
    )


ELSEWHERE = an_attached_va("other-node", node="node2", annotations={NODE_ID_ANNOTATION: "nodeID2"})


@each_row(
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


@each_row(
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


@each_row(
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
