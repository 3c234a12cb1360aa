"""What deploy/ offers is taken by the real API server, field by field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.mark.parametrize("manifest", sorted(DEPLOY.rglob("*.yaml")), ids=lambda path: path.relative_to(DEPLOY).as_posix())
def test_manifests_are_valid(control_plane: ControlPlane, manifest: Path) -> None:
    status, _ = control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "storage"}})
    assert status in (201, 409)
    taken = control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(manifest))
    assert manifest.read_text().count("\nkind: ") == len(taken.splitlines())
