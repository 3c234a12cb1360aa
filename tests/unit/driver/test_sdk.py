"""What a driver advertises follows from what it overrides; callers only get what is advertised."""

from __future__ import annotations

import asyncio
import functools
import io
import json
from typing import Any

import pytest

from mooring.base import log
from mooring.base.clock import LoopClock
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability, Service
from mooring.driver.guard import CallRecord
from mooring.driver.sdk import Plugin
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import a_creation, a_deletion, a_publication, an_unpublication, refused


class OnlyIdentity(Plugin):
    name = "identity.example.com"
    vendor_version = "1.2"


class Creating(Plugin):
    """Creates and deletes, and does while it does so what the test says."""

    name = "creating.example.com"

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.entered = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.error: BaseException | None = None

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        await self._work(request)
        return csi.CreateVolumeResponse(volume={"volume_id": f"id of {request.name}"})

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        await self._work(request)
        return csi.DeleteVolumeResponse()

    async def _work(self, request: Any) -> None:
        self.calls.append(request)
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error


async def controller_capabilities(plugin: Plugin) -> set[int]:
    answer = await plugin.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest())
    return {one.rpc.type for one in answer.capabilities}


async def services(plugin: Plugin) -> set[int]:
    answer = await plugin.get_plugin_capabilities(csi.GetPluginCapabilitiesRequest())
    return {one.service.type for one in answer.capabilities if one.HasField("service")}


async def test_a_driver_without_controller_methods_has_no_controller_service() -> None:
    plugin = OnlyIdentity()
    assert set() == await services(plugin)
    await refused(plugin.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest()), Code.UNIMPLEMENTED)


async def test_identity_is_answered_by_the_base_class() -> None:
    info = await OnlyIdentity().get_plugin_info(csi.GetPluginInfoRequest())
    assert ("identity.example.com", "1.2") == (info.name, info.vendor_version)
    assert (await OnlyIdentity().probe(csi.ProbeRequest())).ready.value is True


async def test_capabilities_are_those_of_the_overridden_methods() -> None:
    assert {Service.CONTROLLER_SERVICE} == await services(Creating())
    assert {Capability.CREATE_DELETE_VOLUME} == await controller_capabilities(Creating())


async def test_flags_add_what_no_method_shows() -> None:
    class Flagged(Creating):
        controller_flags = (Capability.SINGLE_NODE_MULTI_WRITER, Capability.CLONE_VOLUME)
        plugin_flags = (Service.VOLUME_ACCESSIBILITY_CONSTRAINTS,)
        volume_expansion = (csi.PluginCapability.VolumeExpansion.ONLINE,)

    derived = {Capability.CREATE_DELETE_VOLUME, Capability.SINGLE_NODE_MULTI_WRITER, Capability.CLONE_VOLUME}
    assert derived == await controller_capabilities(Flagged())
    assert {Service.CONTROLLER_SERVICE, Service.VOLUME_ACCESSIBILITY_CONSTRAINTS} == await services(Flagged())
    answer = await Flagged().get_plugin_capabilities(csi.GetPluginCapabilitiesRequest())
    assert [csi.PluginCapability.VolumeExpansion.ONLINE] == [
        one.volume_expansion.type for one in answer.capabilities if one.HasField("volume_expansion")
    ]


async def test_a_flag_that_a_method_shows_is_a_mistake() -> None:
    class Boasting(Creating):
        controller_flags = (Capability.LIST_VOLUMES,)

    with pytest.raises(TypeError, match="LIST_VOLUMES is no flag: override list_volumes"):
        await controller_capabilities(Boasting())


async def test_a_flag_without_its_methods_is_a_mistake() -> None:
    class Boasting(Creating):
        controller_flags = (Capability.PUBLISH_READONLY,)

    with pytest.raises(TypeError, match="PUBLISH_READONLY needs controller_publish_volume"):
        await controller_capabilities(Boasting())


def test_half_a_pair_of_methods_is_a_mistake() -> None:
    class Half(Plugin):
        name = "half.example.com"

        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
            return csi.CreateVolumeResponse()

    with pytest.raises(TypeError, match="Half must override delete_volume too"):
        Half()


async def _coroutine(self: Plugin, request: Any) -> Any:
    return request


def _function(self: Plugin, request: Any) -> Any:
    return request


async def _generator(self: Plugin, request: Any) -> Any:
    yield request


@functools.wraps(_coroutine)
def _decorated(self: Plugin, request: Any) -> Any:
    return _coroutine(self, request)


def a_driver_with(name: str, method: Any) -> Plugin:
    plugin: Plugin = type("Mine", (Creating,), {name: method})()
    return plugin


@each_row(
    ("name", "meant"),
    [
        ("list_volume", "list_volumes"),
        ("create_vol", "create_volume"),
        ("ListVolumes", "list_volumes"),
        ("get_capcity", "get_capacity"),
        ("publish_volume", "controller_publish_volume"),
        ("get_volume", "controller_get_volume"),
        ("validate_capabilities", "validate_volume_capabilities"),
        ("node_publish_volumes", "node_publish_volume"),
        ("NodePublishVolume", "node_publish_volume"),
        ("stage_volume", "node_stage_volume"),
        ("unstage_volume", "node_unstage_volume"),
        ("get_volume_stats", "node_get_volume_stats"),
        ("node_get_stats", "node_get_volume_stats"),
        ("node_expand", "node_expand_volume"),
        ("expand_volume", "controller_expand_volume"),
        ("controller_publish", "controller_publish_volume"),
        ("create_group_snapshot", "create_volume_group_snapshot"),
        ("delete_volume_group_snapshots", "delete_volume_group_snapshot"),
    ],
)
def test_a_coroutine_whose_name_is_nearly_a_call_s_is_refused(name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=rf"^Mine\.{name} is no call of CSI: did you mean {meant}\?"):
        a_driver_with(name, _coroutine)


@each_row("name", ["ListVolumes", "listVolumes"])
def test_a_function_with_a_call_s_name_in_capitals_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"did you mean list_volumes\?"):
        a_driver_with(name, _function)


@each_row(
    ("name", "method"),
    [
        ("list_volumes", _function),
        ("list_volumes", _generator),
        ("list_volumes", None),
        ("list_volumes", staticmethod(_function)),
        ("node_get_info", _function),
    ],
)
def test_a_call_that_is_no_coroutine_is_refused(name: str, method: Any) -> None:
    with pytest.raises(TypeError, match=rf"^Mine\.{name} must be a coroutine: async def {name}\(self, request\)"):
        a_driver_with(name, method)


@each_row(
    ("name", "method"),
    [
        ("list_volumes", _decorated),
        ("list_snapshots", _coroutine),
        ("_list_volume", _coroutine),
        ("clone_volume", _coroutine),
        ("create_volume_folder", _coroutine),
        ("create_volume_dir", _coroutine),
        ("node_stage_volume_at", _coroutine),
        ("close", _coroutine),
        ("list_volume", _function),
        ("list_volume", "no method"),
    ],
)
def test_helpers_and_decorated_calls_are_left_alone(name: str, method: Any) -> None:
    assert method == vars(type(a_driver_with(name, method)))[name]


async def test_what_is_withheld_is_neither_advertised_nor_answered() -> None:
    plugin = Creating()
    plugin.withheld = ("create_volume", "delete_volume")
    assert set() == await services(plugin)
    await refused(plugin.create_volume(a_creation()), Code.UNIMPLEMENTED, "CreateVolume")
    assert [] == plugin.calls


async def test_a_call_without_a_method_is_unimplemented_before_its_fields_are_looked_at() -> None:
    await refused(Creating().controller_publish_volume(csi.ControllerPublishVolumeRequest()), Code.UNIMPLEMENTED)


async def test_a_driver_built_on_another_reaches_the_bare_method() -> None:
    """The guard would take its own call for a second one, and refuse it."""

    class Wrapping(Creating):
        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
            answer = await super().create_volume(request)
            answer.volume.capacity_bytes = 5
            return answer

    assert 5 == (await Wrapping().create_volume(a_creation())).volume.capacity_bytes


async def test_a_second_call_for_the_same_volume_is_aborted_while_the_first_runs() -> None:
    plugin, plugin_gate = Creating(), asyncio.Event()
    plugin.gate = plugin_gate
    async with asyncio.TaskGroup() as group:
        first = group.create_task(plugin.create_volume(a_creation("one")), name="first")
        await asyncio.sleep(0)
        await refused(
            plugin.create_volume(a_creation("one")), Code.ABORTED, "CreateVolume is pending for volume name 'one'"
        )
        other = group.create_task(plugin.create_volume(a_creation("other")), name="other")
        deletion = group.create_task(
            plugin.delete_volume(a_deletion("one")), name="a volume whose id is the other's name"
        )
        await asyncio.sleep(0)
        plugin_gate.set()
    assert ["one", "other", ""] == [getattr(call, "name", "") for call in plugin.calls]
    assert first.result().volume.volume_id == "id of one"
    assert other.done()
    assert deletion.done()
    await plugin.create_volume(a_creation("one"))  # free again


async def test_a_caller_that_gives_up_frees_the_volume() -> None:
    plugin = Creating()
    plugin.gate = asyncio.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await plugin.create_volume(a_creation("one"))
    plugin.gate = None
    await plugin.create_volume(a_creation("one"))


async def test_a_failing_call_frees_the_volume() -> None:
    plugin = Creating()
    plugin.error = DriverError(Code.OUT_OF_RANGE, "too big")
    await refused(plugin.create_volume(a_creation("one")), Code.OUT_OF_RANGE, "too big")
    plugin.error = None
    await plugin.create_volume(a_creation("one"))


async def test_any_other_exception_is_internal_and_its_traceback_is_logged_without_secrets() -> None:
    plugin, lines = Creating(), io.StringIO()
    plugin.error = RuntimeError("login failed for canary-password")
    log.configure(stream=lines)
    try:
        await refused(
            plugin.create_volume(a_creation(secrets={"password": "canary-password"})), Code.INTERNAL, "RuntimeError"
        )
    finally:
        log.configure()
    first, *shown, last = lines.getvalue().splitlines()
    assert first.endswith('"The driver failed" method="CreateVolume" traceback=<')
    assert "\tTraceback (most recent call last):" == shown[0]
    assert "\t    raise self.error" in shown
    assert "\tRuntimeError: login failed for ***stripped***" == shown[-1]
    assert " >" == last
    assert "canary" not in lines.getvalue()


async def test_a_traceback_is_one_field_of_the_json_form() -> None:
    plugin, lines = Creating(), io.StringIO()
    plugin.error = RuntimeError("no route to\nthe storage, canary-password")
    log.configure(stream=lines, json=True)
    try:
        await refused(
            plugin.create_volume(a_creation(secrets={"password": "canary-password"})), Code.INTERNAL, "RuntimeError"
        )
    finally:
        log.configure()
    (line,) = lines.getvalue().splitlines()
    story = json.loads(line)["traceback"]
    assert story.startswith("Traceback (most recent call last):\n")
    assert story.endswith("RuntimeError: no route to\nthe storage, ***stripped***\n")


FULL = DriverError(Code.RESOURCE_EXHAUSTED, "the pool is full")


@each_row(
    ("error", "code"),
    [
        (ExceptionGroup("both", [ValueError(), ExceptionGroup("inner", [FULL])]), Code.RESOURCE_EXHAUSTED),
        (ExceptionGroup("both", [TimeoutError(), ValueError()]), Code.DEADLINE_EXCEEDED),
        (TimeoutError(), Code.DEADLINE_EXCEEDED),
        (ConnectionResetError(), Code.UNAVAILABLE),
        (SystemExit(1), Code.INTERNAL),
    ],
)
async def test_the_code_tells_whether_the_work_may_be_going_on(error: BaseException, code: Code) -> None:
    """Of tasks that failed together, the author's own error counts; a library that ends the process ends its call."""
    plugin = Creating()
    plugin.error = error
    await refused(plugin.create_volume(a_creation()), code, "")


async def test_what_is_longer_than_csi_allows_is_carried_out_and_told_once() -> None:
    plugin, lines = Creating(), io.StringIO()
    log.configure(stream=lines)
    try:
        for name in ("one", "two"):
            await plugin.create_volume(a_creation(name, secrets={"ca.crt": "x" * 5000}))
    finally:
        log.configure()
    assert 1 == lines.getvalue().count("secrets: 5006 bytes, 4096 are allowed")


async def test_a_drivers_own_error_loses_its_secrets() -> None:
    plugin = Creating()
    plugin.error = DriverError(Code.UNAUTHENTICATED, "user admin, password canary, was refused")
    with pytest.raises(DriverError) as caught:
        await plugin.create_volume(a_creation(secrets={"password": "canary"}))
    assert "user admin, password ***stripped***, was refused" == caught.value.message


async def test_an_answer_that_breaks_the_rules_is_internal() -> None:
    class Sloppy(Creating):
        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
            return csi.CreateVolumeResponse(volume={"capacity_bytes": 1})

        async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
            return None  # type: ignore[return-value]

    await refused(Sloppy().create_volume(a_creation()), Code.INTERNAL, "volume.volume_id is required")
    await refused(Sloppy().delete_volume(a_deletion("v")), Code.INTERNAL, "no DeleteVolumeResponse")


async def test_a_broken_request_never_reaches_the_driver() -> None:
    plugin = Creating()
    await refused(plugin.create_volume(csi.CreateVolumeRequest()), Code.INVALID_ARGUMENT, "name is required")
    assert [] == plugin.calls


async def test_observers_see_each_call_without_its_secrets() -> None:
    plugin, seen = Creating(), list[CallRecord]()
    plugin.observe(seen.append, LoopClock())
    await plugin.create_volume(a_creation("one", secrets={"password": "canary"}))
    await refused(plugin.delete_volume(a_deletion("")), Code.INVALID_ARGUMENT)
    await refused(plugin.controller_publish_volume(a_publication("v")), Code.UNIMPLEMENTED)
    await refused(plugin.controller_unpublish_volume(an_unpublication("v")), Code.UNIMPLEMENTED)
    codes = [Code.OK if one.error is None else one.error.code for one in seen]
    assert [Code.OK, Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED, Code.UNIMPLEMENTED] == codes
    assert "CreateVolume" == seen[0].rpc
    assert '"one"' in seen[0].request
    assert "id of one" in seen[0].response
    assert "" == seen[1].response
    assert "canary" not in repr(seen)
    assert all(one.seconds >= 0 for one in seen)


async def test_the_log_shows_calls_without_their_secrets() -> None:
    plugin, lines = Creating(), io.StringIO()
    log.configure(stream=lines, verbosity=5)
    try:
        await plugin.create_volume(a_creation("one", secrets={"password": "canary"}))
        plugin.error = DriverError(Code.OUT_OF_RANGE, "too big for canary")
        await refused(plugin.create_volume(a_creation("two", secrets={"password": "canary"})), Code.OUT_OF_RANGE)
    finally:
        log.configure()
    assert 4 == len(lines.getvalue().splitlines())
    assert "***stripped***" in lines.getvalue()
    assert "canary" not in lines.getvalue()


async def test_a_driver_works_in_process_as_over_a_socket() -> None:
    plugin, call = Creating(), Call(timeout_s=5.0)
    driver = InProcessDriver(plugin, clock=LoopClock())
    assert "id of one" == (await driver.create_volume(a_creation("one"), call)).volume.volume_id
    await refused(driver.create_volume(a_creation(""), call), Code.INVALID_ARGUMENT, "name is required")
    await refused(driver.list_volumes(csi.ListVolumesRequest(), call), Code.UNIMPLEMENTED)
    await refused(driver.node_get_info(csi.NodeGetInfoRequest(), call), Code.UNIMPLEMENTED)
    plugin.gate = asyncio.Event()
    await refused(driver.create_volume(a_creation("two"), Call(timeout_s=0.01)), Code.DEADLINE_EXCEEDED)
