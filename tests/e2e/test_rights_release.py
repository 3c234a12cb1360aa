"""`mooring release` (issue 27, A7) with the rights that its page says, on a real server: enough, all needed, and what was held ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.support.builders import a_pv, an_attached_va
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.rights import Manifest, acting_as, refused

PAGE = Path(__file__).resolve().parents[2] / "docs" / "release.md"
DRIVER, FINALIZER = "release.rights.test", "external-attacher/release-rights-test"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"


def from_the_page() -> Manifest:
    (_, text) = PAGE.read_text().split("```yaml\n")
    return Manifest(list(yaml.safe_load_all(text.partition("```")[0])))


def left_behind(plane: ControlPlane) -> None:
    """A volume and its attachment to a machine that is gone, both deleted."""
    volume = a_pv("released", source={"csi": {"driver": DRIVER, "volumeHandle": "h"}}, finalizers=[FINALIZER])
    attachment = an_attached_va("released-gone", "released", "gone", attacher=DRIVER, finalizers=[FINALIZER])
    for path, body in (("/api/v1/persistentvolumes", volume), (ATTACHMENTS, attachment)):
        status, answer = plane.request("POST", path, body)
        assert 201 == status, answer
        assert 200 == plane.request("DELETE", f"{path}/{body['metadata']['name']}")[0]


async def released(proxy: FaultProxy, *flags: str) -> tuple[int, Any]:
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "release",
        f"--kubeconfig={proxy.kubeconfig}",
        f"--driver={DRIVER}",
    ]
    done = await asyncio.to_thread(
        subprocess.run, [*command, "-o", "json", *flags], capture_output=True, text=True, timeout=60
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


async def test_the_rights_of_its_page_are_enough_and_all_are_needed(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    rights = from_the_page()
    left_behind(control_plane)
    async with acting_as(rights, control_plane, tmp_path) as proxy:
        code, report = await released(proxy)
        assert (3, [None, None]) == (code, [one.get("kept") for one in report["held"]])
        code, report = await released(proxy, "--remove", "--yes")
        assert (0, [True, True]) == (code, [one["released"] for one in report["held"]])
        assert 404 == control_plane.request("GET", f"{ATTACHMENTS}/released-gone")[0]
        assert [] == refused(proxy)
        assert [] == rights.unused(proxy)
