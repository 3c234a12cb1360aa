"""`mooring doctor` on nodes, on releases of sidecars, and on pods that their namespace refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.api.storage import CSI_NODES
from mooring.inspect.doctor.finding import Severity
from mooring.inspect.doctor.inventory import Inventory
from tests.support.rows import each_row
from tests.support.sick_cluster import GO, an_inventory, csi_driver, deployment, judged, sidecar, the_only

Json = dict[str, Any]
PATH = "--kubelet-registration-path=/var/lib/kubelet/plugins/csi.test/csi.sock"


@pytest.fixture
def seen(tmp_path: Path) -> Any:
    """Objects as the doctor sees them in a cluster."""

    def read(*objects: Json) -> Inventory:
        return an_inventory(yaml.safe_dump_all(objects), tmp_path, of_files=False)

    return read


def plugin(**spec: Any) -> Json:
    found = deployment(sidecar("csi-node-driver-registrar", PATH), name="node", kind="DaemonSet")
    found["spec"]["template"]["spec"] |= spec
    return found


def node(name: str, *taints: Json, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints)},
    }


def registered(name: str, node_id: str = "", driver: str = "csi.test") -> Json:
    spec = {"drivers": [{"name": driver, "nodeID": node_id or name}] if driver else []}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": spec}


DB = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


def test_a_driver_that_is_registered_everywhere_is_well(seen: Any) -> None:
    assert [] == judged(seen(csi_driver(), plugin(), node("a"), registered("a"), node("b"), registered("b")), "nodes")


def test_a_driver_that_is_registered_nowhere_is_an_error(seen: Any) -> None:
    one = the_only(judged(seen(csi_driver(), plugin(), node("a"), registered("a", driver="")), "nodes"))
    assert (Severity.ERROR, "CSIDriver csi.test") == (one.severity, one.about)
    assert "it is registered on no node, though the DaemonSet storage/node is there" in one.wrong


def test_a_driver_whose_name_is_a_part_of_anothers_has_no_plugin(seen: Any) -> None:
    assert [] == judged(
        seen(*map(csi_driver, ("csi", "test", "csi.test.io")), plugin(), node("a"), registered("a")), "nodes"
    )


def test_a_taint_that_the_plugin_does_not_tolerate_is_named_with_its_toleration(seen: Any) -> None:
    nodes = [node("a"), registered("a"), node("b", DB), registered("b", driver="")]
    one = the_only(judged(seen(csi_driver(), plugin(), *nodes), "nodes"))
    assert Severity.WARNING is one.severity
    assert "does not tolerate the taint dedicated of the node b" in one.wrong
    assert [DB] == yaml.safe_load(one.change.line)
    told = judged(seen(csi_driver(), plugin(tolerations=yaml.safe_load(one.change.line)), *nodes), "nodes")
    assert "not on the node b: the pod of the DaemonSet" in the_only(told).wrong, "the taint is no reason any more"


def test_control_planes_may_be_left_out(seen: Any) -> None:
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    one = the_only(judged(seen(csi_driver(), plugin(), node("a"), registered("a"), node("b", taint)), "nodes"))
    assert Severity.NOTE is one.severity
    assert [{**taint, "operator": "Exists"}] == yaml.safe_load(one.change.line)


@each_row("spec", [{"nodeSelector": {"disk": "yes"}}, {"affinity": {"nodeAffinity": {"x": 1}}}], fresh=[seen])
def test_nodes_that_the_plugin_does_not_choose_are_meant_to_lack_it(seen: Any, spec: Json) -> None:
    assert [] == judged(seen(csi_driver(), plugin(**spec), node("a"), registered("a"), node("b")), "nodes")


def test_many_nodes_are_told_in_one_finding(seen: Any) -> None:
    found = judged(
        seen(csi_driver(), plugin(), node("a"), registered("a"), *(node(f"n{i}") for i in range(9))), "nodes"
    )
    assert "the nodes n0, n1, n2, n3, n4 and 4 more" in the_only(found).wrong


def test_two_nodes_under_one_id_are_an_error_for_a_driver_that_attaches(seen: Any) -> None:
    both = [registered("a", "same"), registered("b", "same")]
    one = the_only(judged(seen(csi_driver(), *both), "nodes"))
    assert (Severity.ERROR, 'the nodes a, b are registered under one id, "same"') == (one.severity, one.wrong)
    apart = {**csi_driver(), "spec": {"attachRequired": False}}
    assert Severity.NOTE is the_only(judged(seen(apart, *both), "nodes")).severity


def test_nothing_is_said_of_nodes_that_could_not_be_seen(seen: Any) -> None:
    inventory = seen(csi_driver(), plugin(), node("a"))
    assert judged(inventory, "nodes")
    inventory.hide(CSI_NODES, "forbidden")
    assert [] == judged(inventory, "nodes")


# -- releases


def at(program: str, version: str, name: str = "csi") -> Json:
    return deployment(sidecar(program, image=f"{GO}/{program}:{version}"), name=name)


def test_two_versions_of_a_sidecar_under_one_account_are_told(seen: Any) -> None:
    one = the_only(judged(seen(at("csi-attacher", "v4.8.0"), at("csi-attacher", "v4.9.0", "b")), "versions"))
    assert Severity.NOTE is one.severity, "they may serve two drivers"
    assert one.follows.startswith("if both serve one driver, ")
    assert "csi-attacher is v4.9.0 here and v4.8.0 in the Deployment storage/csi" in one.wrong
    assert f"image: {GO}/csi-attacher:v4.8.0" == one.change.line
    other = at("csi-attacher", "v4.9.0", "b")
    other["spec"]["template"]["spec"]["serviceAccountName"] = "another-driver"
    assert [] == judged(seen(at("csi-attacher", "v4.8.0"), other), "versions")


@each_row(
    ("program", "flags"),
    [("csi-node-driver-registrar", ()), ("livenessprobe", ()), ("csi-provisioner", ("--node-deployment",))],
    fresh=[seen],
)
def test_sidecars_that_treat_no_common_object_have_versions_of_their_own(
    seen: Any, program: str, flags: tuple[str, ...]
) -> None:
    pods = [at(program, "v2.9.0"), at(program, "v2.8.0", "b")]
    for one in pods:
        one["spec"]["template"]["spec"]["containers"][0]["args"] += flags
    assert [] == judged(seen(*pods), "versions")


def test_two_versions_of_the_snapshot_controller_treat_every_snapshot_in_two_ways(seen: Any) -> None:
    both = judged(seen(at("snapshot-controller", "v8.2.0"), at("snapshot-controller", "v8.3.0", "b")), "versions")
    assert (Severity.WARNING, True) == (the_only(both).severity, both[0].follows.startswith("the same object"))


def test_the_halves_of_snapshots_belong_to_one_release(seen: Any) -> None:
    halves = [at("snapshot-controller", "v8.2.0", "a"), at("csi-snapshotter", "v6.3.0", "b")]
    one = the_only(judged(seen(*halves), "versions"))
    assert "it is v6.3.0, and the snapshot-controller is v8.2.0" in one.wrong
    assert Severity.NOTE is one.severity, "only groups need the same release"
    halves[0]["spec"]["template"]["spec"]["containers"][0]["args"].append("--feature-gates=CSIVolumeGroupSnapshot=true")
    assert Severity.WARNING is the_only(judged(seen(*halves), "versions")).severity
    assert [] == judged(seen(halves[0], at("csi-snapshotter", "v8.3.0", "b")), "versions")


def test_a_snapshotter_that_speaks_an_old_version_is_an_error(seen: Any) -> None:
    one = the_only(judged(seen(at("csi-snapshotter", "v3.0.3")), "versions"))
    assert (Severity.ERROR, f"image: {GO}/csi-snapshotter:VERSION") == (one.severity, one.change.line)
    assert [] == judged(seen(at("csi-snapshotter", "latest"), at("snapshot-controller", "sha-1", "b")), "versions")


# -- pod security


def guarded(level: str) -> Json:
    labels = {"pod-security.kubernetes.io/enforce": level}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "storage", "labels": labels}}


PRIVILEGED = {"name": "driver", "image": "x", "securityContext": {"privileged": True}}
HOST = {"volumes": [{"name": "k", "hostPath": {"path": "/var/lib/kubelet"}}], "hostNetwork": True, "hostPID": True}


@each_row("level", ["baseline", "restricted"], fresh=[seen])
def test_a_node_plugin_that_its_namespace_refuses_is_an_error(seen: Any, level: str) -> None:
    pods = deployment(sidecar("csi-node-driver-registrar", PATH), PRIVILEGED, name="node", kind="DaemonSet")
    pods["spec"]["template"]["spec"] |= HOST
    one = the_only(judged(seen(guarded(level), pods), "pod-security"))
    assert (
        "the privileged container driver, hostPath volumes, hostNetwork, hostPID, and its namespace storage "
        "enforces the "
    ) in one.wrong
    assert (
        "kubectl label namespace storage pod-security.kubernetes.io/enforce=privileged --overwrite" == one.change.line
    )
    assert [] == judged(seen(guarded("privileged"), pods), "pod-security")


def test_a_pod_without_privilege_holds_in_any_namespace(seen: Any) -> None:
    assert [] == judged(seen(guarded("restricted"), plugin()), "pod-security")


def test_pods_of_others_are_nobodys_business(seen: Any) -> None:
    assert [] == judged(seen(guarded("restricted"), deployment(PRIVILEGED)), "pod-security")
