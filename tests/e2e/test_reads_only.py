"""What explains a cluster only reads it: the audit log of a real API server has what `why`, `timeline` and `doctor`
asked.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mooring.api.volume_names import attachment_name
from tests.support.builders import (
    DRIVER,
    a_bound_claim,
    a_class,
    a_csi_driver,
    a_pod,
    a_ready_node,
    a_volume,
    an_attached_va,
)
from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.long

POLICY: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: RequestResponse, resources: [{group: "", resources: [secrets]}]}, {level: Metadata}]
"""
SECRET: Final = "not-for-any-eye"
VA: Final = attachment_name(DRIVER, "handle", "n1")
ASKED: Final = (
    *(("why", one) for one in ("pod/web", "pvc/data", "pv/pv-1", f"va/{VA}", "node/n1")),
    ("why",),
    *(("timeline", one) for one in ("pod/web", "pvc/data", "pv/pv-1")),
    ("doctor",),
)


def _make(plane: ControlPlane) -> None:
    parameters = {
        f"csi.storage.k8s.io/provisioner-secret-{part}": value
        for part, value in (("name", "login"), ("namespace", "default"))
    }
    volume = a_volume(
        "pv-1",
        claimRef={"namespace": "default", "name": "data"},
        source={"csi": {"driver": DRIVER, "volumeHandle": "handle"}},
    )
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login", "namespace": "default"},
        "stringData": {"key": SECRET},
    }
    objects = [
        a_class(parameters=parameters),
        a_csi_driver(),
        a_ready_node("n1"),
        a_bound_claim("data", "pv-1"),
        volume,
        a_pod("web", "data", node="n1"),
        an_attached_va(VA, "pv-1", "n1", attacher=DRIVER),
        secret,
    ]
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(json.loads(json.dumps(objects))))


def test_nothing_is_written_and_no_secret_is_sent(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    log = tmp_path / "audit.log"
    plane = new_control_plane(
        apiserver_flags=[f"--audit-policy-file={tmp_path / 'policy.yaml'}", f"--audit-log-path={log}"]
    )
    _make(plane)
    for words in ASKED:
        command = [sys.executable, "-m", "mooring.cli.mooring", *words, f"--kubeconfig={plane.kubeconfig()}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout, (words, done.stderr)
        assert SECRET not in done.stdout + done.stderr
    events: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    asked = [one for one in events if one["userAgent"].startswith("mooring-")]
    assert {"mooring-why", "mooring-timeline", "mooring-doctor"} == {
        one["userAgent"].partition("/")[0] for one in asked
    }
    assert {"get", "list"} == {one["verb"] for one in asked}
    assert base64.b64encode(SECRET.encode()).decode() not in json.dumps(asked)
