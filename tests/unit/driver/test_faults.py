"""Faults on purpose, the log of calls, metrics and the page of the state: a driver seen from outside."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.driver.hostpath.faults import Deed, Faults
from mooring.driver.hostpath.observed import Observation, cut_connections
from mooring.driver.hostpath.statefile import read_state
from mooring.driver.server import serving_at
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import a_creation, a_deletion, a_driver, refused

SOON = Call(timeout_s=1.0)
PATIENT = Call(timeout_s=20.0)


def write(path: Path, *rules: Any) -> None:
    """As a whole, so that nobody reads a half."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(rules))
    new.replace(path)


@asynccontextmanager
async def served(folder: Path, **options: Any) -> AsyncIterator[WireDriver]:
    """A client of a driver whose calls are observed."""
    async with AsyncExitStack() as stack:
        driver = stack.enter_context(a_driver(folder / "state"))
        observation = await stack.enter_async_context(Observation(**options))
        endpoint = str(folder / "csi.sock")
        await stack.enter_async_context(serving_at(observation.of(driver, endpoint), endpoint))
        client = WireDriver(endpoint, clock=LoopClock())
        stack.push_async_callback(client.close)
        await client.connect()
        yield client


# The rules


@each_row(
    ("match", "calls"),
    [
        ({}, [True, True, True, True]),
        ({"call": 2}, [False, True, False, False]),
        ({"method": "CreateVolume"}, [True, False, True, True]),
        ({"method": "CreateVolume", "call": 2}, [False, False, True, False]),
        ({"volume": "b"}, [False, False, True, False]),
        ({"method": "DeleteVolume", "volume": "b"}, [False, False, False, False]),
    ],
)
def test_a_rule_is_for_the_calls_that_it_names(tmp_path: Path, match: Any, calls: list[bool]) -> None:
    write(tmp_path / "faults", {"match": match, "do": {"hang": True}})
    faults = Faults(tmp_path / "faults", LoopClock())
    made = [("CreateVolume", "a"), ("DeleteVolume", "a"), ("CreateVolume", "b"), ("CreateVolume", "a")]
    assert calls == [faults.of(*call).hang for call in made]


def test_the_first_rule_wins_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "faults"
    faults = Faults(path, LoopClock())
    assert Deed() == faults.of("Probe", "")
    write(path, {"match": {"call": 1}, "do": {"error": "Aborted"}}, {"do": {"error": "Internal"}})
    assert ["Aborted", "Internal"] == [faults.of("Probe", "").error for _ in range(2)]
    write(path, {"do": {"error": "NotFound"}})
    assert "NotFound" == faults.of("Probe", "").error
    path.write_text("{")
    assert "NotFound" == faults.of("Probe", "").error, "a file that can't be read leaves the former rules"
    path.unlink()
    assert Deed() == faults.of("Probe", "")


@each_row(
    ("text", "problem"),
    [
        ("{", "can't be read"),
        ('[{"do": {"explode": true}}]', "explode"),
        ('[{"do": {"error": "Sideways"}}]', "there is no code 'Sideways'"),
        ('[{"do": {"crash": "now"}}]', "crash"),
        ('[{"match": {}}]', "do"),
    ],
)
def test_rules_that_make_no_sense_are_refused_at_the_start(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "faults").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        Faults(tmp_path / "faults", LoopClock())


# What they do


async def test_an_error_comes_before_the_call_and_a_lost_answer_after_it(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    write(
        faults,
        {"match": {"method": "CreateVolume", "call": 1}, "do": {"error": "ResourceExhausted", "text": "no room today"}},
        {"match": {"method": "CreateVolume", "call": 2}, "do": {"lose_answer": True}},
    )
    async with served(tmp_path, faults=str(faults)) as client:
        await refused(client.create_volume(a_creation("one"), PATIENT), Code.RESOURCE_EXHAUSTED, "no room today")
        assert {} == read_state(tmp_path / "state").volumes
        await refused(client.create_volume(a_creation("one"), PATIENT), Code.UNAVAILABLE)
        (volume_id,) = read_state(tmp_path / "state").volumes
        answer = await client.create_volume(a_creation("one"), PATIENT)
        assert volume_id == answer.volume.volume_id


async def test_a_call_that_hangs_ends_with_its_deadline_and_holds_up_nobody(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    write(faults, {"match": {"method": "CreateVolume", "call": 1}, "do": {"hang": True}})
    async with served(tmp_path, faults=str(faults)) as client:
        await refused(client.create_volume(a_creation("one"), SOON), Code.DEADLINE_EXCEEDED)
        await client.create_volume(a_creation("one"), PATIENT)


async def test_a_delay_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path / "faults", {"do": {"delay_s": 3}})
    async with served(tmp_path, faults=str(tmp_path / "faults")) as client:
        await refused(client.probe(csi.ProbeRequest(), SOON), Code.DEADLINE_EXCEEDED)
        await client.probe(csi.ProbeRequest(), PATIENT)


async def test_a_dropped_connection_fails_every_call_on_it_and_another_can_be_made(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    write(
        faults,
        {"match": {"method": "DeleteVolume"}, "do": {"drop": True}},
        {"match": {"method": "GetCapacity"}, "do": {"hang": True}},
    )
    async with served(tmp_path, faults=str(faults)) as client:
        async with asyncio.TaskGroup() as group:
            other = group.create_task(
                refused(client.get_capacity(csi.GetCapacityRequest(), PATIENT), Code.UNAVAILABLE), name="other"
            )
            while not other.done():
                await refused(client.delete_volume(a_deletion("vol-1"), PATIENT), Code.UNAVAILABLE)
                write(faults, {"match": {"method": "GetCapacity"}, "do": {"hang": True}})
                await asyncio.wait([other], timeout=5)
        await client.delete_volume(a_deletion("vol-1"), PATIENT)


# The log and the page


async def test_each_call_is_a_line_of_json_without_secrets(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    async with served(tmp_path, call_log=str(log)) as client:
        await client.create_volume(a_creation("one", secrets={"key": "hidden-value"}), PATIENT)
        await refused(client.delete_volume(a_deletion(""), PATIENT), Code.INVALID_ARGUMENT)
    first, second = (json.loads(line) for line in log.read_text().splitlines())
    assert "hidden-value" not in log.read_text()
    assert ("CreateVolume", "OK", "one", "") == (
        first["method"],
        first["code"],
        first["request"]["name"],
        first["error"],
    )
    assert first["response"]["volume"]["volume_id"]
    assert ("DeleteVolume", "InvalidArgument", None, "volume_id is required") == (
        second["method"],
        second["code"],
        second["response"],
        second["error"],
    )
    assert first["start"] <= first["end"] <= second["end"]


async def test_the_log_shows_secrets_to_those_who_ask_for_them(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    async with served(tmp_path, call_log=str(log), secrets=True) as client:
        await client.create_volume(a_creation("one", secrets={"key": "hidden-value"}), PATIENT)
    assert {"key": "hidden-value"} == json.loads(log.read_text())["request"]["secrets"]


async def test_metrics_and_state_are_told_over_http(tmp_path: Path) -> None:
    with a_driver(tmp_path / "state") as driver:
        async with Observation() as observation, observation.told_on("127.0.0.1:0", driver.state_dump) as port:
            plugin: Any = observation.of(driver, str(tmp_path / "csi.sock"))
            await plugin.create_volume(a_creation("one"))
            with pytest.raises(DriverError):
                await plugin.delete_volume(a_deletion(""))
            metrics, state = await page(port, "/metrics"), await page(port, "/state")
    assert 'csi_driver_operations_seconds_count{grpc_status_code="OK",method_name="CreateVolume"} 1.0' in metrics
    assert (
        'csi_driver_operations_seconds_count{grpc_status_code="InvalidArgument",method_name="DeleteVolume"} 1.0'
        in metrics
    )
    assert ["one"] == [volume["name"] for volume in json.loads(state)["state"]["volumes"].values()]


async def test_the_page_goes_with_a_driver_that_fails(tmp_path: Path) -> None:
    async with Observation() as observation:
        with pytest.raises(ConfigError):
            async with observation.told_on("127.0.0.1:0", lambda: b"{}") as port:
                raise ConfigError("no")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def page(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    assert " 200 " in head.splitlines()[0], head
    return body


async def test_a_cut_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    cut_connections(str(tmp_path / "csi.sock"))
    assert before == len(os.listdir("/proc/self/fd"))
