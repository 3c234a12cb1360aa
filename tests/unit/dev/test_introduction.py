"""B7: what is wrong with a driver's first answers is told by the call that it is about, with the next step."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import Session
from mooring.dev.extras import Extras, no_provisioner
from mooring.dev.introduction import LIMITS, LastFailure, introduced, name_fault
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time


class Foreign:
    """Somebody's driver. without: methods that it does not serve."""

    def __init__(self, name: str = "csi.example.com", without: str = "") -> None:
        self._name = name
        if without:
            setattr(self, without, None)

    async def probe(self, request: Any) -> csi.ProbeResponse:
        return csi.ProbeResponse()

    async def get_plugin_info(self, request: Any) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self._name, vendor_version="1")

    async def get_plugin_capabilities(self, request: Any) -> csi.GetPluginCapabilitiesResponse:
        service = csi.PluginCapability(service={"type": csi.PluginCapability.Service.CONTROLLER_SERVICE})
        return csi.GetPluginCapabilitiesResponse(capabilities=[service])

    async def controller_get_capabilities(self, request: Any) -> csi.ControllerGetCapabilitiesResponse:
        return csi.ControllerGetCapabilitiesResponse()


async def met(driver: object) -> DriverInfo:
    failure, clock = LastFailure(), LoopClock()
    session = Session(InProcessDriver(driver, clock=clock, metrics=failure), clock=clock, limits=LIMITS)  # type: ignore[arg-type]
    return await introduced(session, failure, where="/run/csi.sock", patience_s=60)


async def test_a_driver_that_says_who_it_is() -> None:
    assert "csi.example.com" == (await met(Foreign())).name
    assert "csi.example.com" == (await met(Foreign(without="probe"))).name, "a call that may be missing is no failure"


@each_row(
    ("driver", "words"),
    [
        (Foreign(without="get_plugin_info"), ["GetPluginInfo fails: ", "Unimplemented", "needs the Identity service"]),
        (Foreign(without="get_plugin_capabilities"), ["GetPluginCapabilities fails: ", "of the Identity service"]),
        (
            Foreign(without="controller_get_capabilities"),
            [
                "ControllerGetCapabilities fails: ",
                "GetPluginCapabilities says CONTROLLER_SERVICE: serve the Controller service",
            ],
        ),
        (Foreign("Ugly_Name!"), ["GetPluginInfo says the name 'Ugly_Name!'", "the form of a domain's"]),
        (Foreign("a" * 64), ["GetPluginInfo says the name"]),
        (Foreign("a..b"), ["GetPluginInfo says the name 'a..b'", "the form of a domain's, as Kubernetes wants it"]),
    ],
)
async def test_the_call_that_is_wrong_is_named_with_the_next_step(driver: Foreign, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        await met(driver)
    assert [] == [one for one in words if one not in str(caught.value)], caught.value
    assert ("Identity" in str(caught.value)) is any("Identity" in one for one in words), "and no other call is blamed"


def answering(answer: csi.ProbeResponse | DriverError | None) -> Foreign:
    """One whose Probe gives this each time; None: nothing at all."""

    class Unready(Foreign):
        async def probe(self, request: Any) -> csi.ProbeResponse:
            if answer is None:
                await asyncio.get_running_loop().create_future()
            if isinstance(answer, DriverError):
                raise answer
            assert answer is not None
            return answer

    return Unready()


@each_row(
    ("driver", "reason"),
    [
        (answering(None), "Probe gets no answer; it has to give one at once, also while the driver is not ready"),
        (
            answering(DriverError(Code.FAILED_PRECONDITION, "no disk")),
            "Probe fails with FailedPrecondition; the driver's log may say why",
        ),
        (answering(csi.ProbeResponse(ready={"value": False})), "Probe says that it is not ready"),
    ],
    ids=["hangs", "fails", "not ready"],
)
@in_virtual_time
async def test_one_that_does_not_get_ready_is_told_so_and_its_socket_is_not_blamed(
    driver: Foreign, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        await met(driver)
    assert f"driver: it is there on /run/csi.sock, and not ready within 60 s: {reason}" == str(caught.value)


async def test_another_failure_is_told_with_its_call() -> None:
    class Broken(Foreign):
        async def probe(self, request: Any) -> csi.ProbeResponse:
            raise DriverError(Code.PERMISSION_DENIED, "no")

    with pytest.raises(ConfigError, match=r"driver: Probe fails: .*; the driver's log may say why"):
        await met(Broken())


@each_row("name", ["csi.example.com", "a", "My.Driver", "a" * 63])
def test_names_that_csi_and_kubernetes_allow(name: str) -> None:
    assert "" == name_fault(name)


@each_row(
    ("driver", "line"),
    [
        (DriverCapabilities("a"), ""),
        (
            DriverCapabilities("a", has_controller=False, creates=False),
            "GetPluginCapabilities does not say CONTROLLER_SERVICE",
        ),
        (DriverCapabilities("a", creates=False), "ControllerGetCapabilities does not say CREATE_DELETE_VOLUME"),
    ],
)
def test_that_no_volume_is_made_is_told_with_the_reason(driver: DriverCapabilities, line: str) -> None:
    told = [one for one in Extras(no_provisioner=no_provisioner(driver)).absent() if "provisioner" in one]
    assert ([f"No provisioner: {line}. Claims stay Pending."] if line else []) == told


def test_a_controller_that_nobody_asks_is_not_said_to_lack_anything() -> None:
    """It may well offer EXPAND_VOLUME."""
    told = list(
        Extras(no_provisioner=no_provisioner(DriverCapabilities("a", has_controller=False, creates=False))).absent()
    )
    assert "No resizer, no snapshotter: GetPluginCapabilities does not say CONTROLLER_SERVICE." == told[-1]
    assert not [line for line in told if "neither" in line]


class Slow(Foreign):
    """Takes its time for every answer."""

    async def get_plugin_info(self, request: Any) -> csi.GetPluginInfoResponse:
        await asyncio.sleep(2)
        return await super().get_plugin_info(request)


@in_virtual_time
async def test_a_driver_that_takes_two_seconds_for_each_call_is_waited_for() -> None:
    assert "csi.example.com" == (await met(Slow())).name


@in_virtual_time
async def test_a_driver_that_never_says_its_name_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    class Mute(Foreign):
        async def get_plugin_info(self, request: Any) -> csi.GetPluginInfoResponse:
            return await asyncio.Event().wait()  # type: ignore[return-value]

    with caplog.at_level(logging.INFO), pytest.raises(ConfigError, match="GetPluginInfo"):
        await met(Mute())
    told = [record.getMessage() for record in caplog.records if "asking again" in record.getMessage()]
    assert 1 == len(told), told
    assert "GetPluginInfo" in told[0]
