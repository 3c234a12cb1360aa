"""The flag that chooses what speaks gRPC to the driver: each program that calls one has it, and grpcio is loaded only where chosen."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.base.flags import UsageError, flags_of, parse
from mooring.cli.cluster_registrar import ClusterRegistrarFlags
from mooring.cli.controller_flags import ProcessWideFlags
from mooring.cli.csi_attacher import AttacherFlags
from mooring.cli.csi_provisioner import ProvisionerFlags
from mooring.cli.csi_resizer import ResizerFlags
from mooring.cli.csi_snapshotter import SnapshotterFlags
from mooring.cli.grpc_client import grpc_client
from mooring.cli.livenessprobe_program import ProbeFlags
from mooring.cli.node_agent import NodeAgentFlags
from mooring.cli.orphans import OrphansFlags
from mooring.cli.registrar_program import RegistrarFlags
from mooring.csi.grpc import GrpcDriver
from mooring.csi.wire_driver import WireDriver
from tests.support.programs import Program
from tests.support.waiting import eventually
from tests.unit.cli.test_livenessprobe import ProbedDriver, driver_on

PROGRAMS: list[type[Any]] = [
    *(AttacherFlags, ProvisionerFlags, ResizerFlags, SnapshotterFlags, ProcessWideFlags),
    *(RegistrarFlags, ProbeFlags, ClusterRegistrarFlags, NodeAgentFlags, OrphansFlags),
]


def test_each_name_has_its_client() -> None:
    assert {"mooring": WireDriver, "grpcio": GrpcDriver} == {name: grpc_client(name) for name in ("mooring", "grpcio")}


@pytest.mark.parametrize("table", PROGRAMS, ids=lambda table: table.__name__)
def test_every_program_that_calls_a_driver_has_the_choice(table: type[Any]) -> None:
    assert flags_of(table)["grpc-client"].default == "mooring"
    assert parse(table, ["--grpc-client=grpcio"]).flags.grpc_client == "grpcio"
    with pytest.raises(UsageError, match="mooring or grpcio"):
        parse(table, ["--grpc-client=go"])


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="grpc-") as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "loads"), [([], False), (["--grpc-client=grpcio"], True)], ids=["by-default", "grpcio"])
def test_a_running_program_has_grpcios_core_in_its_memory_only_if_told_to(folder: Path, flags: list[str], loads: bool) -> None:
    words = [sys.executable, "-m", "mooring.cli.livenessprobe", f"--csi-address={folder}/csi.sock", "--http-endpoint=127.0.0.1:0", *flags]
    with driver_on(folder / "csi.sock", ProbedDriver()):
        probe = Program(words, folder / "log")
        try:
            eventually(lambda: "CSI driver name" in (folder / "log").read_text(), 30, "the driver has told its name")
            assert loads == ("cygrpc" in Path(f"/proc/{probe.pid}/maps").read_text())
        finally:
            probe.kill()
