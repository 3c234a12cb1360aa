"""`mooring doctor` (issue 29): each check on a set-up that is well but for one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.inspect.doctor.finding import Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import DEFINITIONS
from mooring.inspect.doctor.sidecars import sidecars_in
from tests.support.rows import each_row
from tests.support.sick_cluster import (
    GO,
    SECRET_KEYS,
    an_inventory,
    csi_driver,
    definitions,
    deployment,
    healthy,
    judged,
    sidecar,
    storage_class,
    the_only,
    wrong,
)

Json = dict[str, Any]


@pytest.fixture
def seen(tmp_path: Path) -> Any:
    """Objects as the doctor sees them in a cluster."""

    def read(*objects: Json) -> Inventory:
        return an_inventory(yaml.safe_dump_all(objects), tmp_path, of_files=False)

    return read


def test_a_healthy_cluster_of_go_sidecars_has_no_finding(seen: Any) -> None:
    assert [] == wrong(seen(*healthy()))


# -- which container is what


@each_row(
    ("container", "programs", "is_ours"),
    [
        ({"image": f"{GO}/csi-attacher:v4.8.0"}, ["csi-attacher"], False),
        ({"image": "mirror:5000/rancher/mirrored-sig-storage-csi-resizer@sha256:0"}, ["csi-resizer"], False),
        ({"image": "mooring-csi-attacher:0.1.0"}, ["csi-attacher"], True),
        ({"image": "x", "command": ["/bin/node-driver-registrar"]}, ["csi-node-driver-registrar"], False),
        (
            {"image": "mooring:1", "args": ["controller", "--enable=attacher,resizer"]},
            ["csi-attacher", "csi-resizer"],
            True,
        ),
        ({"image": "x", "command": ["mooring", "provisioner"]}, ["csi-provisioner"], True),
        ({"image": "postgres:17", "args": ["--attacher"]}, [], False),
    ],
    fresh=[seen],
)
def test_a_sidecar_is_known_by_its_image_or_command(
    seen: Any, container: Json, programs: list[str], is_ours: bool
) -> None:
    found = sidecars_in(seen(deployment({"name": "c", **container})))
    assert programs == [one.program for one in found]
    assert all(one.is_ours is is_ours for one in found)


# -- snapshots


def test_missing_kinds_of_snapshots_are_an_error_once(seen: Any) -> None:
    objects = [one for one in healthy() if one["kind"] != "CustomResourceDefinition"]
    found = judged(seen(*objects, *definitions("v1")[1:]), "definitions")
    assert ["csi-snapshotter", "snapshot-controller"] == sorted(one.about.rpartition(" ")[2] for one in found)
    assert all("CustomResourceDefinition volumesnapshots.snapshot.storage.k8s.io" in one.wrong for one in found)
    assert all(one.severity is Severity.ERROR and one.change.line.startswith("kubectl apply -k ") for one in found)


def test_kinds_of_snapshots_in_an_old_version_are_an_error(seen: Any) -> None:
    objects = [one for one in healthy() if one["kind"] != "CustomResourceDefinition"]
    found = judged(seen(*objects, *definitions("v1beta1")), "definitions")
    assert any("it serves v1beta1, and csi-snapshotter needs v1" == one.wrong for one in found)


def test_kinds_of_groups_are_wanted_where_the_gate_is_on(seen: Any) -> None:
    gated = sidecar("csi-snapshotter", "--feature-gates=CSIVolumeGroupSnapshot=true")
    both = deployment(gated, sidecar("snapshot-controller"))
    found = judged(seen(both, *definitions("v1")), "definitions")
    assert 2 == sum("volumegroupsnapshots.groupsnapshot.storage.k8s.io" in one.wrong for one in found)
    groups = definitions("v1", group="groupsnapshot.storage.k8s.io", prefix="volumegroupsnapshot")
    assert [] == judged(seen(both, *definitions("v1"), *groups), "definitions")


def test_definitions_that_could_not_be_seen_are_not_missing(seen: Any) -> None:
    inventory = seen(deployment(sidecar("csi-snapshotter")))
    inventory.hide(DEFINITIONS, "forbidden")
    assert [] == judged(inventory, "definitions")


def a_lease(name: str, renewed: str) -> Json:
    spec = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": renewed}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "storage"},
        "spec": spec,
    }


FRESH, STALE = "2026-05-28T20:26:35.000000Z", "2026-05-28T20:20:00.000000Z"


@each_row(
    ("program", "missing"),
    [("csi-snapshotter", "snapshot-controller"), ("snapshot-controller", "csi-snapshotter")],
    fresh=[seen],
)
def test_one_half_of_snapshots_without_the_other_is_told(seen: Any, program: str, missing: str) -> None:
    one = the_only(judged(seen(deployment(sidecar(program)), *definitions("v1")), "snapshot-parts"))
    assert f"the cluster has a {program} and no {missing}" == one.wrong


def test_a_snapshot_controller_out_of_sight_is_known_by_its_lease(seen: Any) -> None:
    lease = a_lease("snapshot-controller-leader", FRESH)
    assert [] == judged(seen(deployment(sidecar("csi-snapshotter")), lease), "snapshot-parts")


def test_two_snapshot_controllers_are_told(seen: Any) -> None:
    both = [
        deployment(sidecar("snapshot-controller"), sidecar("csi-snapshotter")),
        deployment(sidecar("snapshot-controller"), name="b"),
    ]
    assert "several snapshot-controllers" in the_only(judged(seen(*both), "snapshot-parts")).wrong


# -- classes


def test_a_class_that_no_driver_serves_is_an_error(seen: Any) -> None:
    one = the_only(judged(seen(csi_driver(), storage_class("slow", "csi.tset")), "classes"))
    assert (Severity.ERROR, "StorageClass slow") == (one.severity, one.about)
    assert 'the driver "csi.tset" has no CSIDriver' in one.wrong
    assert "s/^provisioner: .*/provisioner: csi.test/" in one.change.line


@each_row("provisioner", ["csi.test", "kubernetes.io/no-provisioner", "nfs.example/old", "leased.test"], fresh=[seen])
def test_a_class_with_a_driver_or_of_kubernetes_itself_is_well(seen: Any, provisioner: str) -> None:
    """A provisioner that is no CSI driver is known by a pod that names it, or by its Lease."""
    old = {"name": "p", "image": "nfs", "env": [{"name": "PROVISIONER_NAME", "value": "nfs.example/old"}]}
    objects = [csi_driver(), deployment(old), a_lease("leased-test", FRESH), storage_class("c", provisioner)]
    assert [] == judged(seen(*objects), "classes")


SNAPSHOT_CLASS = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "deletionPolicy": "Delete"}
ATTRIBUTES_CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "driverName": "gone"}


def test_classes_of_snapshots_and_attributes_are_judged_alike(seen: Any) -> None:
    snapshots = {**SNAPSHOT_CLASS, "metadata": {"name": "snaps"}, "driver": "gone"}
    found = judged(seen(csi_driver(), snapshots, {**ATTRIBUTES_CLASS, "metadata": {"name": "gold"}}), "classes")
    assert ["VolumeAttributesClass gold", "VolumeSnapshotClass snaps"] == [one.about for one in found]


def test_a_secret_that_a_class_names_and_nobody_has_is_an_error(seen: Any) -> None:
    one = the_only(judged(seen(csi_driver(), storage_class(parameters=SECRET_KEYS)), "secrets"))
    assert "names the secret vault/creds, which does not exist" in one.wrong
    assert one.change.line.startswith("kubectl -n vault create secret generic creds")


def test_a_secret_that_is_there_or_has_a_template_is_well(seen: Any) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "creds", "namespace": "vault"},
        "data": {"k": "c2VjcmV0"},
    }
    templated = {key: value.replace("creds", "${pvc.name}") for key, value in SECRET_KEYS.items()}
    inventory = seen(
        csi_driver(), secret, storage_class(parameters=SECRET_KEYS), storage_class("b", parameters=templated)
    )
    assert [] == judged(inventory, "secrets")


def test_a_secret_that_is_about_to_go_is_a_warning(seen: Any) -> None:
    metadata = {"name": "creds", "namespace": "vault", "deletionTimestamp": FRESH, "finalizers": ["keep.test/it"]}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    one = the_only(judged(seen(csi_driver(), secret, storage_class(parameters=SECRET_KEYS)), "secrets"))
    assert Severity.WARNING is one.severity
    assert "the secret vault/creds, which is being deleted" in one.wrong


def test_two_default_classes_are_told(seen: Any) -> None:
    two = [storage_class("a", default=True), storage_class("b", default=True)]
    assert "there are 2 default classes: a, b" == the_only(judged(seen(csi_driver(), *two), "defaults")).wrong


def test_two_default_snapshot_classes_compete_for_one_driver_alone(seen: Any) -> None:
    notes = {"snapshot.storage.kubernetes.io/is-default-class": "true"}

    def default(name: str, driver: str) -> Json:
        return {**SNAPSHOT_CLASS, "metadata": {"name": name, "annotations": notes}, "driver": driver}

    drivers = [csi_driver("one"), csi_driver("two")]
    assert [] == judged(seen(*drivers, default("a", "one"), default("b", "two")), "defaults")
    assert (
        Severity.ERROR
        is the_only(judged(seen(*drivers, default("a", "one"), default("b", "one")), "defaults")).severity
    )


# -- leaders


@each_row(
    "name",
    ["external-attacher-leader-csi-test", "csi-test", "snapshot-controller-leader", "mooring-controller-csi-test"],
    fresh=[seen],
)
def test_a_leader_that_does_not_renew_is_an_error(seen: Any, name: str) -> None:
    one = the_only(judged(seen(csi_driver(), a_lease(name, STALE)), "leaders"))
    assert f"Lease storage/{name}" == one.about
    assert "nobody has renewed it since 2026-05-28T20:20:00Z, last by pod-1" in one.wrong
    assert [] == judged(seen(csi_driver(), a_lease(name, FRESH)), "leaders")


def test_a_lease_of_no_sidecar_is_nobodys_business(seen: Any) -> None:
    assert [] == judged(seen(csi_driver(), a_lease("some-operator", STALE)), "leaders")


def lone(program: str, **more: Any) -> Json:
    return deployment({"name": program, "image": f"{GO}/{program}:v1", "args": ["--timeout=30s"]}, **more)


def test_replicas_without_election_are_an_error(seen: Any) -> None:
    one = the_only(judged(seen(lone("csi-resizer")), "leaders"))
    assert "2 replicas run csi-resizer without leader election" == one.wrong
    assert "the pods of all nodes" in the_only(judged(seen(lone("csi-resizer", kind="DaemonSet")), "leaders")).wrong
    assert [] == judged(seen(lone("csi-resizer", replicas=1)), "leaders")


def test_a_provisioner_on_each_node_shares_the_work_without_election(seen: Any) -> None:
    shared = deployment({"name": "p", "image": "csi-provisioner", "args": ["--node-deployment"]}, kind="DaemonSet")
    assert [] == judged(seen(shared), "leaders")


def test_a_snapshot_controller_that_leaves_snapshots_to_the_nodes_has_a_leader_all_the_same(seen: Any) -> None:
    name = "snapshot-controller"
    two = deployment({"name": name, "image": name, "args": ["--enable-distributed-snapshotting"]})
    assert "2 replicas run snapshot-controller" in the_only(judged(seen(two), "leaders")).wrong


# -- flags


def flagged(*flags: str, image: str = "csi-attacher:v1") -> Json:
    return deployment({"name": "a", "image": image, "args": ["--leader-election", *flags]})


@each_row("flags", [(), ("--kube-api-qps=5",), ("--kube-api-qps", "5"), ("-kube-api-qps=0",)], fresh=[seen])
def test_a_limit_that_throttles_is_a_warning(seen: Any, flags: tuple[str, ...]) -> None:
    one = the_only(judged(seen(flagged(*flags)), "throttling"))
    assert Severity.WARNING is one.severity
    assert "may send 5 requests a second" in one.wrong


@each_row("flags", [("--kube-api-qps=100",), ("--kube-api-qps=-1",), ("--kube-api-qps=$(QPS)",)], fresh=[seen])
def test_a_limit_that_is_high_or_not_known_is_well(seen: Any, flags: tuple[str, ...]) -> None:
    assert [] == judged(seen(flagged(*flags)), "throttling")


def test_a_sidecar_on_each_node_is_not_throttled_by_the_default(seen: Any) -> None:
    assert [] == judged(seen(flagged("--node-deployment", image="csi-provisioner:v6.3.0")), "throttling")


def test_moorings_sidecars_throttle_only_where_they_are_told_to(seen: Any) -> None:
    ours = "mooring-csi-attacher:0.1.0"
    assert [] == judged(seen(flagged(image=ours)), "throttling")
    assert (
        "(without --kube-api-qps"
        in the_only(judged(seen(flagged("--kube-api-qps=5", image=ours)), "throttling")).change.line
    )


@each_row(("timeout", "count"), [("9s", 1), ("10s", 0), ("1m", 0), ("$(T)", 0)], fresh=[seen])
def test_a_short_timeout_is_a_warning(seen: Any, timeout: str, count: int) -> None:
    assert count == len(judged(seen(flagged(f"--timeout={timeout}")), "timeouts"))


@each_row(("workers", "severity"), [("0", Severity.ERROR), ("1", Severity.WARNING)], fresh=[seen])
def test_few_workers_are_told(seen: Any, workers: str, severity: Severity) -> None:
    assert (
        severity
        is the_only(judged(seen(flagged("--kube-api-qps=100", f"--worker-threads={workers}")), "throttling")).severity
    )


def test_a_gate_for_topology_that_is_off_against_what_nodes_tell(seen: Any) -> None:
    def node(*keys: str) -> Json:
        spec = {"drivers": [{"name": "csi.test", "nodeID": "n", "topologyKeys": list(keys)}]}
        return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"}, "spec": spec}

    off = deployment(sidecar("csi-provisioner", "--feature-gates=Topology=false"))
    assert "csi.test, the only driver, tells topology keys" in the_only(judged(seen(off, node("zone")), "gates")).wrong
    assert [] == judged(seen(off, node()), "gates")
    assert [] == judged(seen(deployment(sidecar("csi-provisioner")), node("zone")), "gates")
