"""What deploy/ offers is taken by the real API server, field by field."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.real import binary

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.mark.parametrize(
    "manifest",
    sorted(set(DEPLOY.rglob("*.yaml")) - set(DEPLOY.rglob("kustomization.yaml"))),
    ids=lambda path: path.relative_to(DEPLOY).as_posix(),
)
def test_manifests_are_valid(control_plane: ControlPlane, manifest: Path) -> None:
    status, _ = control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "storage"}})
    assert status in (201, 409)
    taken = control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(manifest))
    assert manifest.read_text().count("\nkind: ") == len(taken.splitlines())


@pytest.mark.parametrize("folder", [path.parent for path in sorted(DEPLOY.rglob("kustomization.yaml"))], ids=lambda path: path.name)
def test_one_line_moves_all_objects_to_another_namespace(folder: Path, tmp_path: Path) -> None:
    """And leaves nothing behind: accounts, bindings and what they bind stay together."""
    copy = tmp_path / "deploy"
    shutil.copytree(folder, copy)
    file = copy / "kustomization.yaml"
    file.write_text(file.read_text().replace("namespace: storage", "namespace: elsewhere"))
    built = subprocess.run([binary("kubectl"), "kustomize", copy], check=True, capture_output=True, text=True, timeout=60).stdout
    assert 0 < built.count("namespace: elsewhere")
    assert "storage\n" not in built
    assert built.count("\nkind: ") == sum(path.read_text().count("\nkind: ") for path in folder.glob("[!k]*.yaml"))
