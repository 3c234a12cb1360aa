"""`mooring orphans` with the rights that its page says: enough, and all needed, on a real server without the kinds of
snapshots.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import yaml

from mooring.driver.server import serving
from tests.support.control_plane import ControlPlane
from tests.support.orphaned import Listing
from tests.support.rights import Manifest, acting_as, refused

PAGE = Path(__file__).resolve().parents[2] / "docs" / "orphans.md"
OF_A_POD = f"csi-{'0' * 64}"


def from_the_page() -> Manifest:
    (_, text) = PAGE.read_text().split("```yaml\n")
    return Manifest(list(yaml.safe_load_all(text.partition("```")[0])))


async def test_the_rights_of_its_page_are_enough_and_all_are_needed(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    driver, socket, rights = Listing("lost", OF_A_POD, name="orphans.rights.test"), tmp_path / "s", from_the_page()
    async with acting_as(rights, control_plane, tmp_path) as proxy, serving(driver, str(socket), grace_s=0):
        words = ["orphans", f"--kubeconfig={proxy.kubeconfig}", f"--csi-address={socket}", "-o", "json"]
        command = [sys.executable, "-m", "mooring.cli.mooring", *words]
        looked = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert 3 == looked.returncode, looked.stderr
        found = json.loads(looked.stdout)["orphans"]
        assert [(OF_A_POD, 1 << 30), ("lost", 1 << 30)] == [(one["volumeHandle"], one["sizeBytes"]) for one in found]
        assert [] == refused(proxy)
        assert [] == rights.unused(proxy)
