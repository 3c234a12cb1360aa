"""Whether a node becomes the owner of a claim with immediate binding: rows of (view, decision)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from mooring.api.core import SECRETS, Node, PersistentVolumeClaim
from mooring.api.storage import CSINode, StorageClass
from mooring.controllers.provisioner import names
from mooring.controllers.provisioner.claims.node_topology import NodePlaces
from mooring.controllers.provisioner.claims.record import ClaimRecords
from mooring.controllers.provisioner.claims.view import CLAIM_INDEXES, Looked, View, Wanted
from mooring.controllers.provisioner.driver_capabilities import DriverFacts, Rules
from mooring.controllers.provisioner.local_node import reasons as why
from mooring.controllers.provisioner.local_node.decide import AskForRoom, BecomeOwner, Decision, LookUp, decide_ownership
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.store import Store

GiB = 1 << 30
NODE, HOST = "node1", "csi.test/host"
OURS = {names.STORAGE_PROVISIONER: "csi.test"}
SECRET = {"csi.storage.k8s.io/provisioner-secret-name": "s", "csi.storage.k8s.io/provisioner-secret-namespace": "ns"}
ELSEWHERE = [{"matchLabelExpressions": [{"key": HOST, "values": ["elsewhere"]}]}]
HERE = [{"matchLabelExpressions": [{"key": HOST, "values": [NODE]}]}]


def a_claim(annotations: Mapping[str, str] | None = None, **spec: Any) -> PersistentVolumeClaim:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "sc", **spec}
    metadata = {"name": "c", "namespace": "ns", "uid": "uid", "resourceVersion": "1", "annotations": {**OURS, **(annotations or {})}}
    return msgspec.convert({"metadata": metadata, "spec": wanted, "status": {"phase": "Pending"}}, PersistentVolumeClaim)


def decided(
    claim: PersistentVolumeClaim | None,
    *,
    looked: Looked | None = None,
    has_room: bool | None = None,
    with_class: bool = True,
    topology: bool = True,
    **of_class: Any,
) -> Decision:
    claims: Store[PersistentVolumeClaim] = Store(CLAIM_INDEXES)
    classes: Store[StorageClass] = Store()
    csi_nodes: Store[CSINode] = Store()
    nodes: Store[Node] = Store()
    if claim is not None:
        claims.apply(claim)
    if with_class:
        body = {"metadata": {"name": "sc"}, "provisioner": "csi.test", "volumeBindingMode": "Immediate", "parameters": {}, **of_class}
        classes.apply(msgspec.convert(body, StorageClass))
    drivers = [{"name": "csi.test", "nodeID": "id", "topologyKeys": [HOST]}]
    csi_nodes.apply(msgspec.convert({"metadata": {"name": NODE}, "spec": {"drivers": drivers}}, CSINode))

    nodes.apply(msgspec.convert({"metadata": {"name": NODE, "labels": {HOST: NODE}}}, Node))
    view = View(
        driver=DriverFacts("csi.test", topology=topology),
        rules=Rules(strict_topology=True),
        claims=claims,
        volumes=Store(),
        classes=classes,
        csi_nodes=csi_nodes,
        nodes=nodes,
        grants=Store(),
        places=NodePlaces(csi_nodes, nodes),
        intents={},
        records=ClaimRecords(),
        node_name=NODE,
    )
    return decide_ownership(view, "uid", looked or Looked(), has_room)


@pytest.mark.parametrize(
    ("claim", "of_class", "because"),
    [
        (None, {}, why.NotFree("it does not exist")),
        (a_claim(volumeName="pv"), {}, why.NotFree('it has the volume "pv"')),
        (a_claim({names.STORAGE_PROVISIONER: "other"}), {}, why.NotFree("another provisioner is asked, or nobody as yet")),
        (a_claim(), {"with_class": False}, why.NotFree("its class is not there, or of another driver")),
        (a_claim(), {"provisioner": "other"}, why.NotFree("its class is not there, or of another driver")),
        (a_claim(), {"volumeBindingMode": "WaitForFirstConsumer"}, why.NotFree("the scheduler chooses the node")),
        (a_claim({names.SELECTED_NODE: "other"}), {}, why.Taken("other")),
        (a_claim({names.SELECTED_NODE: NODE}), {}, why.Taken(NODE)),
    ],
)
def test_P89_what_is_not_free_is_let_alone(claim: PersistentVolumeClaim | None, of_class: dict[str, Any], because: object):
    assert Decision(because) == decided(claim, **of_class)  # type: ignore[arg-type]


def test_P89_a_class_that_does_not_allow_the_node():
    decision = decided(a_claim(), allowedTopologies=ELSEWHERE)
    assert (None, False) == (decision.action, decision.lacks_room)
    assert isinstance(decision.because, why.NotAllowedHere)
    assert isinstance(decided(a_claim(), allowedTopologies=HERE).action, AskForRoom)


def test_P89_the_driver_is_asked_first():
    decision = decided(a_claim(), parameters={"csi.storage.k8s.io/fstype": "xfs", "a": "b"})
    assert why.Asking(GiB) == decision.because
    assert isinstance(decision.action, AskForRoom)
    [request] = decision.action.requests
    assert ({HOST: NODE}, {"a": "b"}) == (dict(request.accessible_topology.segments), dict(request.parameters))


def test_P89_without_topology_there_is_one_request_about_anywhere():
    action = decided(a_claim(), topology=False).action
    assert isinstance(action, AskForRoom)
    assert [False] == [request.HasField("accessible_topology") for request in action.requests]


@pytest.mark.parametrize(("capacity", "is_enough"), [(GiB - 1, False), (GiB, True), (GiB + 1, True)])
def test_P89_room_is_what_the_claim_requests(capacity: int, is_enough: bool):
    assert is_enough == AskForRoom(GiB, ()).is_enough(csi.GetCapacityResponse(available_capacity=capacity))


def test_P89_with_room_it_becomes_the_owner_and_without_it_waits_for_some():
    claim = a_claim()
    assert Decision(why.BecomesOwner(NODE), BecomeOwner(claim)) == decided(claim, has_room=True)
    assert Decision(why.NoRoom(GiB), lacks_room=True) == decided(claim, has_room=False)
    assert Decision(why.Taken("other")) == decided(a_claim({names.SELECTED_NODE: "other"}), has_room=True), "meanwhile"


def test_P89_what_can_not_work_gets_an_owner_so_that_the_user_is_told():
    claim = a_claim(selector={"matchLabels": {"a": "b"}})
    assert Decision(why.BecomesOwner(NODE), BecomeOwner(claim)) == decided(claim)
    populated = a_claim(dataSourceRef={"apiGroup": "x.io", "kind": "Backup", "name": "b"})
    assert Decision(why.BecomesOwner(NODE), BecomeOwner(populated)) == decided(populated)


def test_P89_a_secret_that_the_class_names_is_looked_up_first():
    wanted = Wanted(SECRETS, "s", "ns")
    assert Decision(why.LookingUp("Secret s"), LookUp(wanted)) == decided(a_claim(), parameters=SECRET)
    assert isinstance(decided(a_claim(), parameters=SECRET, looked=Looked({wanted: {"user": "me"}})).action, AskForRoom)
