"""What deploy/ offers stands beside each other in one cluster, and works there: the real server, controllers and
scheduler roll it out.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.builders import Json
from tests.support.control_plane import ControlPlane
from tests.support.kubelet import Kubelet, a_kubelet
from tests.support.real import binary
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.unit.test_images import image, targets

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PARTS = sorted(path.parent.name for path in DEPLOY.rglob("deployment.yaml"))
"""Those of the whole cluster; tests/e2e/test_deploy_node.py has the one of each node."""
NAMESPACE = "storage"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "garbage-collector-controller",
)
SCRIPTS = Path(sys.executable).parent
ROLLOUT_S_MAX = 120


def in_place(folder: Path) -> dict[str, Path]:
    """Copies of all manifests, with the one edit that their comments ask for: the driver's image. By part."""
    copies = {part: folder / part for part in PARTS}
    for part, copy in copies.items():
        shutil.copytree(DEPLOY / part, copy)
        file = copy / "kustomization.yaml"
        file.write_text(file.read_text().replace("newName: DRIVER", f"newName: {driver(part)}/plugin"))
    return copies


def driver(part: str) -> str:
    """The name of the driver beside this part."""
    return f"{part}.test.mooring"


def entry_points(folder: Path) -> Callable[[str, Path], Sequence[str | Path]]:
    """What each image starts, as the Containerfile says; a driver's is the reference driver."""
    started = {image(target): entry for target, entry in targets().items()}

    def found(name: str, kubeconfig: Path) -> Sequence[str | Path]:
        base = name.partition(":")[0]
        if base.endswith("/plugin"):
            owner = base.removesuffix("/plugin")
            state = folder / f"volumes-{kubeconfig.parent.name}"
            return [
                SCRIPTS / "mooring",
                "driver",
                "hostpath",
                f"--driver-name={owner}",
                f"--state={state}",
                "--node-id=node-1",
            ]
        (script,) = started[base]
        return [
            SCRIPTS / script,
            *((f"--kubeconfig={kubeconfig}",) if script.startswith(("csi-", "snapshot-")) else ()),
        ]

    return found


def deployments(plane: ControlPlane) -> dict[str, Json]:
    """Those that the cluster has, by name."""
    items = json.loads(plane.request("GET", DEPLOYMENTS)[1])["items"]
    return {one["metadata"]["name"]: one for one in items}


def roll_out(plane: ControlPlane, kubelet: Kubelet, name: str) -> str:
    """What `kubectl rollout status` says in the end; the kubelet works meanwhile."""
    command = [
        binary("kubectl"),
        f"--kubeconfig={plane.kubeconfig()}",
        "-n",
        NAMESPACE,
        "rollout",
        "status",
        f"deployment/{name}",
    ]
    with subprocess.Popen(
        [*command, f"--timeout={ROLLOUT_S_MAX}s"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as rollout:
        kubelet.until(lambda: rollout.poll() is not None, ROLLOUT_S_MAX + 10, f"the end of the rollout of {name}")
        assert rollout.stdout is not None
        return rollout.stdout.read()


def declared(folder: Path) -> Json:
    """The Deployment of a part, as its folder has it."""
    (found,) = yaml.safe_load_all((folder / "deployment.yaml").read_text())
    result: Json = found
    return result


@pytest.mark.long
@pytest.mark.slow
def test_all_that_deploy_offers_is_rolled_out_in_one_cluster(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """One after the other, as an operator applies them; what stood there already is left alone."""
    plane = new_control_plane(accounts=True)
    plane.start_controllers(*CONTROLLERS, flags=[f"--root-ca-file={plane.ca_file}"])
    plane.start_scheduler()
    plane.kubectl(
        "apply", "-f", "-", stdin=yaml.safe_dump_all(SNAPSHOT_CRDS)
    )  # the snapshot programs are not ready without
    with a_kubelet(plane, entry_points(tmp_path)) as kubelet:
        wanted: dict[str, Json] = {}
        for part, folder in in_place(tmp_path / "deploy").items():
            plane.kubectl("apply", "-k", str(folder))
            name = declared(folder)["metadata"]["name"]
            assert f'deployment "{name}" successfully rolled out\n' in roll_out(plane, kubelet, name), part
            wanted[name] = declared(folder)
        assert len(PARTS) == len(wanted)
        _stand_beside_each_other(plane, wanted)
        _serve_a_claim(plane, kubelet, driver("controller"))
        _one_is_taken_away(plane, tmp_path / "deploy" / "attacher")
        _one_is_ended_for_an_upgrade(plane)


def _stand_beside_each_other(plane: ControlPlane, wanted: dict[str, Json]) -> None:
    found = deployments(plane)
    assert wanted.keys() == found.keys()
    pods = json.loads(plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")[1])["items"]
    for name, manifest in wanted.items():
        assert manifest["spec"]["replicas"] == found[name]["status"]["readyReplicas"]
        own = [pod for pod in pods if re.fullmatch(rf"{name}-[a-z0-9]+-[a-z0-9]+", pod["metadata"]["name"])]
        assert manifest["spec"]["replicas"] == len(own)
        for pod in own:
            _is_admitted_with_its_account(pod, manifest["spec"]["template"]["spec"])
    assert sum(manifest["spec"]["replicas"] for manifest in wanted.values()) == len(pods)


def _is_admitted_with_its_account(pod: Json, manifest: Any) -> None:
    """Admission gives each container the account's token."""
    assert manifest["serviceAccountName"] == pod["spec"]["serviceAccountName"]
    assert [one["name"] for one in manifest["containers"]] == [one["name"] for one in pod["spec"]["containers"]]
    for container in pod["spec"]["containers"]:
        assert "/var/run/secrets/kubernetes.io/serviceaccount" in [
            mount["mountPath"] for mount in container["volumeMounts"]
        ]


def _serve_a_claim(plane: ControlPlane, kubelet: Kubelet, name: str) -> None:
    """A volume is made and bound by what was deployed."""
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([_class(name), CLAIM]))
    path = "/api/v1/namespaces/default/persistentvolumeclaims/c"
    kubelet.until(
        lambda: json.loads(plane.request("GET", path)[1])["status"]["phase"] == "Bound", 60, "the claim is bound"
    )


def _one_is_taken_away(plane: ControlPlane, folder: Path) -> None:
    """By the line that its namespace.yaml has. The namespace stays, and who else is in it."""
    before = deployments(plane)
    (line,) = re.findall(r"kubectl delete -k \S+ -l '(.*)'", (folder / "namespace.yaml").read_text())
    plane.kubectl("delete", "-k", str(folder), "-l", line)
    assert before.keys() - deployments(plane).keys() == {declared(folder)["metadata"]["name"]}
    assert "deletionTimestamp" not in json.loads(plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}")[1])["metadata"]


def _one_is_ended_for_an_upgrade(plane: ControlPlane) -> None:
    """As docs/deployment.md says, and it comes back with its manifest."""
    (line,) = re.findall(
        r"^    kubectl (-n storage scale .*)$", (DEPLOY.parent / "docs" / "deployment.md").read_text(), re.MULTILINE
    )
    plane.kubectl(*line.split())
    assert 0 == deployments(plane)["csi-controller"]["spec"]["replicas"]


def _class(name: str) -> Json:
    meta = {"name": "deployed"}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta, "provisioner": name}


CLAIM: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {
        "storageClassName": "deployed",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}},
    },
}
