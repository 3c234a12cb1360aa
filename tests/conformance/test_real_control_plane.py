"""The support for tests on the real control plane does what it promises."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.real import binary, go_attacher, kubectl
from tests.support.waiting import eventually


def test_kubectl_reads_the_version_that_the_recipe_names(control_plane: ControlPlane) -> None:
    version = json.loads(control_plane.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["minor"] == "36"


def test_a_bearer_token_logs_in_too(control_plane: ControlPlane) -> None:
    assert "test-admin" in kubectl(control_plane.token_kubeconfig(), "auth", "whoami")


def test_a_user_without_rights_is_refused(control_plane: ControlPlane) -> None:
    assert (
        kubectl(
            control_plane.kubeconfig("nobody", "nobodies"),
            "auth",
            "whoami",
            "-o",
            "jsonpath={.status.userInfo.username}",
        )
        == "nobody"
    )
    status, body = control_plane.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")
    assert (200, "cluster-admin") == (status, json.loads(body)["metadata"]["name"])


def test_the_go_attacher_starts_and_waits_for_its_driver(control_plane: ControlPlane, tmp_path: Path) -> None:
    attacher = go_attacher(control_plane.kubeconfig(), tmp_path / "none.sock", tmp_path / "attacher.log")
    try:
        eventually(
            lambda: "Version" in attacher.output() or "version" in attacher.output(),
            20,
            "the attacher tells its version",
        )
        attacher.assert_alive()
    finally:
        attacher.stop()


def test_a_controller_manager_makes_attachments_for_pods_and_a_scheduler_finds_a_node(
    new_control_plane: Callable[..., ControlPlane],
) -> None:
    plane = new_control_plane()
    plane.start_controllers("persistentvolume-binder-controller", "persistentvolume-attach-detach-controller")
    plane.start_scheduler()
    _makes_an_attachment(plane)
    _finds_a_node(plane)


def _makes_an_attachment(plane: ControlPlane) -> None:
    plane.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": _a_pod_with_a_volume()})
    )
    found = eventually(
        lambda: json.loads(plane.kubectl("get", "volumeattachments", "-o", "json"))["items"], 60, "a VolumeAttachment"
    )
    assert [("csi.test", "n1", "pv1")] == [
        (one["spec"]["attacher"], one["spec"]["nodeName"], one["spec"]["source"]["persistentVolumeName"])
        for one in found
    ]


def _finds_a_node(plane: ControlPlane) -> None:
    room = {"pods": "10", "cpu": "1", "memory": "1Gi"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "roomy"},
        "status": {"capacity": room, "allocatable": room},
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
    plane.kubectl("taint", "node", "roomy", "node.kubernetes.io/not-ready:NoSchedule-")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    assert "roomy" == eventually(
        lambda: plane.kubectl("get", "pod", "p", "-o", "jsonpath={.spec.nodeName}"), 60, "the pod has a node"
    )


@pytest.mark.real
@pytest.mark.slow
def test_nothing_outlives_tests_that_are_killed(tmp_path: Path) -> None:
    binary("kube-apiserver")
    code = (
        "from tests.support.control_plane import ControlPlane as C; p = C.start(); print(*[x.pid for x in "
        "p._programs.values()]); input()"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    tests = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=root,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert tests.stdin is not None
    assert tests.stdout is not None
    with tests.stdin, tests.stdout:
        pids = [int(pid) for pid in tests.stdout.readline().split()]
        assert len(pids) == 2
        assert all(_is_running(pid) for pid in pids)
        tests.send_signal(signal.SIGKILL)
        tests.wait()
    eventually(lambda: not any(_is_running(pid) for pid in pids), 10, "etcd and kube-apiserver are gone")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False


def _a_pod_with_a_volume() -> list[dict[str, object]]:
    storage, claimed = {"storage": "1Gi"}, {"namespace": "default", "name": "c1"}
    managed = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    specs: list[tuple[str, str, dict[str, object], dict[str, object]]] = [
        ("v1", "Node", {"name": "n1", "annotations": managed}, {}),
        ("storage.k8s.io/v1", "CSIDriver", {"name": "csi.test"}, {"attachRequired": True}),
        (
            "storage.k8s.io/v1",
            "CSINode",
            {"name": "n1"},
            {"drivers": [{"name": "csi.test", "nodeID": "id1", "topologyKeys": []}]},
        ),
        (
            "v1",
            "PersistentVolume",
            {"name": "pv1"},
            {
                "capacity": storage,
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "csi.test", "volumeHandle": "h1"},
                "claimRef": claimed,
            },
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            claimed,
            {
                "storageClassName": "",
                "volumeName": "pv1",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": storage},
            },
        ),
        (
            "v1",
            "Pod",
            {"namespace": "default", "name": "p1"},
            {
                "nodeName": "n1",
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c1"}}],
            },
        ),
    ]
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
        for version, kind, metadata, spec in specs
    ]
