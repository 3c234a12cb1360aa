"""`mooring doctor` (issue 29) on a real control plane: a set that is broken on purpose is healed by what the findings
say.

An audit log shows that it only reads, and that the API server sent no data of a secret.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.control_plane import ControlPlane
from tests.support.real import binary
from tests.support.sick_cluster import FAST, SECRET_KEYS, csi_driver, deployment, healthy, sidecar, storage_class
from tests.support.snapshot_crds import SNAPSHOT_CRDS

pytestmark = pytest.mark.long

Json = dict[str, Any]

POLICY: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: RequestResponse, resources: [{group: "", resources: [secrets]}]}
  - {level: Metadata}
"""
DATA: Final = "c2VjcmV0LWRhdGE="


def doctor(kubeconfig: Path, *flags: str) -> tuple[int, list[Json], list[Json]]:
    """The exit code, the findings, and what was not seen."""
    command = [sys.executable, "-m", "mooring.cli.mooring", "doctor", f"--kubeconfig={kubeconfig}", "-o=json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    return done.returncode, found["findings"], found["notSeen"]


def worth(findings: list[Json]) -> dict[str, Json]:
    """Errors and warnings by check."""
    return {one["check"]: one for one in findings if one["severity"] != "note"}


def sick() -> list[Json]:
    """The attacher lacks a right, the snapshot kinds are missing, and classes name a driver and a secret that nobody
    has.
    """
    objects = [
        one for one in healthy() if one["kind"] not in ("CustomResourceDefinition", "StorageClass", "Deployment")
    ]
    role = next(one for one in objects if one["kind"] == "ClusterRole")
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["volumeattachments/status"]]
    names = ("csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter", "snapshot-controller")
    slow = {
        "name": "csi-attacher",
        "image": "csi-attacher:v4.8.0",
        "args": ["--leader-election", *FAST, "--timeout=1s"],
    }
    return [
        *objects,
        deployment(slow, *(sidecar(name) for name in names[1:])),
        storage_class("typo", "csi.tset"),
        storage_class("locked", parameters=SECRET_KEYS),
    ]


def test_a_broken_set_is_healed_by_what_the_findings_say(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    log = tmp_path / "audit.log"
    plane = new_control_plane(
        apiserver_flags=[f"--audit-policy-file={tmp_path / 'policy.yaml'}", f"--audit-log-path={log}"]
    )
    admin = plane.kubeconfig()
    for name in ("storage", "vault"):
        plane.kubectl("create", "namespace", name)
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(sick()))

    code, findings, unseen = doctor(admin)
    found = worth(findings)
    assert (3, []) == (code, unseen)
    assert {"rights", "definitions", "classes", "secrets", "timeouts"} == set(found), json.dumps(findings, indent=1)
    assert "storage/csi has no right to patch volumeattachments/status.storage.k8s.io" in found["rights"]["wrong"]
    assert found["rights"]["change"]["where"] == "kubectl edit clusterrole csi"
    assert 'the driver "csi.tset" has no CSIDriver' in found["classes"]["wrong"]

    for definition in SNAPSHOT_CRDS:
        plane.kubectl("create", "-f", "-", stdin=json.dumps(definition))
    rule = {"op": "add", "path": "/rules/-", "value": yaml.safe_load(found["rights"]["change"]["line"])[0]}
    plane.kubectl("patch", "clusterrole", "csi", "--type=json", "-p", json.dumps([rule]))
    words = found["secrets"]["change"]["command"].replace("KEY=VALUE", "key=secret-data").split()[1:]
    plane.kubectl(*words)
    typed = found["classes"]["change"]["command"].replace("kubectl", f"{binary('kubectl')} --kubeconfig={admin}")
    subprocess.run(["bash", "-c", typed], check=True, capture_output=True, timeout=30)
    flag = {
        "op": "replace",
        "path": "/spec/template/spec/containers/0/args/3",
        "value": found["timeouts"]["change"]["line"][2:],
    }
    plane.kubectl("-n", "storage", "patch", "deployment", "csi", "--type=json", "-p", json.dumps([flag]))
    code, findings, _ = doctor(admin)
    assert 0 == code, json.dumps(findings, indent=1)

    guest = doctor(plane.kubeconfig("guest", "nobody"))
    assert "secrets" not in {one["what"] for one in guest[2]}, "no class can be seen, so none names a secret"
    assert {"roles.rbac.authorization.k8s.io", "storageclasses.storage.k8s.io"} <= {one["what"] for one in guest[2]}
    assert (0, []) == guest[:2]
    _only_read(log)


def _only_read(log: Path) -> None:
    """What the API server wrote down of the doctor's requests."""
    mine = [
        one
        for one in map(json.loads, log.read_text().splitlines())
        if one.get("userAgent", "").startswith("mooring-doctor/")
    ]
    assert {"get", "list"} == {one["verb"] for one in mine}
    secrets = [
        one
        for one in mine
        if one.get("objectRef", {}).get("resource") == "secrets" and one["responseStatus"]["code"] == 200
    ]
    assert secrets
    assert {"PartialObjectMetadata"} == {one["responseObject"]["kind"] for one in secrets}
    assert DATA not in json.dumps(secrets)


def test_the_files_of_the_same_set_are_judged_alike(tmp_path: Path) -> None:
    file = tmp_path / "release.yaml"
    file.write_text(yaml.safe_dump_all([*sick(), csi_driver("other")]))
    command = [sys.executable, "-m", "mooring.cli.mooring", "doctor", f"-f={file}", "-o=yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={})
    found = worth(yaml.safe_load(done.stdout)["findings"])
    assert (3, {"rights", "classes", "timeouts"}) == (done.returncode, set(found))
    lines = file.read_text().splitlines()
    file_name, number = found["timeouts"]["change"]["where"].rsplit(":", 1)
    assert str(file) == file_name
    assert "--timeout=1s" in lines[int(number) - 1]
