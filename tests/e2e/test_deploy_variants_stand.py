"""Issue 27, A.4: the StatefulSet and the DaemonSet with all in it are rolled out on a node, serve a claim, and publish
capacity.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from tests.e2e.test_deploy import CLAIM, SCRIPTS, entry_points
from tests.e2e.test_deploy_node import DRIVER, KUBELET, registering
from tests.support.builders import Json
from tests.support.control_plane import ControlPlane
from tests.support.kubelet import Kubelet, a_kubelet
from tests.support.real import binary
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.unit.test_deploy import DEPLOY

NAMESPACE = "storage"
CAPACITIES = f"/apis/storage.k8s.io/v1/namespaces/{NAMESPACE}/csistoragecapacities"
CONTROLLERS = (
    "statefulset-controller",
    "daemonset-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "garbage-collector-controller",
)
ROLLOUT_S_MAX = 120


def commands(folder: Path) -> Callable[[str, Path], Sequence[str | Path]]:
    """What each image starts; `mooring` gets the kubeconfig from its surroundings."""
    others = entry_points(folder)

    def found(name: str, kubeconfig: Path) -> Sequence[str | Path]:
        base = name.partition(":")[0]
        return (
            [SCRIPTS / base.removeprefix("mooring-")]
            if base.endswith(("livenessprobe", "registrar"))
            else others(name, kubeconfig)
        )

    return found


def roll_out(plane: ControlPlane, kubelet: Kubelet, what: str) -> str:
    command = [binary("kubectl"), f"--kubeconfig={plane.kubeconfig()}", "-n", NAMESPACE, "rollout", "status", what]
    with subprocess.Popen(
        [*command, f"--timeout={ROLLOUT_S_MAX}s"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as rollout:
        kubelet.until(lambda: rollout.poll() is not None, ROLLOUT_S_MAX + 10, f"the end of the rollout of {what}")
        assert rollout.stdout is not None
        return rollout.stdout.read()


def get(plane: ControlPlane, path: str) -> Json:
    found: Json = json.loads(plane.request("GET", path)[1])
    return found


def _has_the_driver(plane: ControlPlane, node: str) -> None:
    """As its node plugin would be registered: capacity is that of the places of nodes."""
    drivers = [{"name": DRIVER, "nodeID": node, "topologyKeys": None}]
    body = {"metadata": {"name": node}, "spec": {"drivers": drivers}}
    assert 201 == plane.request("POST", "/apis/storage.k8s.io/v1/csinodes", body)[0]


def _serve_a_claim(plane: ControlPlane, kubelet: Kubelet, owner: str) -> None:
    """A volume is made, and goes; meanwhile the class has capacity that belongs to this kind of workload."""
    meta = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "deployed"}}
    late = {**meta, "metadata": {"name": "late"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([{**meta, "provisioner": DRIVER}, late, CLAIM]))
    path = "/api/v1/namespaces/default/persistentvolumeclaims/c"
    kubelet.until(lambda: get(plane, path)["status"]["phase"] == "Bound", 60, "the claim is bound")

    def owners() -> set[str]:
        return {
            one["kind"]
            for each in get(plane, CAPACITIES)["items"]
            for one in each["metadata"].get("ownerReferences", ())
        }

    kubelet.until(lambda: owner in owners(), 60, f"capacity belongs to the {owner}")
    plane.kubectl("delete", "-f", "-", "--wait=false", stdin=yaml.safe_dump(CLAIM))
    kubelet.until(
        lambda: "status" in get(plane, path) and get(plane, path).get("reason") == "NotFound", 60, "the claim is gone"
    )


@pytest.mark.long
@pytest.mark.slow
def test_each_of_them_stands_in_place_of_the_controller(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    plane = new_control_plane(accounts=True)
    more = (
        "persistentvolume-binder-controller",
        "persistentvolumeclaim-protection-controller",
        "persistentvolume-protection-controller",
    )
    plane.start_controllers(*CONTROLLERS, *more, flags=[f"--root-ca-file={plane.ca_file}"])
    plane.start_scheduler()
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(SNAPSHOT_CRDS))
    deploy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, deploy)
    for file in deploy.rglob("kustomization.yaml"):
        file.write_text(file.read_text().replace("newName: DRIVER", f"newName: {DRIVER}/plugin"))
    plane.kubectl("apply", "-k", str(deploy / "csidriver"))
    with a_kubelet(plane, commands(tmp_path)) as kubelet:
        registry = kubelet.host / KUBELET / "plugins_registry"
        registry.mkdir(parents=True)
        (kubelet.host / "dev").mkdir()
        _has_the_driver(plane, kubelet.node)
        plane.kubectl("apply", "-k", str(deploy / "statefulset"))
        assert "partitioned roll out complete" in (said := roll_out(plane, kubelet, "statefulset/csi-controller")), said
        _serve_a_claim(plane, kubelet, "StatefulSet")
        plane.kubectl("delete", "-k", str(deploy / "statefulset"), "-l", "!mooring.dev/stays", "--wait=false")
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        kubelet.until(lambda: not get(plane, pods)["items"], 60, "its pod is gone")
        with registering(plane, kubelet.node, registry):
            plane.kubectl("apply", "-k", str(deploy / "all-in-one"))
            assert "successfully rolled out" in (said := roll_out(plane, kubelet, "daemonset/csi-all-in-one")), said
            _serve_a_claim(plane, kubelet, "DaemonSet")
