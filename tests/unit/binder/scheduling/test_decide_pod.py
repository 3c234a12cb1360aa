"""The judgement on pods: which node, or why none; B41 to B57."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.binding import NO_PROVISIONER, SELECTED_NODE
from mooring.api.meta import Key
from mooring.cluster.binder.scheduling import reasons as why
from mooring.cluster.binder.scheduling import wake_topics
from mooring.cluster.binder.scheduling.assumed_bindings import AssumedBinding, AssumedBindings
from mooring.cluster.binder.scheduling.decide import Action, BindPod, DropPlan, WritePlan, decide_pod
from mooring.cluster.binder.scheduling.reasons import BindingFailed, Rejected, WaitsForVolumes
from mooring.control.decision import Decision
from tests.support.builders import (
    BOUND_CLAIM,
    DRIVER,
    NS,
    Json,
    a_bound_claim,
    a_capacity,
    a_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_pod,
    a_ready_node,
    a_va,
    a_volume,
    an_ephemeral_volume,
)
from tests.support.rows import each_row
from tests.support.stores import Stores

POD = Key(NS, "pod")
CLAIM = Key(NS, "claim")
ABC = [a_ready_node("na", zone="a"), a_ready_node("nb", zone="b"), a_ready_node("nc", zone="c")]
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
GOES = [a_pod("pod", "claim")]
LATER = a_class(wffc=True)


def decided(*bodies: Json, plans: AssumedBindings | None = None, now: float = 0.0, key: Key = POD) -> Decision[Action]:
    return decide_pod(
        Stores(*bodies).scheduler(plans), key, now, scheduler_name="default-scheduler", bind_timeout_s=600
    )


def node_of(decision: Decision[Action]) -> str:
    plan = plan_of(decision)
    assert plan is not None, str(decision.because)
    return plan.node_name


def plan_of(decision: Decision[Action]) -> AssumedBinding | None:
    return next((action.plan for action in decision.actions if isinstance(action, WritePlan)), None)


def is_over(decision: Decision[Action]) -> bool:
    return DropPlan() in decision.actions


def rejection(decision: Decision[Action]) -> str:
    assert isinstance(decision.because, Rejected), str(decision.because)
    assert decision.waits_for, "nobody would ever look again"
    return str(decision.because)


# -- before any node is looked at

BEFORE: dict[str, tuple[list[Json], str]] = {
    "B41-unbound-immediate": ([a_claim(), a_class()], "pod has unbound immediate PersistentVolumeClaims"),
    "B41-volume-named-not-bound": ([a_claim(volume="pv"), LATER], "pod has unbound immediate PersistentVolumeClaims"),
    "B34-B41-missing": ([], 'persistentvolumeclaim "claim" not found'),
    "B24-B41-lost": (
        [a_bound_claim(status={"phase": "Lost"})],
        'persistentvolumeclaim "claim" bound to non-existent persistentvolume "pv"',
    ),
    "B41-being-deleted": ([a_bound_claim(**DELETED), a_volume()], 'persistentvolumeclaim "claim" is being deleted'),
}


@each_row(("bodies", "text"), BEFORE.values(), ids=BEFORE)
def test_claims_that_are_not_ready(bodies: list[Json], text: str) -> None:
    assert f"0/3 nodes are available: {text}." == rejection(decided(*GOES, *ABC, *bodies))


def test_B38_an_ephemeral_claim_that_is_not_made_yet() -> None:
    pod = a_pod("pod", volumes=(an_ephemeral_volume(),))
    text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-scratch"'
    assert text in rejection(decided(pod, a_ready_node()))


def test_B39_a_foreign_claim_of_that_name() -> None:
    pod = a_pod("pod", volumes=(an_ephemeral_volume(),))
    text = rejection(decided(pod, a_ready_node(), a_bound_claim("pod-scratch"), a_volume()))
    assert "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)" in text


def test_B41_scheduled_after_the_claim_is_bound() -> None:
    decision = decided(*GOES, a_ready_node(), a_bound_claim(), a_volume(claim=a_bound_claim(), phase="Bound"))
    assert "n1" == node_of(decision)


# -- nodes

PLACES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "unschedulable": ({}, {"unschedulable": True}, why.UNSCHEDULABLE),
    "tainted": ({}, {"taints": ({"key": "a", "effect": "NoSchedule"},)}, why.TAINTED),
    "preferred-elsewhere": ({}, {"taints": ({"key": "a", "effect": "PreferNoSchedule"},)}, ""),
    "tolerated": (
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"taints": ({"key": "a", "effect": "NoSchedule"},)},
        "",
    ),
    "tolerates-all": ({"tolerations": [{"operator": "Exists"}]}, {"unschedulable": True}, ""),
    "tolerates-another-value": (
        {"tolerations": [{"key": "a", "value": "x"}]},
        {"taints": ({"key": "a", "value": "y", "effect": "NoExecute"},)},
        why.TAINTED,
    ),
    "tolerates-another-effect": (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]},
        {"taints": ({"key": "a", "effect": "NoSchedule"},)},
        why.TAINTED,
    ),
    "not-ready": ({}, {"ready": False}, why.NOT_READY),
    "not-ready-and-evicts-later": (
        {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]},
        {"ready": False},
        why.NOT_READY,
    ),
    "not-ready-and-tolerated": (
        {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
        {"ready": False},
        "",
    ),
    "not-ready-and-all-is-tolerated": ({"tolerations": [{"operator": "Exists"}]}, {"ready": False}, ""),
    "says-nothing": ({}, {"ready": None}, ""),
    "selector": ({"nodeSelector": {"zone": "b"}}, {"zone": "a"}, why.SELECTOR),
    "selected": ({"nodeSelector": {"zone": "a"}}, {"zone": "a"}, ""),
}


@each_row(("pod", "node", "reason"), PLACES.values(), ids=PLACES)
def test_nodes(pod: dict[str, Any], node: dict[str, Any], reason: str) -> None:
    decision = decided(a_pod("pod", **pod), a_ready_node(**node))
    if reason:
        assert f"0/1 nodes are available: 1 {reason}." == rejection(decision)
    else:
        assert "n1" == node_of(decision)


def test_required_affinity_chooses() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["c"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert "nc" == node_of(decided(a_pod("pod", affinity=affinity), *ABC))


def test_no_nodes() -> None:
    assert "no nodes available to schedule pods" == rejection(decided(a_pod("pod")))


def test_pods_spread_over_nodes() -> None:
    assert "nb" == node_of(decided(a_pod("pod"), a_pod("x", node="na"), a_pod("y", node="nc"), *ABC))


def test_whose_pod_it_is_not() -> None:
    for pod in (
        a_pod("pod", schedulerName="other"),
        a_pod("pod", node="n1"),
        a_pod("pod", schedulingGates=[{"name": "g"}]),
    ):
        assert is_over(decided(pod, a_ready_node()))


# -- volumes


def test_B42_static_volume_of_a_zone() -> None:
    bodies = [*GOES, *ABC, a_claim(), a_class(wffc=True, provisioner=NO_PROVISIONER), a_volume(affinity={"zone": "b"})]
    plan = plan_of(decided(*bodies))
    assert plan is not None
    assert ("nb", (("pv", CLAIM),), ()) == (plan.node_name, plan.static, plan.provision)


def test_B42_bound_volume_of_a_zone() -> None:
    bodies = [*GOES, a_bound_claim(), a_volume(claim=a_bound_claim(), phase="Bound", affinity={"zone": "b"})]
    assert "nb" == node_of(decided(*bodies, *ABC))
    assert f"0/1 nodes are available: 1 {why.AFFINITY}." == rejection(decided(*bodies, ABC[0]))


def test_B42_bound_to_a_volume_that_is_gone() -> None:
    assert f"0/1 nodes are available: 1 {why.BOUND_TO_NOTHING}." == rejection(
        decided(*GOES, a_ready_node(), a_bound_claim())
    )


def test_labels_of_old_volumes_say_their_zone() -> None:
    bodies = [*GOES, a_bound_claim(), a_volume(claim=a_bound_claim(), phase="Bound", labels={ZONE: "a__b"})]
    assert "n2" == node_of(decided(*bodies, a_ready_node("n1", **{ZONE: "c"}), a_ready_node("n2", **{ZONE: "b"})))
    assert why.ZONE in rejection(decided(*bodies, a_ready_node("n1", **{ZONE: "c"})))


OLD_ZONE, ZONE = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
ZONES: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "old-label-of-both": ({OLD_ZONE: "a"}, {OLD_ZONE: "a", ZONE: "x"}, True),
    "old-label-of-the-volume": ({OLD_ZONE: "a__b"}, {ZONE: "b"}, True),
    "old-label-of-the-volume-and-another-zone": ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
    "old-label-of-the-node": ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
    "empty-label": ({ZONE: ""}, {ZONE: "a"}, True),
    "empty-zone-among-others": ({ZONE: "b__"}, {ZONE: "a"}, True),
    "node-without-labels": ({ZONE: "a"}, {}, True),
}


@each_row(("of_volume", "of_node", "fits"), ZONES.values(), ids=ZONES)
def test_zone_labels_are_read_as_kube_scheduler_reads_them(
    of_volume: dict[str, str], of_node: dict[str, str], fits: bool
) -> None:
    bodies = [*GOES, a_bound_claim(), a_volume(claim=a_bound_claim(), phase="Bound", labels=of_volume)]
    decision = decided(*bodies, a_ready_node("n1", **of_node))
    if fits:
        assert "n1" == node_of(decision)
    else:
        assert why.ZONE in rejection(decision)


def test_two_claims_of_a_pod_do_not_get_the_same_volume() -> None:
    bodies = [
        a_pod("pod", "claim", "second"),
        a_ready_node(),
        a_claim(),
        a_claim("second"),
        a_class(wffc=True, provisioner=NO_PROVISIONER),
    ]
    assert why.CONFLICT in rejection(decided(*bodies, a_volume()))
    plan = plan_of(decided(*bodies, a_volume(), a_volume("pv2")))
    assert plan is not None
    assert {"pv", "pv2"} == {name for name, _ in plan.static}


def test_B43_dynamic() -> None:
    plan = plan_of(decided(*GOES, a_ready_node(), a_claim(), LATER))
    assert plan is not None
    assert ((), (CLAIM,)) == (plan.static, plan.provision)


def test_B44_a_chosen_node_pins() -> None:
    assert why.CONFLICT in rejection(decided(*GOES, a_ready_node("n1"), a_claim(selected="gone"), LATER))
    assert "n2" == node_of(decided(*GOES, a_ready_node("n1"), a_ready_node("n2"), a_claim(selected="n2"), LATER))


def test_B44_an_empty_annotation_chooses_a_node_that_is_nowhere() -> None:
    nowhere = a_claim(annotations={SELECTED_NODE: ""})
    assert f"0/1 nodes are available: 1 {why.CONFLICT}." == rejection(decided(*GOES, a_ready_node(), nowhere, LATER))
    assert why.CONFLICT in rejection(decided(*GOES, a_ready_node(), nowhere, LATER, a_volume())), (
        "a volume that is there does not help"
    )


def test_B50_allowed_topologies() -> None:
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]
    bodies = [*GOES, a_claim(), a_class(wffc=True, allowedTopologies=terms)]
    assert "nb" == node_of(decided(*bodies, *ABC))
    assert f"0/1 nodes are available: 1 {why.CONFLICT}." == rejection(decided(*bodies, ABC[0]))


def test_B51_static_class_without_volumes() -> None:
    text = rejection(decided(*GOES, *ABC, a_claim(), a_class(wffc=True, provisioner=NO_PROVISIONER)))
    assert f"0/3 nodes are available: 3 {why.CONFLICT}." == text


# -- what heals a rejection

IN_ZONE_B = {"zone": "b"}
BOUND_PAIR = [a_bound_claim(), a_volume(claim=a_bound_claim(), phase="Bound", affinity=IN_ZONE_B)]
TERMS = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
REQUIRED = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}}
ALLOWED = [{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]
STATIC = a_class(wffc=True, provisioner=NO_PROVISIONER)

HEALS: dict[str, tuple[list[Json], set[str]]] = {
    "selector-of-the-pod": ([a_pod("pod", nodeSelector=IN_ZONE_B)], {"label/zone"}),
    "affinity-of-the-pod": ([a_pod("pod", affinity=REQUIRED)], {"label/zone"}),
    "affinity-of-its-volume": ([*GOES, *BOUND_PAIR], {"label/zone", "volume/pv"}),
    "affinity-of-a-free-volume": (
        [*GOES, a_claim(), STATIC, a_volume(affinity=IN_ZONE_B)],
        {"label/zone", "volumes/sc", "class/sc"},
    ),
    "allowed-topologies": (
        [*GOES, a_claim(), a_class(wffc=True, allowedTopologies=ALLOWED)],
        {"label/zone", "volumes/sc", "class/sc"},
    ),
    "capacity": (
        [*GOES, a_claim(), LATER, a_csi_driver(), a_capacity("c", "n1", "1Ti")],
        {"label/host", "room/sc", f"driver/{DRIVER}", "volumes/sc", "class/sc"},
    ),
    "chosen-node": ([*GOES, a_claim(selected="gone"), LATER], set()),
}


@each_row(("bodies", "topics"), HEALS.values(), ids=HEALS)
def test_a_rejection_waits_for_what_it_was_decided_by(bodies: list[Json], topics: set[str]) -> None:
    """A node without any label is looked at as one with many."""
    bare = a_ready_node()
    bare["metadata"]["labels"] = {}
    decision = decided(*bodies, bare)
    assert rejection(decision)
    claims = {f"claim/{CLAIM}"} if len(bodies) > 1 else set()
    assert {wake_topics.NODES, *claims, *topics} == decision.waits_for


def test_a_zone_in_labels_of_an_old_volume_is_waited_for() -> None:
    old = a_volume(claim=a_bound_claim(), phase="Bound", labels={ZONE: "a"})
    decision = decided(*GOES, a_bound_claim(), old, a_ready_node(**{ZONE: "c"}))
    assert why.ZONE in rejection(decision)
    assert {wake_topics.label(ZONE), wake_topics.volume("pv")} <= decision.waits_for


# -- capacity

HOSTS = [a_ready_node(name, host=name) for name in ("n1", "n2", "n3")]


def capacities(
    *rows: Json, size: str = "10Gi", driver: Json | None = None, claims: tuple[Json, ...] = ()
) -> Decision[Action]:
    bodies = [*GOES, *HOSTS, LATER, a_claim(size=size), *claims]
    return decided(*bodies, *([a_csi_driver()] if driver is None else [driver] if driver else []), *rows)


def test_B46_only_one_node_has_room() -> None:
    rows = [a_capacity("c1", "n1", "5Gi"), a_capacity("c2", "n2", "50Gi"), a_capacity("c3", "n3", "5Gi")]
    assert "n2" == node_of(capacities(*rows))


FULL: dict[str, tuple[list[Json], str]] = {
    "B47-no-object-at-all": ([], "10Gi"),
    "B47-object-of-another-class": ([a_capacity("c", "n1", sc="other")], "10Gi"),
    "B47-too-small": ([a_capacity("c", "n1", "5Gi")], "10Gi"),
    "B47-says-nothing": ([a_capacity("c", "n1", None)], "10Gi"),
    "B47-for-no-node": ([a_capacity("c", None)], "10Gi"),
    "B49-maximum-size": ([a_capacity("c", "n1", "100Gi", maximumVolumeSize="10Gi")], "50Gi"),
}


@each_row(("rows", "size"), FULL.values(), ids=FULL)
def test_no_room(rows: list[Json], size: str) -> None:
    assert f"0/3 nodes are available: 3 {why.FULL}." == rejection(capacities(*rows, size=size))


ROOM: dict[str, tuple[list[Json], str, Json | None]] = {
    "B48-false": ([], "10Gi", a_csi_driver(storageCapacity=False)),
    "B48-no-driver-object": ([], "10Gi", {}),
    "B49-the-maximum-alone-decides": ([a_capacity("c", "n1", "10Gi", maximumVolumeSize="50Gi")], "50Gi", None),
    "B46-for-all-nodes": ([a_capacity("c", "")], "10Gi", None),
}


@each_row(("rows", "size", "driver"), ROOM.values(), ids=ROOM)
def test_room(rows: list[Json], size: str, driver: Json | None) -> None:
    assert "n1" == node_of(capacities(*rows, size=size, driver=driver))


def test_B46_room_counts_by_what_the_driver_reports() -> None:
    """Not by what other claims want there, as in kube-scheduler: a claim that never gets its volume would keep others
    away.
    """
    other = a_claim("other", size="60Gi", selected="n1")
    assert "n1" == node_of(capacities(a_capacity("c", "n1", "100Gi"), size="60Gi", claims=(other,)))


def test_B46_two_claims_of_a_pod_share_the_room() -> None:
    bodies = [a_pod("pod", "claim", "second"), *HOSTS, LATER, a_csi_driver(), a_capacity("c", "n1", "100Gi")]
    assert why.FULL in rejection(decided(*bodies, a_claim(size="60Gi"), a_claim("second", size="60Gi")))
    assert "n1" == node_of(decided(*bodies, a_claim(size="60Gi"), a_claim("second", size="40Gi")))


# -- limits


def bound(name: str) -> list[Json]:
    claim = a_bound_claim(name, f"pv-{name}")
    return [claim, a_volume(f"pv-{name}", claim=claim, phase="Bound")]


IN_USE = [
    a_pod("first", "c1", "c2", node="n1", phase="Running"),
    *bound("c1"),
    *bound("c2"),
    *bound("c3"),
    a_class(),
    a_ready_node(),
]


def test_B52_limit() -> None:
    assert why.LIMIT in rejection(decided(a_pod("pod", "c3"), a_csi_node("n1", count=2), *IN_USE))
    assert "n1" == node_of(decided(a_pod("pod", "c3"), a_csi_node("n1", count=3), *IN_USE))
    over = a_pod("first", "c1", "c2", node="n1", phase="Succeeded")
    assert "n1" == node_of(decided(a_pod("pod", "c3"), a_csi_node("n1", count=2), *IN_USE, over))


def test_B52_claims_without_a_volume_count() -> None:
    bodies = [a_ready_node(), a_csi_node("n1", count=1), LATER, a_claim("c1"), a_claim("c2")]
    assert why.LIMIT in rejection(decided(a_pod("pod", "c1", "c2"), *bodies))
    assert "n1" == node_of(decided(a_pod("pod", "c1"), *bodies))


def test_B52_pods_on_their_way_count() -> None:
    plans = AssumedBindings()
    plans.add(AssumedBinding(Key(NS, "first"), "uid-first", "n1"))
    bodies = [
        a_pod("first", "c1"),
        a_pod("pod", "c3"),
        *bound("c1"),
        *bound("c3"),
        a_ready_node(),
        a_csi_node("n1", count=1),
    ]
    assert why.LIMIT in rejection(decided(*bodies, plans=plans))


def test_B53_a_volume_in_use_on_the_node_is_free() -> None:
    assert "n1" == node_of(decided(a_pod("pod", "c1"), a_csi_node("n1", count=2), *IN_USE))


@each_row("csi_node", [[], [a_csi_node("n1")], [a_csi_node("n1", count=0, drivers={"other": "n1"})]])
def test_B54_unlimited(csi_node: list[Json]) -> None:
    assert "n1" == node_of(decided(a_pod("pod", "c3"), *csi_node, *IN_USE))


def test_B55_an_attachment_without_a_pod_counts() -> None:
    bodies = [
        a_ready_node(),
        a_csi_node("n1", count=1),
        *bound("left"),
        *bound("wanted"),
        a_va("va", "pv-left", "n1", status={"attached": True}),
    ]
    assert why.LIMIT in rejection(decided(a_pod("pod", "wanted"), *bodies))
    assert "n1" == node_of(decided(a_pod("pod", "left"), *bodies)), "the same volume is not counted twice"


GCE = "pd.csi.storage.gke.io"


def disk(name: str = "disk", *, read_only: bool = True) -> Json:
    return {"name": name, "gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def test_a_disk_that_a_pod_names_itself_counts() -> None:
    """27 A1; as with kube-scheduler. One disk of two pods counts once."""
    bodies = [
        a_ready_node(),
        a_csi_node("n1", {GCE: "n1"}, count=1),
        a_pod("first", volumes=[disk()], node="n1", phase="Running"),
    ]
    assert why.LIMIT in rejection(decided(a_pod("pod", volumes=[disk("other")]), *bodies))
    assert "n1" == node_of(decided(a_pod("pod", volumes=[disk()]), *bodies))
    assert why.LIMIT in rejection(decided(a_pod("pod", volumes=[disk(), disk("other")]), a_ready_node(), bodies[1]))


EBS = {"name": "ebs", "awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}}
ISCSI = {"targetPortal": "1.2.3.4:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 0}
RBD = {"monitors": ["a", "b"], "image": "i"}


@each_row(
    ("there", "wanted", "fits"),
    [
        pytest.param(disk(), disk(), True, id="gce-both-read"),
        pytest.param(disk(), disk(read_only=False), False, id="gce-one-writes"),
        pytest.param(disk(read_only=False), disk("other", read_only=False), True, id="gce-others"),
        pytest.param(EBS, EBS, False, id="ebs-never"),
        pytest.param({"name": "i", "iscsi": ISCSI}, {"name": "i", "iscsi": ISCSI}, False, id="iscsi"),
        pytest.param(
            {"name": "i", "iscsi": {**ISCSI, "readOnly": True}},
            {"name": "j", "iscsi": {**ISCSI, "readOnly": True}},
            True,
        ),
        pytest.param(
            {"name": "r", "rbd": RBD}, {"name": "r", "rbd": {**RBD, "monitors": ["b"]}}, False, id="rbd-one-monitor"
        ),
        pytest.param(
            {"name": "r", "rbd": RBD}, {"name": "r", "rbd": {**RBD, "monitors": ["c"]}}, True, id="rbd-other-cluster"
        ),
        pytest.param({"name": "r", "rbd": RBD}, {"name": "r", "rbd": {**RBD, "pool": "p"}}, True, id="rbd-other-pool"),
        pytest.param(disk(read_only=False), EBS, True, id="other-kind"),
    ],
)
def test_a_disk_that_another_pod_of_the_node_names_is_shared_by_readers_alone(
    there: Json, wanted: Json, fits: bool
) -> None:
    """27 A1; as with kube-scheduler, for these four kinds."""
    bodies = [a_ready_node(), a_pod("first", volumes=[there], node="n1", phase="Running")]
    decision = decided(a_pod("pod", volumes=[wanted]), *bodies)
    if fits:
        assert "n1" == node_of(decision)
    else:
        assert f"0/1 nodes are available: 1 {why.DISK}." == rejection(decision)
        assert wake_topics.LIMITS in decision.waits_for
        assert "n2" == node_of(decided(a_pod("pod", volumes=[wanted]), *bodies, a_ready_node("n2")))


def test_its_attachment_counts_as_long_as_it_is_there() -> None:
    """27 A1; upstream does not count it."""
    csi = {"driver": GCE, "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"}
    left = a_va(
        "va", None, "n1", attacher=GCE, inline={"accessModes": ["ReadWriteOnce"], "csi": csi}, status={"attached": True}
    )
    bodies = [a_ready_node(), a_csi_node("n1", {GCE: "n1"}, count=1), left]
    assert why.LIMIT in rejection(decided(a_pod("pod", volumes=[disk("other")]), *bodies))
    assert "n1" == node_of(decided(a_pod("pod", volumes=[disk()]), *bodies))


def test_B56_a_claim_for_one_pod_alone() -> None:
    claim = a_bound_claim(modes=("ReadWriteOncePod",))
    bodies = [
        *GOES,
        a_ready_node("n1"),
        a_ready_node("n2"),
        claim,
        a_volume(claim=claim, phase="Bound", modes=("ReadWriteOncePod",)),
    ]
    user = a_pod("first", "claim", node="n1")
    assert f"0/2 nodes are available: 2 {why.RWOP}." == rejection(decided(*bodies, user))
    assert "n1" == node_of(decided(*bodies, {**user, "status": {"phase": "Succeeded"}}))


# -- a pod with a plan

SELECTED = {SELECTED_NODE: "n1"}


def going_on(*bodies: Json, static: bool = False, now: float = 0.0, written: bool = True) -> Decision[Action]:
    plans = AssumedBindings()
    volumes = {"static": (("pv", CLAIM),)} if static else {"provision": (CLAIM,)}
    plans.add(AssumedBinding(POD, "uid-pod", "n1", deadline=600.0, written=written, **volumes))
    return decided(*GOES, LATER, *bodies, plans=plans, now=now)


def test_B43_waits_for_the_volume_then_binds() -> None:
    waits = going_on(a_ready_node(), a_claim(selected="n1"))
    assert isinstance(waits.because, WaitsForVolumes)
    assert (("claim",), 600.0, ()) == (waits.because.claims, waits.after_s, waits.actions)
    assert {"claim/default/claim", "node/n1"} <= waits.waits_for
    claim = a_bound_claim(annotations={**BOUND_CLAIM, **SELECTED})
    assert (BindPod(),) == going_on(a_ready_node(), claim, a_volume(claim=claim, phase="Bound")).actions
    assert () == going_on(a_ready_node(), claim, a_volume(claim=claim, phase="Bound"), written=False).actions


FAILED: dict[str, tuple[list[Json], bool, str]] = {
    "B44-taken-back": ([a_ready_node(), a_claim(annotations={"x": "y"})], False, 'provisioning failed for PVC "claim"'),
    "B44-another-node": ([a_ready_node(), a_claim(selected="n2")], False, 'provisioning failed for PVC "claim"'),
    "B44-no-annotations": ([a_ready_node(), a_claim()], False, 'selectedNode annotation reset for PVC "claim"'),
    "B45-elsewhere": (
        [
            a_ready_node(zone="a"),
            a_bound_claim(annotations={**BOUND_CLAIM, **SELECTED}),
            a_volume(claim="claim", affinity={"zone": "b"}),
        ],
        False,
        'pv "pv" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
    ),
    "B45-static-elsewhere": (
        [a_ready_node(zone="a"), a_claim(), a_volume(claim=a_claim(uid="u"), affinity={"zone": "b"})],
        True,
        'pv "pv" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
    ),
    "static-anothers": (
        [a_ready_node(), a_claim(uid="u"), a_volume(claim=a_claim(uid="before"))],
        True,
        'ClaimRef got reset for pv "pv"',
    ),
    "static-claim-chose-another": (
        [a_ready_node(), a_bound_claim(volume="pv2"), a_volume(claim=a_bound_claim())],
        True,
        'PVC "claim" is bound to pv "pv2" instead of pv "pv"',
    ),
    "static-let-go": ([a_ready_node(), a_claim(), a_volume()], True, 'ClaimRef got reset for pv "pv"'),
    "static-gone": ([a_ready_node(), a_claim()], True, 'failed to check binding: persistentvolumes "pv" not found'),
    "static-claim-gone": (
        [a_ready_node(), a_volume()],
        True,
        'failed to check binding: persistentvolumeclaims "default/claim" not found',
    ),
    "claim-gone": (
        [a_ready_node()],
        False,
        'failed to check provisioning pvc: persistentvolumeclaims "default/claim" not found',
    ),
    "node-gone": ([a_claim(selected="n1")], False, 'failed to get node "n1": node "n1" not found'),
}


@each_row(("bodies", "static", "text"), FAILED.values(), ids=FAILED)
def test_a_plan_that_fails(bodies: list[Json], static: bool, text: str) -> None:
    decision = going_on(*bodies, static=static)
    assert isinstance(decision.because, BindingFailed)
    assert (f'running PreBind plugin "VolumeBinding": binding volumes: {text}', True) == (
        str(decision.because),
        is_over(decision),
    )


def test_a_plan_ends_when_a_claim_that_was_bound_is_made_anew() -> None:
    plans, other = AssumedBindings(), Key(NS, "other")
    plans.add(
        AssumedBinding(POD, "uid-pod", "n1", provision=(CLAIM,), claims=(CLAIM, other), deadline=600.0, written=True)
    )
    made = a_bound_claim(annotations={**BOUND_CLAIM, **SELECTED})
    bodies = [*GOES, LATER, a_ready_node(), made, a_volume(claim=made, phase="Bound")]
    assert (BindPod(),) == decided(*bodies, *bound("other"), plans=plans).actions
    for anew in ([a_claim("other")], []):
        decision = decided(*bodies, *anew, plans=plans)
        assert is_over(decision)
        assert 'running PreBind plugin "VolumeBinding": binding volumes: PVC "other" is not bound any more' == str(
            decision.because
        )


def test_B57_waiting_has_an_end() -> None:
    decision = going_on(a_ready_node(), a_claim(selected="n1"), now=600.0)
    assert isinstance(decision.because, BindingFailed)
    assert 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded' == str(decision.because)
    assert is_over(decision)


def test_a_plan_ends_with_its_pod() -> None:
    plans = AssumedBindings()
    plans.add(AssumedBinding(POD, "uid-another", "n1", provision=(CLAIM,)))
    assert is_over(decided(*GOES, a_ready_node(), plans=plans))
    assert is_over(decided(plans=plans))


def test_a_decision_is_kept_with_its_plan_as_it_was() -> None:
    decision = decided(*GOES, a_ready_node(), a_claim(), LATER)
    plan, kept = plan_of(decision), decision.kept()
    assert plan is not None
    plan.written = plan.bound = True
    assert plan_of(kept) == msgspec.structs.replace(plan, written=False, bound=False)


def test_two_pods_of_one_claim_plan_the_same() -> None:
    plans = AssumedBindings()
    plans.add(AssumedBinding(Key(NS, "first"), "u", "n1", static=(("pv", CLAIM),)))
    bodies = [
        *GOES,
        a_ready_node(),
        a_claim(),
        a_claim("other"),
        a_class(wffc=True, provisioner=NO_PROVISIONER),
        a_volume(),
    ]
    plan = plan_of(decided(*bodies, plans=plans))
    assert plan is not None
    assert (("pv", CLAIM),) == plan.static
    assert why.CONFLICT in rejection(decided(*bodies, a_pod("third", "other"), plans=plans, key=Key(NS, "third")))
    plans.add(plan)
    plans.drop(Key(NS, "first"))
    plans.drop(POD)
    assert (None, "", ()) == (plans.claim_of("pv"), plans.volume_of(CLAIM), plans.on_node("n1"))


def test_B42_a_volume_reserved_for_the_claim_elsewhere_leaves_no_other_choice() -> None:
    bodies = [*GOES, ABC[0], a_claim(), a_class(wffc=True, provisioner=NO_PROVISIONER), a_volume("free")]
    assert "na" == node_of(decided(*bodies))
    assert why.CONFLICT in rejection(decided(*bodies, a_volume(claim="claim", affinity={"zone": "b"})))
