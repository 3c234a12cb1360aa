"""What deploy/ offers is taken by the real API server, field by field."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.control_plane import ControlPlane
from tests.support.real import binary
from tests.support.rows import each_row

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ELSEWHERE = ("chart", "monitoring")
"""Templates, which tests/e2e/test_chart.py renders and applies, and rules, which promtool judges in
tests/unit/monitoring.
"""
MANIFESTS = {
    path
    for path in DEPLOY.rglob("*.yaml")
    if path.name != "kustomization.yaml" and path.relative_to(DEPLOY).parts[0] not in ELSEWHERE
}


def test_manifests_are_valid(control_plane: ControlPlane) -> None:
    """One kubectl applies all of them; its error names each file that is refused."""
    for name in ("storage", "driver-secrets"):
        status, _ = control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert status in (201, 409)
    files = [f"--filename={path}" for path in sorted(MANIFESTS)]
    taken = control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", *files)
    assert sum(path.read_text().count("\nkind: ") for path in MANIFESTS) == len(taken.splitlines())


IN_A_NAMESPACE = [
    path for path in sorted(DEPLOY.rglob("kustomization.yaml")) if "namespace: storage" in path.read_text()
]


@each_row("file", IN_A_NAMESPACE, ids=lambda path: path.parent.name)
def test_one_line_moves_all_objects_to_another_namespace(file: Path, tmp_path: Path) -> None:
    """And leaves nothing behind: accounts, bindings and what they bind stay together."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    copy = tmp_path / "deploy" / file.relative_to(DEPLOY)
    before = built(copy.parent)
    copy.write_text(copy.read_text().replace("namespace: storage", "namespace: elsewhere"))
    after = built(copy.parent)
    assert 0 < before.count("namespace: storage") == after.count("namespace: elsewhere")
    assert "storage\n" not in after
    assert before.count("\nkind: ") == after.count("\nkind: ")


def built(folder: Path) -> str:
    return subprocess.run(
        [binary("kubectl"), "kustomize", folder], check=True, capture_output=True, text=True, timeout=60
    ).stdout
