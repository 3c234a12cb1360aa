"""Issue 27, A.4: the other ways to stand that the design documents recommend, as kubectl builds them and the real
server takes them.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.e2e.test_second_driver import built, workload_of
from tests.support.builders import Json
from tests.support.control_plane import ControlPlane
from tests.support.real import run_kubectl
from tests.support.rows import each_row
from tests.unit.test_deploy import DEPLOY
from tests.unit.test_images import workload

pytestmark = [pytest.mark.real, pytest.mark.slow]

CONTROLLER = "system:serviceaccount:storage:csi-controller"
HAVE_A_PLACE = sorted(
    path.parent.name
    for path in DEPLOY.rglob("kustomization.yaml")
    if "# components: [../infra-nodes]" in path.read_text()
)


def containers_of(objects: list[Json]) -> dict[str, Json]:
    return {one["name"]: one for one in workload_of(objects)["spec"]["template"]["spec"]["containers"]}


@pytest.fixture
def namespaces(control_plane: ControlPlane) -> None:
    """Those that the manifests name: a dry run makes none for what follows in it."""
    for name in ("storage", "driver-secrets"):
        assert control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] in (201, 409)


@pytest.mark.usefixtures("namespaces")
@each_row("part", ["all-in-one", "csidriver", "secrets", "statefulset"])
def test_the_server_takes_it(control_plane: ControlPlane, part: str) -> None:
    done = run_kubectl(control_plane.kubeconfig(), "apply", "-k", str(DEPLOY / part), "--dry-run=server")
    assert 0 == done.returncode, done.stderr
    assert len(built(DEPLOY / part)) == done.stdout.count("(server dry run)")


def test_the_stateful_set_is_the_controller_but_for_one_replica() -> None:
    ours, base = built(DEPLOY / "statefulset"), built(DEPLOY / "controller")
    own = workload_of(ours)
    assert ("StatefulSet", 1) == (own["kind"], own["spec"]["replicas"])
    theirs = containers_of(base)
    args = theirs["csi-provisioner"]["args"]
    args[args.index("--capacity-ownerref-level=2")] = "--capacity-ownerref-level=1"
    assert theirs == containers_of(ours)
    others = [[one for one in objects if one["kind"] not in ("Deployment", "StatefulSet")] for objects in (ours, base)]
    assert others[0] == others[1]


def test_the_all_in_one_takes_of_the_controller_the_account_with_its_rights() -> None:
    ours, base = built(DEPLOY / "all-in-one"), built(DEPLOY / "controller")
    kinds = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    granted = [[one for one in objects if one["kind"] in kinds] for objects in (ours, base)]
    assert granted[0] == granted[1]
    assert ["DaemonSet", "NetworkPolicy"] == sorted(one["kind"] for one in ours if one["kind"] not in kinds)
    assert "csi-controller" == workload_of(ours)["spec"]["template"]["spec"]["serviceAccountName"]


@each_row("part", [*HAVE_A_PLACE, "statefulset"])
def test_a_line_places_it_on_infrastructure_nodes(part: str, tmp_path: Path) -> None:
    """The line that stands there as a comment; that of the controller counts for its variants."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    for file in (tmp_path / "deploy").rglob("kustomization.yaml"):
        file.write_text(file.read_text().replace("\n# components: [../infra-nodes]", "\ncomponents: [../infra-nodes]"))
    pod = workload_of(built(tmp_path / "deploy" / part))["spec"]["template"]["spec"]
    assert {"node-role.kubernetes.io/infra": ""} == pod["nodeSelector"]
    assert {"node-role.kubernetes.io/infra", "node-role.kubernetes.io/control-plane"} == {
        one["key"] for one in pod["tolerations"]
    }


def test_a_node_is_made_such_a_place_by_the_lines_of_the_page(control_plane: ControlPlane) -> None:
    """docs/deployment.md: what the component selects, and tolerates."""
    control_plane.kubectl(
        "apply", "-f", "-", stdin=yaml.safe_dump({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "infra-1"}})
    )
    page = (DEPLOY.parent / "docs" / "deployment.md").read_text()
    for line in re.findall(r"^    kubectl ((?:label|taint) node .*)$", page, re.MULTILINE):
        control_plane.kubectl(*line.replace("NAME", "infra-1").split(), "--overwrite")
    node = json.loads(control_plane.request("GET", "/api/v1/nodes/infra-1")[1])
    control_plane.kubectl("delete", "node", "infra-1")
    assert "" == node["metadata"]["labels"]["node-role.kubernetes.io/infra"]
    infra = {"key": "node-role.kubernetes.io/infra", "effect": "NoSchedule"}
    assert infra in node["spec"]["taints"]


def test_whoever_has_the_storages_credentials_can_be_placed() -> None:
    assert {"attacher", "controller", "one-process", "provisioner", "resizer", "snapshotter"} <= set(HAVE_A_PLACE)


@pytest.mark.usefixtures("namespaces")
def test_the_sample_grants_one_secret_of_one_namespace(control_plane: ControlPlane) -> None:
    control_plane.kubectl("apply", "-k", str(DEPLOY / "secrets"))

    def may(what: str, *flags: str) -> str:
        asked = ["auth", "can-i", *what.split(), f"--as={CONTROLLER}", *flags]
        return run_kubectl(control_plane.kubeconfig(), *asked).stdout.strip()

    assert "yes" == may("get secret/storage-credentials", "--namespace=driver-secrets")
    assert "no" == may("get secret/another", "--namespace=driver-secrets")
    assert "no" == may("list secrets", "--namespace=driver-secrets")
    assert "no" == may("get secret/storage-credentials", "--namespace=storage")
    assert CONTROLLER.endswith(workload(DEPLOY / "controller")["spec"]["template"]["spec"]["serviceAccountName"])
