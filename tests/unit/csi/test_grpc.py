"""What holds of the client on grpcio alone: its channel's options, and what its core writes. The rest stands in test_socket_driver."""

import os
import subprocess
import sys

import pytest

from mooring.csi.grpc import OPTIONS


def test_the_channel_reconnects_within_a_second_and_never_closes_by_itself():
    """Behaviours that take minutes to see: by default the back-off grows to 120 s and an idle channel closes after 30 min."""
    options = dict(OPTIONS)
    assert options["grpc.initial_reconnect_backoff_ms"] == 100
    assert options["grpc.max_reconnect_backoff_ms"] == 1_000
    assert options["grpc.client_idle_timeout_ms"] == 2**31 - 1
    assert options["grpc.use_local_subchannel_pool"] == 1
    assert not [name for name in options if "keepalive" in name]


QUIET = """
import asyncio, os, pathlib, sys
from mooring.base.clock import LoopClock
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call
from mooring.csi.grpc import GrpcDriver
from mooring.csi.proto import csi_pb2 as csi
from tests.unit.csi import raw_server as raw

async def main():
    path = pathlib.Path(sys.argv[1])
    async with raw.raw_server(path) as server:
        server.reply = lambda stream: raw.answer(stream, message=None, status=b"abc")
        driver = GrpcDriver(str(path), clock=LoopClock())
        await driver.connect(5)
        try:
            await driver.probe(csi.ProbeRequest(), Call(5))
        except DriverError as error:
            print(error.code, "GRPC_VERBOSITY" in os.environ)
        await driver.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_grpcs_core_writes_nothing_of_its_own_to_stderr(socket):
    """Every line there has to be in the form of our log. In a program of its own: what counts is who imports grpc first."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    command = [sys.executable, "-c", QUIET, str(socket)]
    quiet = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environ)
    assert (quiet.stdout, quiet.stderr) == ("13 False\n", "")
    environ["GRPC_VERBOSITY"] = "ERROR"  # it can still be asked for
    loud = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environ)
    assert "grpc-status" in loud.stderr
    assert loud.stdout == "13 True\n"
