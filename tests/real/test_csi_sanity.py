"""The reference driver, and those of docs/driver.md, under csi-sanity, the tests that CSI drivers are measured by.

csi-sanity asks a node service for capabilities around every test of a controller, and publishes volumes through it. The reference
driver has none yet, so a stand-in on a socket of its own answers for the node; every controller call goes to the driver, which runs
as the process that users start.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving
from mooring.driver.testing import csi_sanity, sanity_obstacle
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.pages import DOCS, blocks
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

NODE_ID, ZONE = "node-1", "topology.kubernetes.io/zone"
ATTACH_MAX = 2
SERVICES = "CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"


PASSED = Counter(
    {
        "GetPluginInfo": 1,
        "GetPluginCapabilities": 1,
        "Probe": 1,
        "ControllerGetCapabilities": 1,
        "GetCapacity": 1,
        "ListVolumes": 3,
        "CreateVolume": 13,
        "DeleteVolume": 3,
        "ValidateVolumeCapabilities": 4,
        "ControllerPublishVolume": 7,
        "ControllerUnpublishVolume": 1,
        "volume lifecycle": 2,
        "CreateSnapshot [Controller Server]": 5,
        "DeleteSnapshot [Controller Server]": 3,
        "ListSnapshots [Controller Server]": 7,
        "GetSnapshot [Controller Server]": 3,
        "ExpandVolume [Controller Server]": 3,
        "ModifyVolume [Controller Server]": 6,
    }
)
"""How many tests of each group must have run: one that was skipped proves nothing."""


class StandInNode:
    """Identity and node services that say yes to everything."""

    async def get_plugin_info(self, request: Any) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name="stand.in", vendor_version="1")

    async def get_plugin_capabilities(self, request: Any) -> csi.GetPluginCapabilitiesResponse:
        return csi.GetPluginCapabilitiesResponse(capabilities=[{"service": {"type": one}} for one in SERVICES])

    async def probe(self, request: Any) -> csi.ProbeResponse:
        return csi.ProbeResponse()

    async def node_get_capabilities(self, request: Any) -> csi.NodeGetCapabilitiesResponse:
        return csi.NodeGetCapabilitiesResponse()

    async def node_get_info(self, request: Any) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id=NODE_ID, max_volumes_per_node=ATTACH_MAX, accessible_topology={"segments": {ZONE: "a"}})

    async def node_publish_volume(self, request: Any) -> csi.NodePublishVolumeResponse:
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: Any) -> csi.NodeUnpublishVolumeResponse:
        return csi.NodeUnpublishVolumeResponse()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Path]:
    """The socket of a running `mooring driver hostpath`."""
    socket = tmp_path / "csi.sock"
    command = [sys.executable, "-m", "mooring.cli.mooring", "driver", "hostpath"]
    flags = [
        f"--endpoint=unix://{socket}",
        f"--state={tmp_path / 'state'}",
        f"--node-id={NODE_ID}",
        f"--topology={NODE_ID}:{ZONE}=a",
        f"--attach-limit={ATTACH_MAX}",
        "--enable-controller-modify-volume",
        "--accepted-mutable-parameter-names=iops",
    ]
    program = Program([*command, *flags], tmp_path / "driver.log")
    try:
        eventually(lambda: socket.exists() or program.assert_alive(), 30, "the driver serves")
        yield socket
        assert 0 == program.stop(), program.log_tail()
        assert not socket.exists()
    finally:
        program.kill()


@pytest.mark.parametrize("access_type", ["mount", "block"])
async def test_the_reference_driver_passes_what_identity_and_controllers_are_asked(tmp_path: Path, driver: Path, access_type: str) -> None:
    (tmp_path / "mutable.yaml").write_text("iops: '3000'\n")
    command = [
        binary("csi-sanity"),
        f"--csi.controllerendpoint=unix://{driver}",
        f"--csi.endpoint=unix://{tmp_path / 'node.sock'}",
        f"--csi.mountdir={tmp_path / 'mount'}",
        f"--csi.stagingdir={tmp_path / 'staging'}",
        "--csi.testnodevolumeattachlimit",
        f"--csi.testvolumeaccesstype={access_type}",
        f"--csi.testvolumemutableparameters={tmp_path / 'mutable.yaml'}",
        f"--ginkgo.json-report={tmp_path / 'report.json'}",
        "--ginkgo.skip=Node Service|GroupController",
        "--ginkgo.no-color",
    ]
    async with serving(StandInNode(), str(tmp_path / "node.sock")):
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

    passed = specs(tmp_path / "report.json", "passed")
    assert PASSED <= Counter(group for *_, group, _ in passed), passed
    for part in ("volumes", "snapshots"):
        assert [] == list((tmp_path / "state" / part).iterdir()), "csi-sanity deletes what it creates"


def specs(report: Path, state: str) -> list[list[str]]:
    """The tests that ended so, each as the names of its groups and its own."""
    reports = json.loads(report.read_text())[0]["SpecReports"]
    return [[*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]] for spec in reports if spec["State"] == state]


SMALL = ("--csi.testvolumesize=67108864", "--csi.testvolumeexpandsize=134217728")


@pytest.mark.parametrize(
    ("number", "name", "options", "flags", "count"),
    [
        pytest.param(0, "Shelf", {"shelf": "FOLDER"}, (), 35, id="folders"),
        pytest.param(1, "Images", {"folder": "FOLDER", "node_id": "desk-1"}, SMALL, 40, id="file systems"),
        pytest.param(1, "Images", {"folder": "FOLDER", "node_id": "desk-1"}, (*SMALL, "--csi.testvolumeaccesstype=block"), 40, id="block"),
    ],
)
def test_the_drivers_of_the_page_pass_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str, options: dict[str, str], flags: tuple[str, ...], count: int
) -> None:
    monkeypatch.setenv("CSI_SANITY", str(binary("csi-sanity")))
    if obstacle := sanity_obstacle():
        not_tested(REAL_MOUNTS, obstacle)
    (tmp_path / "driver.py").write_text(blocks("driver.md")[number])
    volumes = tmp_path / "volumes"
    given = {key: value.replace("FOLDER", str(volumes)) for key, value in options.items()}
    done = csi_sanity(tmp_path / "driver.py", name, given, *flags)
    assert done.ok, done.story
    assert count == len(done.passed)
    assert [] == list(volumes.iterdir()), "csi-sanity deletes what it creates"
    assert f"{count} " in (DOCS / "driver.md").read_text().partition("Of its 103 tests")[2].partition("What it covers")[0]
