"""What the manifests have of the deployment that the design documents recommend. Issue 27, A12."""

from __future__ import annotations

from tests.support.builders import Json
from tests.support.rights import deployed
from tests.support.rows import each_row
from tests.unit.test_deploy import PARTS, ROOT
from tests.unit.test_images import containers, workload

SPEC = workload(ROOT / "deploy" / "node")["spec"]["template"]["spec"]
ELECTED = ["attacher", "controller", "one-process", "provisioner", "resizer", "snapshot-controller", "snapshotter"]


def mounts(path: str) -> dict[str, Json]:
    """Which containers of the node's pod have the node's folder of that path, and how."""
    names = {one["name"] for one in SPEC["volumes"] if one["hostPath"]["path"] == path}
    return {one["name"]: mount for one in SPEC["containers"] for mount in one["volumeMounts"] if mount["name"] in names}


def test_the_registrar_alone_sees_where_drivers_register() -> None:
    assert {"csi-node-driver-registrar": "/registration"} == {
        name: mount["mountPath"] for name, mount in mounts("/var/lib/kubelet/plugins_registry").items()
    }


def test_the_driver_alone_mounts_where_the_kubelet_sees_it() -> None:
    found = mounts("/var/lib/kubelet")
    assert {"driver": ("/var/lib/kubelet", "Bidirectional")} == {
        name: (mount["mountPath"], mount["mountPropagation"]) for name, mount in found.items()
    }


def test_the_drivers_socket_is_in_a_folder_of_the_node_that_is_made_if_missing() -> None:
    (folder,) = (one["hostPath"] for one in SPEC["volumes"] if "plugins/" in one["hostPath"]["path"])
    assert "DirectoryOrCreate" == folder["type"]
    assert {"driver", "csi-node-driver-registrar", "livenessprobe"} == mounts(folder["path"]).keys()
    registrar = next(one for one in SPEC["containers"] if one["name"] == "csi-node-driver-registrar")
    assert f"--kubelet-registration-path={folder['path']}/csi.sock" in registrar["args"]


@each_row("part", ELECTED)
def test_several_replicas_elect_one(part: str) -> None:
    assert workload(ROOT / "deploy" / part)["spec"]["replicas"] > 1
    assert all("--leader-election" in one["args"] for one in containers(part) if one["name"] != "livenessprobe")


def test_the_sidecars_of_a_controller_reach_its_driver_in_a_folder_of_the_pod() -> None:
    spec = workload(ROOT / "deploy" / "controller")["spec"]["template"]["spec"]
    (shared,) = (one["name"] for one in spec["volumes"] if "emptyDir" in one)
    assert all(shared in {mount["name"] for mount in one["volumeMounts"]} for one in spec["containers"])


def test_no_node_holds_rights_of_the_cluster() -> None:
    """What attaches is the controller's alone: a node's pod has no account, and secrets are granted to nobody for the
    whole cluster.
    """
    assert SPEC["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in SPEC
    accounts = [part for part in PARTS if (ROOT / "deploy" / part / "rbac.yaml").exists()]
    assert accounts
    assert not [part for part in accounts for right in deployed(part).rights() if right.resource == "secrets"]
