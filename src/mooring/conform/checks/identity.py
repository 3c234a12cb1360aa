"""Who the driver is, and what it can do."""

from __future__ import annotations

from typing import Final

from mooring.conform.asker import Asker
from mooring.conform.book.errors import NEVER_READY
from mooring.conform.book.identity import NAME, NO_TOPOLOGY, STEADY
from mooring.conform.check import Chapter
from mooring.csi.driver import Driver
from mooring.csi.proto import csi_pb2 as csi

CHAPTER = Chapter()

READY_S_MAX: Final = 5.0
READY_TRIES: Final = 10


@CHAPTER.check(NAME, sanity="Identity Service > GetPluginInfo > should return appropriate information")
async def plugin_info(asker: Asker) -> None:
    """GetPluginInfo answers with a name in domain form, and a version."""
    await asker.must(Driver.get_plugin_info, csi.GetPluginInfoRequest())


@CHAPTER.check(STEADY, sanity="Identity Service > GetPluginCapabilities > should return appropriate capabilities")
async def plugin_capabilities(asker: Asker) -> None:
    """GetPluginCapabilities answers, and as before."""
    await asker.must(Driver.get_plugin_capabilities, csi.GetPluginCapabilitiesRequest())


@CHAPTER.check(NEVER_READY, sanity="Identity Service > Probe > should return appropriate information")
async def probe(asker: Asker) -> None:
    """Probe answers that the driver is ready, five seconds after the start at the latest."""
    for _ in range(READY_TRIES):
        answer = await asker.must(Driver.probe, csi.ProbeRequest())
        if not answer.HasField("ready") or answer.ready.value:
            return
        await asker.pause(READY_S_MAX / READY_TRIES)
    asker.finds(NEVER_READY, Driver.probe, csi.ProbeRequest(), f"ready is false for {READY_S_MAX:g} seconds")


@CHAPTER.check(
    STEADY,
    "Plugin.CONTROLLER_SERVICE",
    sanity="Controller Service [Controller Server] > ControllerGetCapabilities > should return appropriate "
    "capabilities",
)
async def controller_capabilities(asker: Asker) -> None:
    """ControllerGetCapabilities answers, and as before."""
    await asker.must(Driver.controller_get_capabilities, csi.ControllerGetCapabilitiesRequest())


@CHAPTER.check(
    STEADY,
    "Plugin.GROUP_CONTROLLER_SERVICE",
    sanity="GroupController Service [GroupController Server] > GroupControllerGetCapabilities > should return "
    "appropriate capabilities",
)
async def group_capabilities(asker: Asker) -> None:
    """GroupControllerGetCapabilities answers, and as before."""
    await asker.must(Driver.group_controller_get_capabilities, csi.GroupControllerGetCapabilitiesRequest())


@CHAPTER.check(STEADY, "Node", sanity="Node Service > NodeGetCapabilities > should return appropriate capabilities")
async def node_capabilities(asker: Asker) -> None:
    """NodeGetCapabilities answers, and as before."""
    await asker.must(Driver.node_get_capabilities, csi.NodeGetCapabilitiesRequest())


@CHAPTER.check(NO_TOPOLOGY, "Node", sanity="Node Service > NodeGetInfo > should return appropriate values")
async def node_info(asker: Asker) -> None:
    """NodeGetInfo answers with the node's id, and its place where topology is advertised."""
    await asker.must(Driver.node_get_info, csi.NodeGetInfoRequest())
