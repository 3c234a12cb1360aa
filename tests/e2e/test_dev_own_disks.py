"""Disks that a pod itself names, in `mooring dev` under the driver that took over (27 A1): attached, staged, mounted,
and taken back.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.e2e.test_dev_pods import Kubectl, mounts_seen_by
from tests.support import gce_driver, mount_driver
from tests.support.folder_driver import FolderDriver
from tests.support.mooring_dev import dev, needs_mounts
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

DRIVER = f"{shlex.join(gce_driver.COMMAND)} --endpoint unix://{{socket}} --node {gce_driver.PLACE}/instances/{{node}}"
DISK = {"gcePersistentDisk": {"pdName": "data-disk", "fsType": "ext4"}}


def pod(name: str, source: dict[str, object], node: str = "") -> dict[str, object]:
    container = {"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    spec = {"containers": [container], "volumes": [{"name": "data", **source}], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_pods_own_disk_is_attached_mounted_and_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_mounts()
    monkeypatch.setenv(mount_driver.FOLDER, str(tmp_path / "volumes"))
    disk = FolderDriver(tmp_path / "volumes")
    disk.data("data-disk").mkdir(parents=True)
    (disk.volumes / "data-disk" / "nodes").mkdir()
    with dev(tmp_path, f"--driver={DRIVER}", "--nodes=2") as (program, config):
        kubectl = Kubectl(config)
        for node in ("n1", "n2"):
            kubectl.apply(pod("user", DISK, node))
            kubectl.ready("user")
            (attachment,) = json.loads(kubectl("get", "volumeattachments", "-o", "json"))["items"]
            csi = attachment["spec"]["source"]["inlineVolumeSpec"]["csi"]
            handle = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/data-disk"
            assert (node, True, handle) == (
                attachment["spec"]["nodeName"],
                attachment["status"]["attached"],
                csi["volumeHandle"],
            )
            assert [node] == disk.nodes("data-disk")
            (path,) = [one for one in mounts_seen_by(program.pid, config.parent / "nodes") if "/pods/" in one]
            file = Path(f"/proc/{program.pid}/root{path}/file")
            file.write_text((file.read_text() if file.exists() else "") + node)
            kubectl("delete", "pod", "user", "--timeout=20s")
            eventually(lambda: not kubectl.left(), 20, "no pod, no attachment")
            assert ([], []) == (disk.nodes("data-disk"), mounts_seen_by(program.pid, config.parent))
        assert "n1n2" == (disk.data("data-disk") / "file").read_text()


def test_a_pod_with_a_volume_that_nobody_mounts_waits_and_says_so(tmp_path: Path) -> None:
    needs_mounts()
    with dev(tmp_path) as (_, config):
        kubectl = Kubectl(config)
        kubectl.apply(pod("user", {"nfs": {"server": "s", "path": "/"}}))
        told = ("get", "events", "-o", "jsonpath={range .items[*]}{.type} {.reason} {.message}{end}")
        eventually(lambda: "Warning FailedMount" in kubectl(*told), 20, "an event")
        assert 'volume "data" is of kind nfs' in kubectl(*told)
        assert "Pending" == kubectl("get", "pod", "user", "-o", "jsonpath={.status.phase}")
        kubectl("delete", "pod", "user", "--timeout=20s")
