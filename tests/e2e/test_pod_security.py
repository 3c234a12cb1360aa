"""Issue 27, C.3: what deploy/ offers is admitted where the Pod Security Standard `restricted` is enforced, all but the
nodes' part.
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
from tests.unit.test_deploy import DEPLOY, NEEDS_PRIVILEGE, PARTS
from tests.unit.test_images import workloads

pytestmark = [pytest.mark.real, pytest.mark.slow]

NAMESPACE = "restricted-storage"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """One that warns of workloads whose pods would be refused, and refuses them by the line that docs/attacher.md has
    for that.
    """
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))
    page = (DEPLOY.parent / "docs" / "attacher.md").read_text()
    (line,) = re.findall(r"^    kubectl (label namespace .*)$", page, re.MULTILINE)
    control_plane.kubectl(*line.replace(" storage ", f" {NAMESPACE} ").split(), "--overwrite")
    return NAMESPACE


def a_pod(workload: Json) -> Json:
    """The pod that the workload would make."""
    template = workload["spec"]["template"]
    return {
        "metadata": {"name": workload["metadata"]["name"], "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    }


@each_row("part", [*(part for part in PARTS if part not in NEEDS_PRIVILEGE), "statefulset"])
def test_the_server_takes_it_without_a_warning(
    control_plane: ControlPlane, namespace: str, part: str, tmp_path: Path
) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    folder = tmp_path / "deploy" / part
    for file in folder.parent.rglob("kustomization.yaml"):
        file.write_text(file.read_text().replace("\nnamespace: storage\n", f"\nnamespace: {namespace}\n"))
    applied = ["apply", "-k", str(folder), "--dry-run=server", "--warnings-as-errors"]
    done = run_kubectl(control_plane.kubeconfig(), *applied)
    assert (0, "") == (done.returncode, done.stderr), done.stdout
    assert "(server dry run)" in done.stdout
    status, answer = control_plane.request("POST", PODS, a_pod(workload_of(built(folder))))
    assert 201 == status, answer


@each_row("part", sorted(NEEDS_PRIVILEGE))
def test_what_mounts_is_refused_there(control_plane: ControlPlane, namespace: str, part: str) -> None:
    """So the namespace does what it is for."""
    (workload,) = workloads(DEPLOY / part)
    status, answer = control_plane.request("POST", PODS, a_pod(workload))
    assert 403 == status
    assert 'violates PodSecurity "restricted:latest": privileged (container "driver"' in json.loads(answer)["message"]


def test_what_is_left_out_would_be_missed(control_plane: ControlPlane, namespace: str) -> None:
    """Each of the fields counts: the standard asks for it."""
    (workload,) = workloads(DEPLOY / "attacher")
    text = yaml.safe_dump(a_pod(workload))
    for field in ("runAsNonRoot: true", "allowPrivilegeEscalation: false", "type: RuntimeDefault"):
        assert field in text
        name, _, value = field.partition(": ")
        other = {"true": "false", "false": "true", "RuntimeDefault": "Unconfined"}[value]
        status, answer = control_plane.request("POST", PODS, yaml.safe_load(text.replace(field, f"{name}: {other}")))
        assert 403 == status, (field, answer)
