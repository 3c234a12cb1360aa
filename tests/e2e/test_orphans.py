"""`mooring orphans` as a program: the reference driver on its socket, embedded and real servers without the kinds of
snapshots.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.csi.driver import Call
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.driver.hostpath.driver import DRIVER_NAME
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from tests.support.builders import a_held_pv
from tests.support.control_plane import ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.programs import Program
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

CAPABILITY = {"mount": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a server that has no definitions, as most clusters begin."""
    if request.param == "embedded":
        with EmbeddedServer(tmp_path_factory.mktemp("server")) as running:
            yield running.kubeconfig
        return
    plane = ControlPlane.start()
    try:
        yield plane.kubeconfig()
    finally:
        plane.stop()


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    """Of a running reference driver."""
    path = tmp_path / "csi.sock"
    flags = [f"--state={tmp_path / 'state'}", "--node-id=node1", f"--endpoint=unix://{path}"]
    program = Program(
        [sys.executable, "-m", "mooring.cli.mooring", "driver", "hostpath", *flags], tmp_path / "driver.log"
    )
    eventually(path.exists, 20, "the driver listens")
    yield path
    program.stop()


def orphans(kubeconfig: Path, socket: Path, *flags: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "orphans",
        f"--kubeconfig={kubeconfig}",
        f"--csi-address={socket}",
        *flags,
    ]
    return subprocess.run(command, input=typed, capture_output=True, text=True, check=False, timeout=60)


def prepare(kubeconfig: Path, socket: Path, *names: str) -> dict[str, str]:
    """Volumes by name; the first has its PersistentVolume."""

    async def made() -> dict[str, str]:
        driver = WireDriver(str(socket), clock=LoopClock())
        await driver.connect(10)
        handles: dict[str, str] = {}
        for name in names:
            request = csi.CreateVolumeRequest(
                name=name, capacity_range={"required_bytes": 1 << 20}, volume_capabilities=[CAPABILITY]
            )
            handles[name] = (await driver.create_volume(request, Call(10))).volume.volume_id
        await driver.close()
        async with HttpCluster(
            load(str(kubeconfig), {}), clock=LoopClock(), randomness=Random(), user_agent="tests"
        ) as cluster:
            source = {"csi": {"driver": DRIVER_NAME, "volumeHandle": handles[names[0]]}}
            await cluster.create(PERSISTENT_VOLUMES.whole(), a_held_pv(names[0], source=source))
        return handles

    return asyncio.run(made())


@pytest.mark.long
def test_a_leaked_volume_is_found_and_deleted_on_demand(kubeconfig: Path, socket: Path) -> None:
    handles = prepare(kubeconfig, socket, "kept", "lost")
    looked = orphans(kubeconfig, socket, "-o", "json")
    assert 3 == looked.returncode, looked.stderr
    found: list[dict[str, Any]] = json.loads(looked.stdout)["orphans"]
    assert [("leaked", handles["lost"], 1 << 20)] == [
        (one["kind"], one["volumeHandle"], one["sizeBytes"]) for one in found
    ]
    refused = orphans(kubeconfig, socket, "--delete", "--older-than=0s", typed="no\n")
    assert 1 == refused.returncode
    assert 3 == orphans(kubeconfig, socket).returncode
    done = orphans(kubeconfig, socket, "--delete", "--older-than=1s", typed=f"{DRIVER_NAME}\n")
    assert 0 == done.returncode, done.stderr
    clean = orphans(kubeconfig, socket)
    assert f"{DRIVER_NAME}: 1 volume, 0 leaked, 0 ghost, 0 abandoned, 0 foreign, 0 begun, 0 doubtful\n" == clean.stdout
    assert 0 == clean.returncode


def test_a_driver_that_is_not_there_is_told(kubeconfig: Path, tmp_path: Path) -> None:
    looked = orphans(kubeconfig, tmp_path / "nothing")
    assert 1 == looked.returncode
    assert looked.stderr.splitlines()[-1].startswith("mooring orphans: no connection to the CSI driver"), looked.stderr
