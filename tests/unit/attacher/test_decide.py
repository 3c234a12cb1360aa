"""The attacher's judgement as tables: one situation, one decision. Ids: docs/behaviours/attacher.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import SecretReference
from mooring.control.call_slots import call_over
from mooring.control.decision import Decision
from mooring.sidecars.attacher import reasons as why
from mooring.sidecars.attacher.decide import (
    Action,
    AddFinalizer,
    AddVolumeFinalizer,
    LoadSecret,
    LookUpNode,
    LookUpVolume,
    MarkAttached,
    Publish,
    RemoveFinalizer,
    RemoveVolumeFinalizer,
    ShareSecret,
    Unpublish,
    WaitForCall,
    decide_attachment,
    decide_volume,
)
from mooring.sidecars.attacher.memory import Drift, UnconfirmedPublish
from mooring.sidecars.attacher.requests import UnpublishOrder
from mooring.sidecars.attacher.view import (
    BOTH_SOURCES,
    INLINE_WITHOUT_CSI,
    NEITHER_SOURCE,
    NOT_MIGRATED,
    STATUS_OF_ANNOTATION,
)
from tests.support.builders import (
    DRIVER,
    FINALIZER,
    NODE_ID_ANNOTATION,
    a_csi_node,
    a_held_pv,
    a_va,
    an_attached_va,
    typed,
)
from tests.support.rows import each_row
from tests.unit.attacher.views import a_view, facts

VA = "pv1-node1"
SECRET = SecretReference("secret", "default")
SECRET_REF = {"controllerPublishSecretRef": {"name": "secret", "namespace": "default"}}
INLINE: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": DRIVER, "volumeHandle": "inline1"}}
RWO = ("ReadWriteOnce",)


RELEASED: Decision[Action] = Decision(
    why.VolumeReleased(), (RemoveVolumeFinalizer("pv1"),), done="removed the finalizer"
)


def decided(va: dict[str, Any], pvs: Any = None, nodes: Any = None, others: Any = (), **view: Any) -> Decision:
    """The decision for one attachment; base PV and CSINode unless said otherwise."""
    pvs = [a_held_pv()] if pvs is None else pvs
    nodes = [a_csi_node()] if nodes is None else nodes
    return decide_attachment(a_view(vas=[va, *others], pvs=pvs, nodes=nodes, **view), va["metadata"]["name"])


def steps(decision: Decision) -> list[type]:
    return [type(action) for action in decision.actions]


def order_of(decision: Decision) -> Any:
    return next(action.order for action in decision.actions if isinstance(action, Publish | Unpublish))


def error_of(decision: Decision) -> str:
    assert decision.problem is not None
    assert not any(isinstance(action, AddFinalizer | Publish | Unpublish) for action in decision.actions)
    return decision.problem.error


# -- attach


def test_AT01_a_new_attachment_is_claimed_then_published():
    decision = decided(a_va())
    assert [AddFinalizer, Publish] == steps(decision)
    assert AddFinalizer("nodeID1") == decision.actions[0]
    assert ("handle1", "nodeID1", False) == (
        order_of(decision).handle,
        order_of(decision).node_id,
        order_of(decision).migrated,
    )
    assert why.Attaching("node1", "nodeID1") == decision.because


def test_AT03_the_finalizer_goes_on_the_volume_first():
    assert Decision(why.Holding("pv1"), (AddVolumeFinalizer("pv1"),), again=True) == decided(
        a_va(), [a_held_pv(finalizers=None)]
    )


def test_the_volume_is_held_even_when_a_later_check_would_fail():
    assert [AddVolumeFinalizer] == steps(decided(a_va(), [a_held_pv(finalizers=None)], nodes=[]))


@each_row(("capable", "asked", "sent"), [(True, True, True), (False, True, False), (True, False, False)])
def test_AT04_AT05_readonly_needs_the_capability(capable, asked, sent):
    decision = decided(a_va(), [a_held_pv(readOnly=asked)], driver=facts(publishes_readonly=capable))
    assert sent is order_of(decision).read_only


def test_AT06_attributes_become_the_context():
    assert {"foo": "bar"} == dict(order_of(decided(a_va(), [a_held_pv(volumeAttributes={"foo": "bar"})])).context)


def test_AT07_the_secret_is_loaded_before_the_claim():
    decision = decided(a_va(), [a_held_pv(**SECRET_REF)], calls_full=True)
    assert ((LoadSecret(SECRET),), True) == (decision.actions, decision.again), "and before there is a slot"
    read = decided(a_va(), [a_held_pv(**SECRET_REF)], secret_at_hand={VA: SECRET})
    assert [AddFinalizer, Publish] == steps(read)


def test_a_secret_that_somebody_reads_is_shared():
    assert (ShareSecret(SECRET),) == decided(a_va(), [a_held_pv(**SECRET_REF)], being_read=[SECRET]).actions


def test_AT11_an_attached_one_is_left_alone():
    assert Decision(why.Attached("node1")) == decided(an_attached_va())


def test_AT12_a_deleted_volume_is_not_attached():
    assert 'PersistentVolume "pv1" is marked for deletion' == error_of(decided(a_va(), [a_held_pv(deleting=True)]))


def test_AT13_a_foreign_attachment_is_not_touched():
    assert Decision(why.Foreign("other")) == decided(a_va(attacher="other"))


def test_AT14_a_missing_volume_is_named():
    assert 'persistentvolume "pv1" not found' == error_of(decided(a_va(), pvs=[]))


@each_row(
    ("va", "error"),
    [
        pytest.param(a_va(pv=None), NEITHER_SOURCE, id="AT16"),
        pytest.param(a_va(inline=INLINE), BOTH_SOURCES, id="AT17"),
        pytest.param(
            a_va(pv=None, inline={"accessModes": ["ReadWriteOnce"]}), INLINE_WITHOUT_CSI, id="inline-without-csi"
        ),
    ],
)
def test_bad_sources_are_named(va, error):
    assert error == error_of(decided(va))


def test_AT16_AT17_texts():
    assert "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source" == NEITHER_SOURCE
    assert "both InlineCSIVolumeSource and PersistentVolumeName specified in VA source" == BOTH_SOURCES


def test_a_volume_of_no_known_source_is_named():
    assert error_of(decided(a_va(), [a_held_pv(source={"nfs": {"server": "s", "path": "/"}})])) == NOT_MIGRATED


def test_what_lacks_is_asked_for_before_it_is_told_and_not_again_after():
    told = {"attachError": {"message": 'persistentvolume "pv1" not found'}}
    assert [LookUpVolume] == steps(decided(a_va(), pvs=[]))
    assert [] == steps(decided(a_va(status=told), pvs=[]))
    assert [LookUpNode] == steps(decided(a_va(status=told), nodes=[]))


def test_AT18_a_missing_csinode_is_named():
    assert 'csinode.storage.k8s.io "node1" not found' == error_of(decided(a_va(), nodes=[]))


@each_row("node_id", [None, ""], ids=["no-entry", "empty-id"])
def test_AT19_a_csinode_without_the_driver_is_named_even_with_annotation(node_id):
    """An empty node id would mean all nodes to the driver, so it counts as none."""
    drivers = {"other": "x"} if node_id is None else {DRIVER: node_id}
    va = a_va(annotations={NODE_ID_ANNOTATION: "nodeID1"})
    assert f"CSINode node1 does not contain driver {DRIVER}" == error_of(
        decided(va, nodes=[a_csi_node(drivers=drivers)])
    )


def test_AT27_an_inline_volume_needs_no_pv():
    decision = decided(a_va(pv=None, inline=INLINE), pvs=[])
    assert [AddFinalizer, Publish] == steps(decision)
    assert "inline1" == order_of(decision).handle
    assert 1 == order_of(decision).capability.access_mode.mode


def test_AT28_an_inline_volume_with_everything():
    source = {**INLINE["csi"], "readOnly": True, "volumeAttributes": {"a": "b"}, **SECRET_REF}
    va = a_va(pv=None, inline={**INLINE, "csi": source})
    assert [LoadSecret] == steps(decided(va, pvs=[]))
    decision = decided(va, pvs=[], secret_at_hand={VA: SECRET})
    assert [AddFinalizer, Publish] == steps(decision)
    assert (True, {"a": "b"}) == (order_of(decision).read_only, dict(order_of(decision).context))


def test_AT29_an_in_tree_volume_is_translated():
    source = {"gcePersistentDisk": {"pdName": "testpd"}}
    pv = a_held_pv(source=source, modes=RWO, labels={"failure-domain.beta.kubernetes.io/zone": "testZone"})
    decision = decided(a_va(), [pv])
    assert [AddFinalizer, Publish] == steps(decision), "nothing is written to the volume"
    order = order_of(decision)
    assert ("projects/UNSPECIFIED/zones/testZone/disks/testpd", {"partition": ""}) == (
        order.handle,
        dict(order.context),
    )
    assert (1, True) == (order.capability.access_mode.mode, order.migrated)


def test_a_volume_that_cannot_be_translated_is_named():
    pv = a_held_pv(source={"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}})
    assert error_of(decided(a_va(), [pv])).startswith("failed to translate in tree pv to CSI: ")


def test_a_claimed_attachment_is_not_claimed_again():
    va = a_va(finalizers=[FINALIZER], annotations={NODE_ID_ANNOTATION: "nodeID1"})
    assert [Publish] == steps(decided(va))


@each_row(
    "va",
    [
        a_va(finalizers=[FINALIZER]),
        a_va(annotations={NODE_ID_ANNOTATION: "nodeID1"}),
        a_va(finalizers=[FINALIZER], annotations={NODE_ID_ANNOTATION: "old"}),
    ],
    ids=["no-annotation", "no-finalizer", "another-node-id"],
)
def test_what_lacks_is_claimed(va):
    assert [AddFinalizer("nodeID1")] == [action for action in decided(va).actions if isinstance(action, AddFinalizer)]


# -- one volume, one call, one node


def test_a_running_call_for_the_volume_is_waited_for():
    decision = decided(a_va(), in_flight={"handle1": "other-va"})
    assert (why.CallInFlight("handle1", "other-va"), (WaitForCall("handle1"),)) == (decision.because, decision.actions)


@each_row("va", [a_va(), an_attached_va(deleting=True)], ids=["attach", "detach"])
def test_with_every_call_taken_any_call_is_waited_for(va):
    decision = decided(va, calls_full=True)
    assert (why.NoFreeCall(), (WaitForCall(),)) == (decision.because, decision.actions)


@each_row(
    ("modes", "waits"),
    [(RWO, True), (("ReadWriteOncePod",), True), (("ReadWriteMany",), False), (("ReadOnlyMany",), False)],
)
@each_row("deleting", [True, False], ids=["deleting", "staying"])
def test_a_single_node_volume_waits_until_it_is_detached_elsewhere(modes, waits, deleting):
    other = an_attached_va("pv1-node2", node="node2", deleting=deleting)
    decision = decided(a_va(), [a_held_pv(modes=modes)], others=[other])
    assert waits is isinstance(decision.because, why.HeldElsewhere)
    if waits:
        assert why.HeldElsewhere("node2", "pv1-node2", deleting) == decision.problem
        assert () == decision.actions


def test_an_attachment_that_was_never_claimed_holds_nothing():
    assert [AddFinalizer, Publish] == steps(
        decided(a_va(), [a_held_pv(modes=RWO)], others=[a_va("pv1-node2", node="node2")])
    )


def test_an_attachment_that_may_be_claimed_holds_the_volume_too():
    other = {**a_va("pv1-node2", node="node2"), "metadata": {"name": "pv1-node2", "uid": "u"}}
    for uid, waits in (("u", True), ("of another of that name", False)):
        decision = decided(a_va(), [a_held_pv(modes=RWO)], others=[other], finalizer_unknown={"pv1-node2": uid})
        assert waits is isinstance(decision.because, why.HeldElsewhere)


def test_two_uncertain_attachments_never_wait_for_each_other():
    """Left so by an attacher that publishes side by side: one of them must go first."""
    first, second = (a_va(name, node=name, finalizers=[FINALIZER]) for name in ("a", "b"))
    nodes = [a_csi_node("a"), a_csi_node("b")]
    view = a_view(vas=[first, second], pvs=[a_held_pv(modes=RWO)], nodes=nodes)
    reasons = [type(decide_attachment(view, name).because) for name in ("a", "b")]
    assert [why.Attaching, why.HeldElsewhere] == reasons


@each_row(("in_doubt", "first"), [((), "a"), (("b",), "b"), (("a",), "a"), (("a", "b"), "a")])
def test_of_two_uncertain_attachments_that_goes_first_which_may_be_published(in_doubt: tuple[str, ...], first: str):
    """The other one was restored from a backup while the answer of its publish was on its way; found by the
    simulation.
    """
    both = [a_va(name, node=name, finalizers=[FINALIZER]) for name in ("a", "b")]
    nodes = [a_csi_node("a"), a_csi_node("b", {DRIVER: "nodeID2"})]
    publishes = [an_unconfirmed(name, name, node_id={"a": "nodeID1", "b": "nodeID2"}[name]) for name in in_doubt]
    view = a_view(vas=both, pvs=[a_held_pv(modes=RWO)], nodes=nodes, unconfirmed_publishes=publishes)
    goes = [name for name in ("a", "b") if not isinstance(decide_attachment(view, name).because, why.HeldElsewhere)]
    assert [first] == goes


def test_an_uncertain_attachment_that_is_being_detached_goes_before_the_other():
    """It may be published, and its detach is under way: whose name is the lesser counts among those that are to
    stay.
    """
    first = a_va("a", node="a", finalizers=[FINALIZER])
    leaving = a_va("b", node="b", finalizers=[FINALIZER], deleting=True)
    nodes = [a_csi_node("a"), a_csi_node("b", {DRIVER: "nodeID2"})]
    view = a_view(vas=[first, leaving], pvs=[a_held_pv(modes=RWO)], nodes=nodes)
    assert why.HeldElsewhere("b", "b", True) == decide_attachment(view, "a").problem
    assert why.Detaching is type(decide_attachment(view, "b").because)


@each_row(
    ("drift", "waits"),
    [
        ({VA: Drift.MISSING}, True),
        ({VA: Drift.MISSING, "z": Drift.MISSING}, False),
        ({VA: Drift.MISSING, "a": Drift.MISSING}, True),
    ],
    ids=["published-there", "nowhere", "nowhere-and-the-lesser-name"],
)
def test_of_two_attached_ones_that_which_was_restored_is_not_published_again(drift: dict[str, Drift], waits: bool):
    """A backup has brought it back, while the volume is attached elsewhere."""
    name = next((name for name in drift if name != VA), "z")
    other = an_attached_va(name, node="node2", annotations={NODE_ID_ANNOTATION: "nodeID2"})
    decision = decided(an_attached_va(), [a_held_pv(modes=RWO)], others=[other], drift=drift)
    assert (why.HeldElsewhere("node2", name, False) if waits else None) == decision.problem


def test_a_machine_that_had_the_node_s_name_before_is_elsewhere():
    """A twin of the attachment that has the volume there still; found by the simulation."""
    former = an_attached_va(annotations={NODE_ID_ANNOTATION: "old"})
    waiting = decided(a_va("twin"), [a_held_pv(modes=RWO)], others=[former])
    assert why.HeldElsewhere("node1", VA, False) == waiting.problem
    assert [AddFinalizer, Publish] == steps(decided(a_va("twin"), [a_held_pv(modes=RWO)], others=[an_attached_va()]))


def an_unconfirmed(
    name: str = "torn", node: str = "node2", handle: str = "handle1", node_id: str = "nodeID2"
) -> UnconfirmedPublish:
    """A publish that may have happened; what it was made for is no more, unless the view has it."""
    return UnconfirmedPublish(UnpublishOrder(handle, node_id, None, migrated=False), typed(a_va(name, node=node)))


@each_row(
    ("modes", "unconfirmed", "waits"),
    [
        pytest.param(RWO, an_unconfirmed(), True, id="torn-away-there"),
        pytest.param(RWO, an_unconfirmed(node="node1", node_id="nodeID1"), False, id="on-this-machine"),
        pytest.param(RWO, an_unconfirmed(handle="other"), False, id="another-volume"),
        pytest.param(RWO, an_unconfirmed("other"), False, id="still-there-and-not-held"),
        pytest.param(["ReadWriteMany"], an_unconfirmed(), False, id="for-many-nodes"),
    ],
)
def test_a_publish_that_is_to_be_taken_back_keeps_a_single_node_volume_there(modes, unconfirmed, waits):
    decision = decided(
        a_va(), [a_held_pv(modes=modes)], others=[a_va("other", node="node2")], unconfirmed_publishes=[unconfirmed]
    )
    assert (why.HeldElsewhere("node2", "torn", True) if waits else None) == decision.problem
    assert ([] if waits else [AddFinalizer, Publish]) == steps(decision)


# -- detach


def test_DT01_unpublish_then_release():
    decision = decided(an_attached_va(deleting=True))
    assert [Unpublish, RemoveFinalizer] == steps(decision)
    assert ("handle1", "nodeID1") == (order_of(decision).handle, order_of(decision).node_id)


def test_DT02_an_inline_volume_is_detached_without_a_pv():
    decision = decided(an_attached_va(pv=None, inline=INLINE, deleting=True), pvs=[])
    assert [Unpublish, RemoveFinalizer] == steps(decision)
    assert "inline1" == order_of(decision).handle


def test_DT03_the_secret_is_loaded_for_the_detach():
    va, pv = an_attached_va(deleting=True), a_held_pv(**SECRET_REF)
    assert [LoadSecret] == steps(decided(va, [pv]))
    assert [Unpublish, RemoveFinalizer] == steps(decided(va, [pv], secret_at_hand={VA: SECRET}))


def test_DT07_without_the_finalizer_nothing_is_done():
    decision = decided(a_va(deleting=True, finalizers=["other/one"]))
    assert (why.Detached(), ()) == (decision.because, decision.actions)


def test_an_attachment_that_may_be_attached_is_detached():
    """attached=false with the finalizer: an earlier publish may have timed out after it took effect."""
    assert [Unpublish, RemoveFinalizer] == steps(decided(a_va(deleting=True, finalizers=[FINALIZER])))


def test_DT08_a_missing_volume_blocks_the_detach():
    assert 'persistentvolume "pv1" not found' == error_of(decided(an_attached_va(deleting=True), pvs=[]))


def test_a_deleted_volume_does_not_block_the_detach():
    assert [Unpublish, RemoveFinalizer] == steps(decided(an_attached_va(deleting=True), [a_held_pv(deleting=True)]))


@each_row(
    ("source", "error"), [({"pv": None}, NEITHER_SOURCE), ({"inline": INLINE}, BOTH_SOURCES)], ids=["neither", "both"]
)
def test_DT09_bad_sources_block_the_detach(source, error):
    assert error == error_of(decided(an_attached_va(deleting=True, **source)))


@each_row("annotations", [{}, {NODE_ID_ANNOTATION: ""}], ids=["absent", "empty"])
def test_DT10_no_node_id_at_all_blocks_the_detach(annotations):
    va = an_attached_va(deleting=True, annotations=annotations)
    assert 'csinode.storage.k8s.io "node1" not found' == error_of(decided(va, nodes=[]))


@each_row("nodes", [[], [a_csi_node(drivers={"other": "x"})]], ids=["no-csinode", "without-driver"])
def test_DT11_the_annotation_serves_a_node_that_is_gone(nodes):
    va = an_attached_va(deleting=True, annotations={NODE_ID_ANNOTATION: "annotatedNodeID"})
    assert "annotatedNodeID" == order_of(decided(va, nodes=nodes)).node_id


def calls(decision: Decision) -> list[tuple[type, str]]:
    return [
        (type(action), action.order.node_id) for action in decision.actions if isinstance(action, Publish | Unpublish)
    ]


def test_a_machine_that_was_replaced_under_its_node_s_name_is_detached_too():
    va = an_attached_va(deleting=True, annotations={NODE_ID_ANNOTATION: "old"})
    assert [(Unpublish, "old"), (Unpublish, "nodeID1")] == calls(decided(va))


def test_a_replaced_machine_is_left_to_another_attachment_that_has_it_now():
    """It is another node's machine by now, and that node uses the volume, too."""
    va = an_attached_va(deleting=True, annotations={NODE_ID_ANNOTATION: "old"})
    other = an_attached_va("other", node="node2", annotations={NODE_ID_ANNOTATION: "old"})
    nodes = [a_csi_node(), a_csi_node("node2", {DRIVER: "old"})]
    assert [(Unpublish, "nodeID1")] == calls(decided(va, nodes=nodes, others=[other]))


def test_a_twin_on_the_new_machine_does_not_keep_the_former_one():
    va = an_attached_va(deleting=True, annotations={NODE_ID_ANNOTATION: "old"})
    decision = decided(va, others=[an_attached_va("twin")])
    assert [Unpublish, RemoveFinalizer] == steps(decision)
    assert [(Unpublish, "old")] == calls(decision)


@each_row(
    ("va", "drift", "former"),
    [
        pytest.param(
            a_va(finalizers=[FINALIZER], annotations={NODE_ID_ANNOTATION: "old"}),
            None,
            True,
            id="its-publish-is-unconfirmed",
        ),
        pytest.param(a_va(annotations={NODE_ID_ANNOTATION: "old"}), None, False, id="never-claimed"),
        pytest.param(
            an_attached_va(annotations={NODE_ID_ANNOTATION: "old"}),
            Drift.MISSING,
            False,
            id="the-backend-has-it-nowhere",
        ),
        pytest.param(
            an_attached_va(annotations={NODE_ID_ANNOTATION: "old"}), Drift.MOVED, True, id="the-backend-has-it-there"
        ),
        pytest.param(
            an_attached_va(annotations={NODE_ID_ANNOTATION: "old", STATUS_OF_ANNOTATION: "oldest"}),
            None,
            True,
            id="the-status-is-older",
        ),
    ],
)
def test_a_former_machine_is_left_before_the_new_one_gets_the_volume(
    va: dict[str, Any], drift: Drift | None, former: bool
):
    """Its id stands in the claim alone, which names the new one from then on."""
    decision = decided(va, drift={VA: drift} if drift else {})
    assert [*([(Unpublish, "old")] if former else []), (Publish, "nodeID1")] == calls(decision)
    assert AddFinalizer("nodeID1") == decision.actions[1 if former else 0]


@each_row(("drift", "left"), [(Drift.MOVED, True), (None, False)], ids=["which-leaves-it-too", "which-stays"])
def test_a_former_machine_is_left_unless_a_twin_uses_it_there(drift: Drift | None, left: bool):
    """The backend contradicts both of them, or the twin's pods may use it. The first to move must leave no machine
    behind.
    """
    va, twin = (an_attached_va(name, annotations={NODE_ID_ANNOTATION: "old"}) for name in (VA, "twin"))
    marks = {VA: Drift.MOVED, **({"twin": drift} if drift else {})}
    decision = decided(va, others=[twin], drift=marks)
    assert [*([(Unpublish, "old")] if left else []), (Publish, "nodeID1")] == calls(decision)


def test_a_former_machine_is_left_where_a_twin_does_not_tell_of_it():
    """Both publishes are unconfirmed: the one that goes first leaves no machine behind, and the other is published
    anew. Seed 363.
    """
    former = {"finalizers": [FINALIZER], "annotations": {NODE_ID_ANNOTATION: "old"}}
    decision = decided(a_va(**former), [a_held_pv(modes=RWO)], others=[a_va("twin", **former)])
    assert [(Unpublish, "old"), (Publish, "nodeID1")] == calls(decision)


def test_DT14_an_in_tree_volume_is_detached_by_its_translated_handle():
    pv = a_held_pv(
        source={"gcePersistentDisk": {"pdName": "testpd"}},
        labels={"failure-domain.beta.kubernetes.io/zone": "testZone"},
    )
    assert (
        "projects/UNSPECIFIED/zones/testZone/disks/testpd"
        == order_of(decided(an_attached_va(deleting=True), [pv])).handle
    )


# -- the volume's finalizer


def released(pv: dict[str, Any], vas: Any = (), **view: Any) -> Decision:
    return decide_volume(a_view(pvs=[pv], vas=vas, **view), pv["metadata"]["name"])


GCE: dict[str, Any] = {"gcePersistentDisk": {"pdName": "d"}}
CINDER: dict[str, Any] = {"cinder": {"volumeID": "handle1"}}


@each_row("source", [pytest.param(None, id="PV01"), pytest.param(GCE, id="PV02")])
def test_a_deleted_unused_volume_is_released(source):
    assert RELEASED == released(a_held_pv(deleting=True, source=source))


def test_PV03_a_volume_that_is_not_held_needs_no_release():
    assert Decision(why.VolumeNotHeld()) == released(a_held_pv(deleting=True, finalizers=["other/one"]))


def test_PV04_a_volume_that_nobody_deleted_keeps_its_finalizer():
    assert Decision(why.VolumeKept()) == released(a_held_pv())


@each_row("va", [a_va(), a_va(deleting=True), a_va(attacher="other")], ids=["wanted", "deleting", "foreign"])
def test_PV05_an_attachment_that_names_the_volume_keeps_it(va):
    assert Decision(why.VolumeInUse((VA,))) == released(a_held_pv(deleting=True), [va])


@each_row("source", [None, CINDER], ids=["csi", "in-tree"])
def test_a_call_that_runs_keeps_the_volume_whose_attachment_is_gone(source):
    in_use = Decision(why.VolumeInUse((VA,)), waits_for=frozenset({call_over("handle1")}))
    assert in_use == released(a_held_pv(deleting=True, source=source), in_flight={"handle1": VA})
    assert RELEASED == released(a_held_pv(deleting=True, source=source), in_flight={"other": VA})


def test_a_publish_in_doubt_keeps_the_volume_whose_attachment_is_gone():
    in_use = Decision(why.VolumeInUse(("torn",)), waits_for=frozenset({call_over("handle1")}))
    assert in_use == released(a_held_pv(deleting=True), unconfirmed_publishes=[an_unconfirmed()])
    assert RELEASED == released(a_held_pv(deleting=True), unconfirmed_publishes=[an_unconfirmed(handle="other")])


@each_row(
    ("migrated_to", "reason"),
    [
        pytest.param(None, why.VolumeReleased(), id="PV09-missing"),
        pytest.param("another", why.VolumeReleased(), id="PV09-other"),
        pytest.param(DRIVER, why.VolumeKept(), id="PV10"),
    ],
)
def test_an_in_tree_volume_is_released_once_its_migration_was_rolled_back(migrated_to, reason):
    annotations = {"pv.kubernetes.io/migrated-to": migrated_to} if migrated_to else None
    assert reason == released(a_held_pv(source=GCE, annotations=annotations)).because


def test_PV09_a_rolled_back_volume_waits_for_its_attachment():
    assert Decision(why.VolumeInUse((VA,))) == released(a_held_pv(source=GCE), [a_va()])


# -- what the backend reports


def test_RC01_what_the_backend_lost_is_published_again():
    decision = decided(an_attached_va(), drift={VA: Drift.MISSING})
    assert [Publish] == steps(decision)
    assert why.Attaching("node1", "nodeID1", again=True) == decision.because


def test_RC03_what_the_backend_has_too_much_is_unpublished_without_a_write():
    va = a_va(deleting=True, finalizers=["other/one"], annotations={NODE_ID_ANNOTATION: "nodeID1"})
    assert [Unpublish] == steps(decided(va, drift={VA: Drift.EXTRA}))


# -- drivers without publish

TRIVIAL = facts(publishes=False)


def test_TR01_a_driver_without_publish_marks_only():
    assert Decision(why.AttachedWithoutCall(), (MarkAttached(),)) == decided(a_va(), pvs=[], nodes=[], driver=TRIVIAL)


def test_TR03_a_foreign_attachment_is_foreign_there_too():
    assert Decision(why.Foreign("other")) == decided(a_va(attacher="other"), driver=TRIVIAL)


def test_a_trivially_attached_one_is_left_alone():
    assert Decision(why.Attached("node1")) == decided(a_va(status={"attached": True}), driver=TRIVIAL)


def test_finalizers_of_a_time_with_publish_are_dropped():
    """Else objects would be stuck for ever once a driver stops publishing."""
    decision = decided(an_attached_va(deleting=True), driver=TRIVIAL)
    assert (why.ReleasedWithoutCall(), (RemoveFinalizer(mark=False),)) == (decision.because, decision.actions)


def test_a_deleted_attachment_is_not_marked_attached():
    decision = decided(a_va(deleting=True, finalizers=["other/one"]), driver=TRIVIAL)
    assert (why.Detached(), ()) == (decision.because, decision.actions)


def test_a_vanished_key_needs_nothing():
    assert Decision(why.Gone("x")) == decide_attachment(a_view(), "x")
    assert Decision(why.Gone("x")) == decide_volume(a_view(), "x")


def test_every_reason_reads_as_a_sentence():
    reasons = [decided(a_va()).because, decided(a_va(), pvs=[]).because, decided(an_attached_va(deleting=True)).because]
    assert all(len(str(reason)) > 10 for reason in reasons)
