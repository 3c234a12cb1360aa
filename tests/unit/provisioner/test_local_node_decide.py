"""Whether a node becomes the owner of a claim with immediate binding: rows of (view, decision)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.api.core import SECRETS, Node, PersistentVolumeClaim
from mooring.api.storage import CSINode
from mooring.control.decision import Decision
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.store import Store
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims.view import Looked, View, Wanted
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords
from mooring.sidecars.provisioner.local_node import reasons as why
from mooring.sidecars.provisioner.local_node.decide import (
    Action,
    AskForRoom,
    AwaitRoom,
    BecomeOwner,
    LookUp,
    decide_ownership,
)
from mooring.sidecars.provisioner.model.cached import CLAIM_INDEXES
from mooring.sidecars.provisioner.model.topology import ClusterTopology
from mooring.sidecars.provisioner.options import Rules
from tests.support.builders import a_claim, a_class, a_csi_node, a_node, typed
from tests.support.rows import each_row
from tests.support.stores import store_of

GiB = 1 << 30
NODE, HOST = "node1", "csi.test/host"
OURS = {names.STORAGE_PROVISIONER: "csi.test"}
SECRET = {"csi.storage.k8s.io/provisioner-secret-name": "s", "csi.storage.k8s.io/provisioner-secret-namespace": "ns"}
ELSEWHERE = [{"matchLabelExpressions": [{"key": HOST, "values": ["elsewhere"]}]}]
HERE = [{"matchLabelExpressions": [{"key": HOST, "values": [NODE]}]}]


def asking(annotations: Mapping[str, str] | None = None, **spec: Any) -> PersistentVolumeClaim:
    metadata = {"namespace": "ns", "uid": "uid", "resourceVersion": "1", "annotations": {**OURS, **(annotations or {})}}
    return typed(a_claim("c", **metadata, **spec))


def decided(
    claim: PersistentVolumeClaim | None,
    *,
    looked: Looked | None = None,
    has_room: bool | None = None,
    with_class: bool = True,
    topology: bool = True,
    **of_class: Any,
) -> Decision[Action]:
    classes = [typed(a_class(**{"parameters": {}, "volumeBindingMode": "Immediate", **of_class}))] if with_class else []
    csi_nodes: Store[CSINode] = store_of(typed(a_csi_node(NODE, {"csi.test": "id"}, keys=[HOST])))
    nodes: Store[Node] = store_of(typed(a_node(NODE, labels={HOST: NODE})))
    view = View(
        driver=DriverCapabilities("csi.test", topology=topology),
        rules=Rules(strict_topology=True),
        claims=store_of(*([] if claim is None else [claim]), indexes=CLAIM_INDEXES),
        volumes=Store(),
        classes=store_of(*classes),
        csi_nodes=csi_nodes,
        nodes=nodes,
        grants=Store(),
        places=ClusterTopology(csi_nodes, nodes),
        intents={},
        records=ClaimRecords(),
        node_name=NODE,
    )
    return decide_ownership(view, "uid", looked or Looked(), has_room)


def asks(decision: Decision[Action]) -> AskForRoom:
    [action] = decision.actions
    assert isinstance(action, AskForRoom)
    assert decision.again
    return action


@each_row(
    ("claim", "of_class", "because"),
    [
        (None, {}, why.NotFree("it does not exist")),
        (asking(volumeName="pv"), {}, why.NotFree('it has the volume "pv"')),
        (
            asking({names.STORAGE_PROVISIONER: "other"}),
            {},
            why.NotFree("another provisioner is asked, or nobody as yet"),
        ),
        (asking(), {"with_class": False}, why.NotFree("its class is not there, or of another driver")),
        (asking(), {"provisioner": "other"}, why.NotFree("its class is not there, or of another driver")),
        (asking(), {"volumeBindingMode": "WaitForFirstConsumer"}, why.NotFree("the scheduler chooses the node")),
        (asking({names.SELECTED_NODE: "other"}), {}, why.Taken("other")),
        (asking({names.SELECTED_NODE: NODE}), {}, why.Taken(NODE)),
    ],
)
def test_P89_what_is_not_free_is_let_alone(
    claim: PersistentVolumeClaim | None, of_class: dict[str, Any], because: object
):
    assert Decision(because) == decided(claim, **of_class)  # type: ignore[arg-type]


def test_P89_a_class_that_does_not_allow_the_node():
    decision = decided(asking(), allowedTopologies=ELSEWHERE)
    assert () == decision.actions
    assert isinstance(decision.because, why.NotAllowedHere)
    assert asks(decided(asking(), allowedTopologies=HERE))


def test_P89_the_driver_is_asked_first():
    decision = decided(asking(), parameters={"csi.storage.k8s.io/fstype": "xfs", "a": "b"})
    assert why.Asking(GiB) == decision.because
    [request] = asks(decision).requests
    assert ({HOST: NODE}, {"a": "b"}) == (dict(request.accessible_topology.segments), dict(request.parameters))


def test_P89_without_topology_there_is_one_request_about_anywhere():
    requests = asks(decided(asking(), topology=False)).requests
    assert [False] == [request.HasField("accessible_topology") for request in requests]


@each_row(("capacity", "is_enough"), [(GiB - 1, False), (GiB, True), (GiB + 1, True)])
def test_P89_room_is_what_the_claim_requests(capacity: int, is_enough: bool):
    assert is_enough == AskForRoom(GiB, ()).is_enough(csi.GetCapacityResponse(available_capacity=capacity))


def test_P89_with_room_it_becomes_the_owner_and_without_it_waits_for_some():
    claim = asking()
    assert Decision(why.BecomesOwner(NODE), (BecomeOwner(claim),)) == decided(claim, has_room=True)
    assert Decision(why.NoRoom(GiB), (AwaitRoom(),), done="no room") == decided(claim, has_room=False)
    assert Decision(why.Taken("other")) == decided(asking({names.SELECTED_NODE: "other"}), has_room=True), "meanwhile"


def test_P89_what_can_not_work_gets_an_owner_so_that_the_user_is_told():
    claim = asking(selector={"matchLabels": {"a": "b"}})
    assert Decision(why.BecomesOwner(NODE), (BecomeOwner(claim),)) == decided(claim)
    populated = asking(dataSourceRef={"apiGroup": "x.io", "kind": "Backup", "name": "b"})
    assert Decision(why.BecomesOwner(NODE), (BecomeOwner(populated),)) == decided(populated)


def test_P89_a_secret_that_the_class_names_is_looked_up_first():
    wanted = Wanted(SECRETS, "s", "ns")
    assert Decision(why.LookingUp("Secret s"), (LookUp(wanted),), again=True) == decided(asking(), parameters=SECRET)
    assert asks(decided(asking(), parameters=SECRET, looked=Looked({wanted: {"user": "me"}})))
