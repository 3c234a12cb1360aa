"""B4: a blocking call in an async method is named, with its method, when it has ended and while it lasts."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.base import log
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver import steps
from mooring.driver.sdk import Plugin
from mooring.driver.steps import ADVICE, measured, watched
from tests.unit.driver.calls import a_creation


class Told(io.StringIO):
    """The log; said is set by a line that says this."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.said = text, threading.Event()

    def write(self, line: str) -> int:
        if self.text in line:
            self.said.set()
        return super().write(line)


@pytest.fixture
def told() -> Iterator[Told]:
    stream = Told("Blocks the event loop")
    log.configure(stream=stream)
    yield stream
    log.configure()


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def now(self) -> float:
        return self.s


def hold() -> None:
    time.sleep(0.05)


class Blocking(Plugin):
    """A volume is made in so long, on the event loop."""

    name = "blocking.example.com"
    vendor_version = "1"

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        hold()
        return csi.CreateVolumeResponse(volume={"volume_id": "v"})

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        return csi.DeleteVolumeResponse()

    async def validate_volume_capabilities(self, request: Any) -> csi.ValidateVolumeCapabilitiesResponse:
        return csi.ValidateVolumeCapabilitiesResponse()


async def test_a_drivers_method_that_blocks_is_named(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "LONG_S", 0.05)
    assert "v" == (await Blocking().create_volume(a_creation())).volume.volume_id
    assert f" s in create_volume: {ADVICE}" in told.getvalue()


async def test_the_time_of_steps_counts_and_not_that_between_them(told: Told) -> None:
    clock = Clock()

    async def work() -> str:
        clock.s += 0.9
        await asyncio.sleep(0)
        clock.s += 0.9
        return "done"

    async def others() -> None:
        clock.s += 60

    async with asyncio.TaskGroup() as group:
        done = group.create_task(measured_work(work(), clock))
        group.create_task(others())
    assert ("done", "") == (done.result(), told.getvalue())

    async def long() -> None:
        await asyncio.sleep(0)
        clock.s += 5
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await measured(long(), "delete_volume", clock.now)
    assert f"Blocked the event loop for 5.0 s in delete_volume: {ADVICE}" in told.getvalue()


async def measured_work(work: Any, clock: Clock) -> Any:
    return await measured(work, "create_volume", clock.now)


async def test_who_gives_up_reaches_the_method(told: Told) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    running = asyncio.ensure_future(measured_work(work(), Clock()))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (["cancelled"], {}) == (seen, steps._running)


def test_what_has_started_the_loop_does_not_hold_it() -> None:
    """B7: a program's own first line, beneath its loop, was named as the place that holds it."""
    places: list[str] = []
    turned, ours = threading.Event(), threading.get_ident()

    def asked() -> None:
        assert turned.wait(10)
        places.append(steps.where(ours))

    async def asks() -> None:
        asyncio.get_running_loop().call_soon(turned.set)  # once nothing here runs
        await asyncio.to_thread(asked)
        asking = threading.Thread(target=asked)
        asking.start()
        asking.join()  # which holds the loop

    asyncio.run(asks())
    assert places[0] == ""
    assert places[1].startswith(f" at {__file__}:")


async def test_one_that_does_not_end_is_named_while_it_lasts_with_its_place(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "TICK_S", 0.01)

    async def work() -> bool:
        return told.said.wait(60)

    with watched():
        assert await measured(work(), "node_publish_volume", lambda: 0.0)
    assert f"Blocks the event loop in node_publish_volume at {__file__}:" in told.getvalue()
    assert 1 == told.getvalue().count("Blocks the event loop"), "once"
