"""`mooring driver hostpath` as a process: its endpoints, its end, and its nodes."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.statefile import read_state
from tests.support.programs import Program, free_ports
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.unit.driver.calls import a_creation
from tests.unit.driver.node_calls import a_staging, a_target, a_withdrawal, an_unstaging

pytestmark = pytest.mark.slow


def start(folder: Path, endpoint: str, *flags: str) -> Program:
    """csi-driver-host-path's names for flags are taken, too."""
    words = [
        "driver",
        "hostpath",
        f"--endpoint={endpoint}",
        f"--statedir={folder / 'state'}",
        *(flags or ["-nodeid=node-1"]),
    ]
    log = folder / f"driver-{len(list(folder.glob('*.log')))}.log"
    return Program([sys.executable, "-m", "mooring.cli.mooring", *words], log)


def serves(program: Program) -> None:
    eventually(lambda: '"Serving"' in program.output_alive(), 30, "the driver serves")


async def ask(target: str, method: str, request: Any, answer: Any) -> Any:
    async with grpc.aio.insecure_channel(target) as channel:
        call = channel.unary_unary(
            f"/csi.v1.{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return await call(request, timeout=30)


async def node_id(target: str) -> str:
    answer = await ask(target, "Node/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse)
    return str(answer.node_id)


async def test_HP23_it_serves_on_tcp_too_and_takes_the_place_of_a_socket_that_nobody_answers_on(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    program = start(tmp_path, f"tcp://127.0.0.1:{port}")
    try:
        serves(program)
        assert "node-1" == await node_id(f"127.0.0.1:{port}")
        assert 0 == program.stop(), program.log_tail()
    finally:
        program.kill()
    path = tmp_path / "csi.sock"
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    program = start(tmp_path, f"unix://{path}")
    try:
        serves(program)
        assert "node-1" == await node_id(f"unix:{path}")
        assert 0 == program.stop(), program.log_tail()
    finally:
        program.kill()


async def test_HP24_a_call_that_runs_when_it_is_told_to_end_is_answered_first(tmp_path: Path) -> None:
    path, faults = tmp_path / "csi.sock", tmp_path / "faults"
    faults.write_text(json.dumps([{"match": {"method": "GetCapacity"}, "do": {"delay_s": 2}}]))
    program = start(
        tmp_path, f"unix://{path}", "--node-id=node-1", f"--faults={faults}", f"--call-log={tmp_path / 'calls'}"
    )
    try:
        serves(program)
        await node_id(f"unix:{path}")
        async with asyncio.TaskGroup() as group:
            request = csi.GetCapacityRequest()
            call = group.create_task(
                ask(f"unix:{path}", "Controller/GetCapacity", request, csi.GetCapacityResponse), name="call"
            )
            await asyncio.sleep(0.7)
            assert not call.done()
            program.send(signal.SIGTERM)
            answer = await call
        assert 1 << 40 == answer.available_capacity
        assert 0 == await asyncio.to_thread(program.wait_exit), program.log_tail()
    finally:
        program.kill()
    assert not path.exists()


async def test_each_node_has_a_socket_of_its_own_and_the_driver_a_page(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("csi.sock", "b.sock", "c.sock")]
    (port,) = free_ports(1)
    endpoints = [f"--node-endpoint={node}=unix://{path}" for node, path in zip("bc", paths[1:], strict=True)]
    flags = ["--node-id=a,b,c", "--enable-topology", f"--http-endpoint=127.0.0.1:{port}"]
    program = start(tmp_path, f"unix://{paths[0]}", *flags, *endpoints)
    try:
        for path in paths:
            eventually(lambda path=path: path.exists() or program.assert_alive(), 30, "the driver serves")  # type: ignore[misc]
        assert ["a", "b", "c"] == [await node_id(f"unix:{path}") for path in paths]
        info = await ask(f"unix:{paths[1]}", "Node/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse)
        assert {"topology.hostpath.csi/node": "b"} == dict(info.accessible_topology.segments)
        state = await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{port}/state", timeout=10)
        assert {} == json.loads(state.read())["state"]["volumes"]
        assert 0 == program.stop(), program.log_tail()
    finally:
        program.kill()
    assert not any(path.exists() for path in paths)


async def test_a_crash_on_purpose_loses_nothing_that_was_done(tmp_path: Path) -> None:
    path, faults = tmp_path / "csi.sock", tmp_path / "faults"
    faults.write_text(json.dumps([{"match": {"method": "CreateVolume"}, "do": {"crash": "after"}}]))
    request = a_creation()
    program = start(tmp_path, f"unix://{path}", "--node-id=node-1", f"--faults={faults}")
    try:
        serves(program)
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(f"unix:{path}", "Controller/CreateVolume", request, csi.CreateVolumeResponse)
        assert 128 + signal.SIGKILL == program.wait_exit()
        (volume_id,) = json.loads((tmp_path / "state" / "state.json").read_text())["state"]["volumes"]
    finally:
        program.kill()
    faults.unlink()
    program = start(tmp_path, f"unix://{path}")
    try:
        serves(program)
        answer = await ask(f"unix:{path}", "Controller/CreateVolume", request, csi.CreateVolumeResponse)
        assert volume_id == answer.volume.volume_id
    finally:
        program.kill()


@each_row("when", ["before", "after"])
async def test_a_driver_that_is_killed_at_a_step_on_a_node_goes_on_from_there(tmp_path: Path, when: str) -> None:
    path, faults = tmp_path / "csi.sock", tmp_path / "faults"
    (tmp_path / "staging").mkdir()
    flags = ["--node-id=node-1", "--mounts=link", "--attach=false", f"--faults={faults}"]
    program = start(tmp_path, f"unix://{path}", *flags)
    try:
        serves(program)
        created = await ask(f"unix:{path}", "Controller/CreateVolume", a_creation(), csi.CreateVolumeResponse)
        for request in life(created.volume.volume_id, tmp_path):
            method = type(request).__name__.removesuffix("Request")
            faults.write_text(json.dumps([{"match": {"method": method}, "do": {"crash": when}}]))
            with pytest.raises(grpc.aio.AioRpcError):
                await ask(f"unix:{path}", f"Node/{method}", request, csi.NodeStageVolumeResponse)
            assert 128 + signal.SIGKILL == program.wait_exit()
            faults.unlink()
            program = start(tmp_path, f"unix://{path}", *flags)
            serves(program)
            await ask(f"unix:{path}", f"Node/{method}", request, csi.NodeStageVolumeResponse)
            assert (tmp_path / "target").is_symlink() is (method == "NodePublishVolume")
        deletion = csi.DeleteVolumeRequest(volume_id=created.volume.volume_id)
        await ask(f"unix:{path}", "Controller/DeleteVolume", deletion, csi.DeleteVolumeResponse)
        assert 0 == program.stop(), program.log_tail()
    finally:
        program.kill()
    assert {} == read_state(tmp_path / "state").volumes
    assert [] == list((tmp_path / "state" / "volumes").iterdir())


def life(volume_id: str, folder: Path) -> list[Any]:
    """The calls of a volume's way to a path and back."""
    staging, target = folder / "staging", folder / "target"
    return [
        a_staging(volume_id, staging),
        a_target(volume_id, staging, target),
        a_withdrawal(volume_id, target),
        an_unstaging(volume_id, staging),
    ]
