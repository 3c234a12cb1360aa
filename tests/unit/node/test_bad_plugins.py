"""Sockets and drivers that nobody would want on a node: they are told why, and every other driver registers all the
same.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.control.decision import Failed
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving
from mooring.node.csinode.decide import NODE_IDS
from mooring.node.drivers import DriverOnNode
from tests.support.rows import each_row
from tests.unit.node.plugin_world import NodePlugin, RegistryWorld, real_time, registry_world


class StrangePlugin(NodePlugin):
    """answer: to NodeGetInfo. hangs: it never comes."""

    def __init__(self, name: str = "d1", *, hangs: bool = False, **answer: Any) -> None:
        super().__init__(name)
        self.answer = csi.NodeGetInfoResponse(**answer)
        self.hangs = hangs

    async def node_get_info(self, request: Any) -> csi.NodeGetInfoResponse:
        self.asked += 1
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        return self.answer


async def served(world: RegistryWorld, plugin: StrangePlugin) -> StrangePlugin:
    await world.stack.enter_async_context(serving(plugin, str(world.endpoint(plugin.name)), grace_s=0.0))
    return plugin


@asynccontextmanager
async def foreign(path: Path, greeting: bytes) -> AsyncIterator[None]:
    """A server of something else: it says its greeting, and keeps the connection."""

    open_ones: list[asyncio.StreamWriter] = []
    is_over = False

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.append(writer)
        writer.write(greeting)
        if is_over:  # it was accepted before the end, and has its turn only now
            writer.close()

    server = await asyncio.start_unix_server(greet, str(path))
    try:
        yield
    finally:
        server.close()
        is_over = True
        for writer in open_ones:
            writer.close()
        await asyncio.sleep(0)


@each_row("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
@real_time
async def test_a_foreign_socket_keeps_no_other_from_registering(greeting: bytes) -> None:
    async with registry_world() as world, foreign(world.registry / "0.sock", greeting):
        await world.driver()
        async with world.plugin().on(world.registry / "a.sock"):
            await world.until_names("d1")


@real_time
async def test_sockets_that_nobody_serves_keep_no_other_from_registering() -> None:
    async with registry_world(start=False) as world:
        for number in range(20):
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(world.registry / f"{number}.sock"))
        await world.driver()
        async with world.plugin().on(world.registry / "a.sock"):
            await world.start()
            await world.until_names("d1")


@real_time
async def test_a_link_to_a_socket_is_a_socket_and_one_to_a_folder_no_folder() -> None:
    async with registry_world(start=False) as world:
        await world.driver()
        await world.driver("d2")
        async with (
            world.plugin().on(world.folder / "outside.sock"),
            world.plugin("d2").on(world.folder / "hidden.sock") as hidden,
        ):
            link = world.registry / "link.sock"
            link.symlink_to(world.folder / "outside.sock")
            (world.registry / "nowhere.sock").symlink_to(world.folder / "nothing.sock")
            (world.registry / "folder").symlink_to(world.folder)
            await world.start()
            await world.until_names("d1")
            assert 0 == hidden.asked
            link.unlink()
            await world.until_names()


@real_time
async def test_a_driver_that_hangs_is_waited_for_alone() -> None:
    async with registry_world() as world:
        hanging = await served(world, StrangePlugin(hangs=True))
        await world.driver("d2")
        async with (
            world.plugin().on(world.registry / "a.sock") as first,
            world.plugin("d2").on(world.registry / "b.sock"),
        ):
            await world.until_names("d2")
            await world.until_true(lambda: hanging.asked)
            assert ([], None) == (first.told, world.drivers.find("d1"))


@real_time
async def test_a_driver_that_hangs_and_goes_leaves_nothing() -> None:
    """Its place is free for the next one."""
    async with registry_world() as world:
        hanging = await served(world, StrangePlugin(hangs=True))
        async with world.plugin().on(world.registry / "a.sock"):
            await world.until_true(lambda: hanging.asked)
        hanging.hangs = False
        assert [] == await world.names()


@real_time
async def test_a_driver_that_comes_back_with_another_node_id_replaces_its_entry() -> None:
    async with registry_world() as world:
        driver = await served(world, StrangePlugin(node_id="one", accessible_topology={"segments": {"k": "v"}}))
        for node_id, zone in (("one", "v"), ("two", "v"), ("three", "v")):
            driver.answer = csi.NodeGetInfoResponse(node_id=node_id, accessible_topology={"segments": {"k": zone}})
            async with world.plugin().on(world.registry / "a.sock") as plugin:
                await world.until_true(lambda: plugin.told)
                assert [(True, "")] == plugin.told
                metadata = (await world.get(NODES, "n"))["metadata"]
                assert {"d1": node_id} == json.loads(metadata["annotations"][NODE_IDS])
            await world.until_names()


@real_time
async def test_a_driver_whose_topology_changed_is_told_of_the_collision() -> None:
    async with registry_world() as world:
        driver = await served(world, StrangePlugin(node_id="one", accessible_topology={"segments": {"k": "v"}}))
        async with world.plugin().on(world.registry / "a.sock") as plugin:
            await world.until_true(lambda: plugin.told)
        await world.until_names()
        driver.answer = csi.NodeGetInfoResponse(node_id="one", accessible_topology={"segments": {"k": "w"}})
        async with world.plugin().on(world.registry / "a.sock") as plugin:
            await world.until_true(lambda: plugin.told)
            assert not plugin.told[0][0]
            assert "collision" in plugin.told[0][1]
            assert "kubectl label node n k-" in plugin.told[0][1]
            assert [] == await world.names()


@each_row(
    "answer",
    [
        {"node_id": ""},
        {"node_id": "x" * 257},
        {"node_id": "id", "accessible_topology": {"segments": {"no key": "v"}}},
        {"node_id": "id", "accessible_topology": {"segments": {"../../x": "v"}}},
        {"node_id": "id", "accessible_topology": {"segments": {"k": "v" * 64}}},
        {"node_id": "id", "accessible_topology": {"segments": {"": "v"}}},
        {"node_id": "id", "accessible_topology": {"segments": {"k": "a b"}}},
    ],
)
@real_time
async def test_an_answer_that_the_api_server_refuses_is_told_and_undone(answer: dict[str, Any]) -> None:
    async with registry_world() as world:
        await served(world, StrangePlugin(**answer))
        await world.driver("d2")
        async with (
            world.plugin().on(world.registry / "a.sock") as plugin,
            world.plugin("d2").on(world.registry / "b.sock"),
        ):
            await world.until_true(lambda: plugin.told)
            assert not plugin.told[0][0]
            assert plugin.told[0][1].startswith("RegisterPlugin error -- plugin registration failed with err: ")
            await world.until_names("d2")
            assert world.drivers.find("d1") is None


@real_time
async def test_a_newer_version_takes_the_name_over_and_the_older_s_end_changes_nothing() -> None:
    async with registry_world() as world:
        await world.driver()
        async with world.plugin(versions=("1.1.0",)).on(world.registry / "b.sock") as second:
            async with world.plugin().on(world.registry / "a.sock"):
                await world.until_true(lambda: second.told)
                await world.settle(0.2)
            await world.settle(0.3)
            assert (["d1"], (1, 1, 0)) == (await world.names(), world.drivers.get("d1").version)


@real_time
async def test_names_with_any_bytes_in_the_registry_end_nothing() -> None:
    async with registry_world() as world:
        for name in (b"\xff\xfe", "\u202e".encode(), b"a\nb", b" ", b"x" * 255):
            (world.registry / name.decode(errors="surrogateescape")).mkdir()
        await world.driver()
        async with world.plugin().on(world.registry / "a b\nc.sock"):
            await world.until_names("d1")


@real_time
async def test_an_endpoint_that_is_a_file_is_told_with_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.node.plugins.controller.DIAL_S", 0.2)
    async with registry_world(start=False) as world:
        world.endpoint("d1").write_text("no socket")
        path = world.registry / "a.sock"
        async with world.plugin().on(path) as plugin:
            world.watcher._look()
            with pytest.raises(Failed, match=str(world.endpoint("d1"))):
                await world.plugins.perform(path, world.plugins.decide(path))
            assert [False] == [registered for registered, _ in plugin.told]


@real_time
async def test_what_nobody_foresaw_is_told_to_the_plugin_undone_and_tried_again() -> None:
    async with registry_world() as world:
        await world.driver()
        enters, objects = world.plugins._objects.enter, world.plugins._objects
        failures = [KeyError("a bug"), OSError("the disk")]

        async def enter(told: DriverOnNode) -> None:
            if failures:
                raise failures.pop(0)
            await enters(told)

        objects.enter = enter  # type: ignore[method-assign]
        async with world.plugin().on(world.registry / "d1-reg.sock") as plugin:
            await world.until_true(lambda: len(plugin.told) == 3)
        assert [(False, True), (False, True), (True, False)] == [
            (is_registered, "plugin registration failed with err" in text) for is_registered, text in plugin.told
        ]
        assert ["a bug", "the disk"] == [
            part for part in ("a bug", "the disk") if any(part in text for _, text in plugin.told)
        ]
