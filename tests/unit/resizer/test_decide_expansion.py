"""The judgement of growth as tables: one situation, one decision. Ids: docs/behaviours/resizer.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import SecretReference
from mooring.control.call_slots import call_over
from mooring.control.decision import Decision
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.resizer import decision as both
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.decision import PODS_KNOWN, LoadSecret, LookAtSecret, WatchPods, unused, volume_changed
from mooring.sidecars.resizer.expansion import decide as why
from mooring.sidecars.resizer.expansion.decide import DropPreResize, Expand, ExpandOnNode, Mark, decide_expansion
from tests.support.resizing import INFEASIBLE, NODE_INFEASIBLE, NODE_PENDING, NODE_PROGRESS, PROGRESS, condition
from tests.support.rows import each_row
from tests.support.volume_driver import GiB
from tests.unit.resizer.views import KEY, KnownPods, a_view, claim_body, facts, pv_body

NOW = 1000.0
RESIZING = condition(names.RESIZING)
IN_USE = condition(names.CONTROLLER_ERROR, reason="FailedPrecondition")
SECRET = {"controllerExpandSecretRef": {"name": "s", "namespace": "ns"}}
VOLUME = frozenset({volume_changed("pv")})
ROX_RWO = "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume"
MODE = csi.VolumeCapability.AccessMode

VERSION = "1"
"""Of the claim in the cache."""
MARKED = {"marked_from": "0"}


def decided(claim: Any = None, pv: Any = None, **view: Any) -> Decision:
    """A claim with 1 GiB that asks for 2, unless said otherwise."""
    claim = claim_body(2, 1) if claim is None else claim
    pv = pv_body() if pv is None else pv
    return decide_expansion(a_view(claim, pv or None, **view), KEY, NOW)


def steps(decision: Decision) -> list[type]:
    return [type(action) for action in decision.actions]


def order_of(decision: Decision) -> Any:
    return next(action.order for action in decision.actions if isinstance(action, Expand))


# -- nothing to do


@each_row(
    ("claim", "pv", "because"),
    [
        pytest.param(claim_body(1, 1), pv_body(), why.Served("1Gi", "1Gi"), id="R3"),
        pytest.param(claim_body(2, 1, phase="Pending"), pv_body(), both.NotBound("Pending"), id="R4"),
        pytest.param(claim_body(2, 1, phase="Lost"), pv_body(), both.NotBound("Lost"), id="R4-lost"),
        pytest.param(claim_body(2, 1), pv_body(csi={"driver": "other"}), both.Foreign("csi.test"), id="R6"),
        pytest.param(
            claim_body(2, 1, annotations={names.RESIZER: "csi.test"}),
            pv_body(csi={"driver": "other"}),
            both.Foreign("csi.test"),
            id="R6-annotated",
        ),
        pytest.param(
            claim_body(2, 1), pv_body(source={"hostPath": {"path": "/x"}}), both.Foreign("csi.test"), id="R6-no-csi"
        ),
        pytest.param(claim_body(2, 1, volume=None), pv_body(), both.NoVolume(), id="no-volume"),
        pytest.param(
            claim_body(1, 1, 1, NODE_PENDING), pv_body(), why.Served("1Gi", "1Gi"), id="served-while-the-node-is-asked"
        ),
        pytest.param(claim_body(1, "512Mi", 1, NODE_PENDING), pv_body(), why.NodesTurn("1Gi"), id="R13"),
        pytest.param(claim_body(10, 1, 3, NODE_PROGRESS), pv_body(3), why.NodesTurn("3Gi"), id="R14"),
        pytest.param(
            claim_body(1, "512Mi", conditions=[condition(names.FS_PENDING)]), pv_body(), why.NodesTurn("1Gi"), id="R17"
        ),
    ],
)
def test_nothing_is_to_be_done(claim, pv, because):
    assert Decision(because) == decided(claim, pv)


def test_a_claim_that_is_gone():
    assert Decision(both.Gone(KEY)) == decide_expansion(a_view(None, None), KEY, NOW)


@each_row("ref", [{"uid": "another"}, {"namespace": "elsewhere"}], ids=["uid", "namespace"])
def test_R5_a_volume_of_another_claim_is_waited_for(ref):
    assert Decision(why.NotItsVolume("pv"), waits_for=VOLUME) == decided(pv=pv_body(claim_ref=ref))


def test_R5_a_volume_of_no_claim_is_waited_for():
    assert Decision(why.NotItsVolume("pv"), waits_for=VOLUME) == decided(pv=pv_body(claimRef=None))


def test_R7_a_missing_volume_is_waited_for():
    assert Decision(both.VolumeMissing("pv"), waits_for=VOLUME) == decided(pv={})


# -- the call


def test_R1_the_claim_is_marked_and_the_driver_asked():
    decision = decided()
    assert [Mark, Expand] == steps(decision)
    assert Mark("2Gi", anew=True) == decision.actions[0]
    assert ("handle", 2 * GiB, None, False) == (
        order_of(decision).handle,
        order_of(decision).size_bytes,
        order_of(decision).secret,
        order_of(decision).migrated,
    )
    assert (why.Growing("2Gi"), "handle") == (decision.because, order_of(decision).handle)


@each_row(
    ("claim", "pv", "remembered", "mark", "gib"),
    [
        pytest.param(claim_body(5, 3, 10, INFEASIBLE), pv_body(3), {}, Mark("5Gi", anew=True), 5, id="R8"),
        pytest.param(
            claim_body(5, 3, 10, PROGRESS, conditions=[RESIZING]),
            pv_body(3),
            {},
            Mark("10Gi", anew=False),
            10,
            id="R9-R34",
        ),
        pytest.param(
            claim_body(5, 3, 10, PROGRESS, conditions=[RESIZING]), pv_body(3), MARKED, None, 10, id="R9-its-own-mark"
        ),
        pytest.param(
            claim_body(5, 3, 10, PROGRESS, conditions=[RESIZING]),
            pv_body(3),
            {"error": "Internal"},
            Mark("5Gi", anew=True),
            5,
            id="R10",
        ),
        pytest.param(
            claim_body(5, 3, 10, PROGRESS, conditions=[RESIZING, condition(names.CONTROLLER_ERROR, reason="Internal")]),
            *(pv_body(3), {}, Mark("10Gi", anew=False), 10),
            id="R10-after-a-restart-a-call-may-have-followed-the-error",
        ),
        pytest.param(
            claim_body(5, 3, 10, PROGRESS, conditions=[RESIZING, condition(names.CONTROLLER_ERROR, reason="Internal")]),
            *(pv_body(3), {"error": "Aborted"}, None, 10),
            id="the-answer-to-this-process-counts-more",
        ),
        pytest.param(
            claim_body(5, 3, 10, PROGRESS, conditions=[RESIZING, condition(names.CONTROLLER_ERROR)]),
            *(pv_body(3), {}, Mark("10Gi", anew=False), 10),
            id="an-error-of-the-go-resizer-has-no-reason",
        ),
        pytest.param(
            claim_body(5, 3, 10, PROGRESS), pv_body(3), {"error": "Aborted"}, Mark("10Gi", anew=False), 10, id="R18"
        ),
        pytest.param(
            claim_body(10, 3, 10, PROGRESS, conditions=[RESIZING]),
            *(pv_body(3), {"error": "OutOfRange"}, Mark("10Gi", anew=True), 10),
            id="R19-the-cache-shows-an-old-claim",
        ),
        pytest.param(
            claim_body(10, 3, 10, conditions=[RESIZING]),
            *(pv_body(3), {}, Mark("10Gi", anew=True), 10),
            id="the-size-of-before-a-set-back-without-its-step",
        ),
        pytest.param(
            claim_body(8, 6, 6),
            pv_body(9),
            {},
            Mark("6Gi", anew=False),
            6,
            id="the-size-that-it-has-is-not-in-progress",
        ),
        pytest.param(claim_body(2, 1, 2, NODE_INFEASIBLE), pv_body(2), {}, Mark("2Gi", anew=False), 2, id="R15"),
        pytest.param(
            claim_body(10, 3, 10, INFEASIBLE, conditions=[RESIZING]),
            pv_body(3),
            {},
            Mark("10Gi", anew=True),
            10,
            id="R19",
        ),
        pytest.param(
            claim_body(2, 1, 2, PROGRESS, conditions=[RESIZING], annotations={names.NOT_REQUIRED: "true"}),
            *(pv_body(), {}, Mark("2Gi", anew=False), 2),
            id="R32",
        ),
    ],
)
def test_the_size_that_is_asked_for(claim, pv, remembered, mark, gib):
    decision = decided(claim, pv, remembered=remembered)
    assert ([mark] if mark else []) == [action for action in decision.actions if isinstance(action, Mark)]
    assert gib * GiB == order_of(decision).size_bytes


def test_R16_a_node_only_driver_is_not_called():
    decision = decided(claim_body(5, 3, 10, NODE_INFEASIBLE), pv_body(10), driver=facts(expands=False))
    assert (Mark("5Gi", anew=True), ExpandOnNode("5Gi")) == decision.actions
    assert not any(isinstance(action, Expand) for action in decision.actions)


@each_row(("wanted", "sent"), [("1500M", 1_500_000_000), ("1.5Gi", 1_610_612_736), ("2000000000001m", 2_000_000_001)])
def test_sizes_are_rounded_up_to_bytes(wanted, sent):
    assert sent == order_of(decided(claim_body(wanted, 1))).size_bytes


def test_R23_R24_the_use_of_the_volume():
    assert order_of(decided(pv=pv_body(volumeMode="Block"))).capability.HasField("block")
    use = order_of(decided(pv=pv_body(csi={"fsType": "xfs"}, mountOptions=["ro"], modes=["ReadWriteMany"]))).capability
    wanted = csi.VolumeCapability.MountVolume(fs_type="xfs", mount_flags=["ro"])
    assert (wanted, MODE.MULTI_NODE_MULTI_WRITER) == (use.mount, use.access_mode.mode)


@each_row(
    ("capable", "mode"),
    [(False, MODE.SINGLE_NODE_WRITER), (True, MODE.SINGLE_NODE_MULTI_WRITER)],
    ids=["plain", "capable"],
)
def test_the_access_mode_depends_on_the_driver(capable, mode):
    assert mode == order_of(decided(driver=facts(single_node_multi_writer=capable))).capability.access_mode.mode


def test_R25_the_secret_is_loaded_after_the_mark():
    decision = decided(pv=pv_body(csi=SECRET))
    assert [Mark, LoadSecret, Expand] == steps(decision)
    assert SecretReference("s", "ns") == order_of(decision).secret


@each_row(
    ("pv", "error"),
    [
        (
            pv_body(modes=["ReadOnlyMany", "ReadWriteOnce"]),
            (
                "failed to get capabilities of volume pv with CSI does not support ReadOnlyMany and ReadWriteOnce "
                "on the same PersistentVolume"
            ),
        ),
        (pv_body(csi={"volumeHandle": ""}), "empty volume handle"),
    ],
    ids=["access-modes", "handle"],
)
def test_what_csi_can_not_express_is_told_after_the_mark(pv, error):
    decision = decided(pv=pv)
    assert [Mark] == steps(decision)
    assert decision.problem is not None
    assert f'resize volume "pv" by resizer "csi.test" failed: {error}' == decision.problem.error


def test_a_size_beyond_64_bits_is_told_and_not_marked():
    decision = decided(claim_body("10E", 1))
    assert ((), why.TooLarge("10E"), VOLUME) == (decision.actions, decision.problem, decision.waits_for)


def test_R28_an_in_tree_volume_is_translated_where_the_claim_leaves_it_to_the_driver():
    disk = pv_body(source={"gcePersistentDisk": {"pdName": "d"}}, labels={"topology.kubernetes.io/zone": "z"})
    name = "pd.csi.storage.gke.io"
    assert both.Foreign(name) == decided(pv=disk, driver=facts(name=name)).because
    order = order_of(decided(claim_body(2, 1, annotations={names.RESIZER: name}), disk, driver=facts(name=name)))
    assert ("projects/UNSPECIFIED/zones/z/disks/d", True) == (order.handle, order.migrated)


def test_an_in_tree_volume_that_can_not_be_translated_is_told_after_the_mark():
    disk = pv_body(source={"awsElasticBlockStore": {"volumeID": "aws:///"}})
    name = "ebs.csi.aws.com"
    decision = decided(claim_body(2, 1, annotations={names.RESIZER: name}), disk, driver=facts(name=name))
    assert [Mark] == steps(decision)
    assert decision.problem is not None
    text = "failed to translate persistent volume: Invalid format for AWS volume (aws:///)"
    assert f'resize volume "pv" by resizer "{name}" failed: {text}' == decision.problem.error


# -- waiting


def test_a_call_for_the_volume_is_waited_for():
    decision = decided(in_flight={"handle": "the modify of default/claim"})
    assert (
        Decision(both.CallInFlight("the modify of default/claim"), waits_for=frozenset({call_over("handle")}))
        == decision
    )


SLOW = {"error": "OutOfRange", "slow_target": "10Gi", "slow_until": NOW + 200, "looked_at": NOW}
REFUSED = claim_body(10, 3, 10, INFEASIBLE, conditions=[RESIZING])


def test_R19_an_infeasible_size_waits():
    decision = decided(REFUSED, pv_body(3), remembered=SLOW)
    assert Decision(why.Infeasible("10Gi", "OutOfRange", 200.0), waits_for=VOLUME, after_s=200.0) == decision


@each_row(
    ("claim", "remembered"),
    [
        pytest.param(claim_body(5, 3, 10, INFEASIBLE), SLOW, id="R20-smaller"),
        pytest.param(claim_body(12, 3, 10, INFEASIBLE), SLOW, id="R20-larger"),
        pytest.param(REFUSED, {**SLOW, "slow_until": NOW}, id="R19-the-time-is-over"),
        pytest.param(REFUSED, {}, id="restart"),
    ],
)
def test_an_infeasible_size_waits_no_longer(claim, remembered):
    assert [Mark, Expand] == steps(decided(claim, pv_body(3), remembered=remembered))


@each_row(
    ("looked_ago_s", "actions", "after_s"), [(0, (), 30.0), (30, (LookAtSecret(SecretReference("s", "ns")),), 0.0)]
)
def test_the_secret_of_an_infeasible_size_is_looked_at_now_and_then(looked_ago_s, actions, after_s):
    decision = decided(REFUSED, pv_body(3, csi=SECRET), remembered={**SLOW, "looked_at": NOW - looked_ago_s})
    assert (actions, after_s) == (decision.actions, decision.after_s)


def test_the_secret_of_an_in_tree_volume_is_looked_at_too():
    name = "pxd.portworx.com"
    notes = {"openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "ns"}
    pv = pv_body(3, source={"portworxVolume": {"volumeID": "handle"}}, annotations=notes)
    claim = claim_body(10, 3, 10, INFEASIBLE, conditions=[RESIZING], annotations={names.RESIZER: name})
    decision = decided(claim, pv, driver=facts(name=name), remembered={**SLOW, "looked_at": NOW - 30})
    assert (LookAtSecret(SecretReference("s", "ns")),) == decision.actions


def test_R21_the_users_of_a_volume_are_waited_for():
    decision = decided(claim_body(2, 1, 2, PROGRESS, conditions=[IN_USE]), pods=KnownPods(("user",)))
    problem = why.InUse(KEY, "csi.test", ("user",))
    assert Decision(problem, problem=problem, waits_for=frozenset({unused(KEY)})) == decision
    text = (
        "Unable to expand default/claim because CSI driver csi.test only supports offline expansion and volume is "
        "currently in-use"
    )
    assert text == problem.error


@each_row(
    ("pods", "options", "remembered"),
    [
        pytest.param(KnownPods(()), {}, MARKED, id="R21-no-pod"),
        pytest.param(KnownPods(None, NOW - 10), {}, MARKED, id="pods-can-not-be-known"),
        pytest.param(KnownPods(("user",)), {"handle_volume_inuse_error": False}, MARKED, id="R22"),
        pytest.param(KnownPods(("user",)), {}, {"error": "Internal"}, id="another-error-since"),
    ],
)
def test_the_users_of_a_volume_are_not_waited_for(pods, options, remembered):
    claim = claim_body(2, 1, 2, PROGRESS, conditions=[RESIZING, IN_USE])
    assert [Expand] == steps(decided(claim, pods=pods, options=options, remembered=remembered))


@each_row(
    ("remembered", "options", "marks"),
    [
        pytest.param({}, {}, [Mark("2Gi", anew=False)], id="another-process-has-marked-it"),
        pytest.param({"marked_from": VERSION}, {}, [Mark("2Gi", anew=False)], id="its-own-mark-was-not-done"),
        pytest.param(MARKED, {}, [], id="its-own-mark-stands"),
        pytest.param({}, {"recover": False}, [], id="without-recovery-no-size-is-on-the-claim"),
    ],
)
def test_R34_the_first_call_for_what_another_process_has_marked_marks_it_first(remembered, options, marks):
    decision = decided(claim_body(2, 1, 2, PROGRESS, conditions=[RESIZING]), remembered=remembered, options=options)
    assert marks == list(decision.actions[:-1])
    assert isinstance(decision.actions[-1], Expand)


def test_R34_nothing_is_written_where_the_driver_is_not_called():
    begun = claim_body(2, 1, 2, PROGRESS, conditions=[RESIZING])
    assert [ExpandOnNode] == steps(decided(begun, driver=facts(expands=False)))
    assert [] == steps(decided(begun, in_flight={"handle": "the modification"}))


def test_R21_pods_are_asked_for_when_they_are_needed():
    claim = claim_body(2, 1, 2, PROGRESS, conditions=[IN_USE])
    first = decided(claim)
    assert ((WatchPods(),), 10.0, frozenset({PODS_KNOWN})) == (first.actions, first.after_s, first.waits_for)
    assert 4.0 == decided(claim, pods=KnownPods(None, NOW - 6)).after_s
    assert WatchPods() not in decided().actions


# -- the annotation, and the gates

NOTED = {"annotations": {names.PRE_RESIZE: "1Gi"}}
ANNOTATE = {"options": {"annotate": True}}


@each_row(
    ("claim", "pv", "options", "dropped"),
    [
        pytest.param(claim_body(2, 2), pv_body(2, **NOTED), ANNOTATE, True, id="R27"),
        pytest.param(claim_body(3, 2), pv_body(2, **NOTED), ANNOTATE, True, id="R27-and-growing"),
        pytest.param(claim_body(2, 1, 2, NODE_PENDING), pv_body(2, **NOTED), ANNOTATE, False, id="the-node-has-work"),
        pytest.param(claim_body(2, 2), pv_body(2, **NOTED), {}, False, id="gate-off"),
        pytest.param(claim_body(2, 2), pv_body(2), ANNOTATE, False, id="not-there"),
        pytest.param(
            claim_body(2, 2), pv_body(2, **NOTED, csi={"driver": "other"}), ANNOTATE, False, id="another-drivers"
        ),
    ],
)
def test_the_size_before_is_dropped(claim, pv, options, dropped):
    assert dropped is (DropPreResize() in decided(claim, pv, **options).actions)


LEGACY = {"options": {"recover": False}}


@each_row(
    ("claim", "pv", "expected"),
    [
        (claim_body(2, 1), pv_body(), [Mark, Expand]),
        (claim_body(2, 1, 5, PROGRESS, conditions=[RESIZING]), pv_body(), [Expand]),
        (claim_body(2, 1, conditions=[condition(names.FS_PENDING)]), pv_body(2), []),
        (claim_body(2, 1), pv_body(2), [Mark, Expand]),
    ],
)
def test_without_recovery_the_request_alone_counts(claim, pv, expected):
    decision = decided(claim, pv, **LEGACY)
    assert expected == steps(decision)
    assert not expected or order_of(decision).size_bytes == 2 * GiB
