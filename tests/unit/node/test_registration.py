"""Drivers register through real sockets, and their Node and CSINode are written."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest

from mooring.api.core import NODES
from mooring.control.decision import Failed
from mooring.csi.errors import DriverError
from mooring.node.csinode.decide import NODE_IDS
from mooring.node.plugins.controller import BACK_OFF
from mooring.node.plugins.decide import Step, decide_plugin
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_csi_node, a_node
from tests.support.rows import each_row
from tests.unit.node.plugin_world import real_time, registry_world


@each_row(
    ("present", "registered", "step"),
    [
        (None, None, None),
        (1, None, Step.REGISTER),
        (1, 1, None),
        (None, 1, Step.UNREGISTER),
        pytest.param(2, 1, Step.UNREGISTER, id="REG-6"),
    ],
)
def test_a_socket_is_registered_once_for_each_time_it_is_made(
    present: int | None, registered: int | None, step: Step
) -> None:
    assert ((step,) if step else ()) == decide_plugin(present, registered).actions


@real_time
async def test_REG1_a_socket_that_appears_is_registered() -> None:
    async with registry_world() as world:
        driver = await world.driver()
        async with world.plugin().on(world.registry / "a.sock") as plugin:
            await world.until_true(lambda: plugin.told)
            assert [(True, "")] == plugin.told
            assert (1, 1, ["d1"]) == (plugin.asked, driver.asked, await world.names())
            metadata = (await world.get(NODES, "n"))["metadata"]
            assert ({"d1": "id-d1"}, {"k": "v"}) == (json.loads(metadata["annotations"][NODE_IDS]), metadata["labels"])


@real_time
async def test_REG2_a_socket_that_was_there_first_is_registered() -> None:
    async with registry_world(start=False) as world:
        await world.driver()
        async with world.plugin().on(world.registry / "a.sock"):
            await world.start()
            await world.until_names("d1")


@real_time
async def test_REG3_a_socket_in_a_new_sub_folder_is_registered() -> None:
    async with registry_world() as world:
        await world.driver()
        await world.settle(0.05)
        (world.registry / "sub").mkdir()
        async with world.plugin().on(world.registry / "sub" / "a.sock"):
            await world.until_names("d1")


@real_time
async def test_REG4_files_and_hidden_sockets_are_passed_over() -> None:
    async with registry_world(start=False) as world:
        await world.driver()
        (world.registry / "file.sock").write_text("x")
        (world.registry / "link.sock").symlink_to("file.sock")
        async with (
            world.plugin("hidden").on(world.registry / ".x.sock") as hidden,
            world.plugin().on(world.registry / "y.sock") as seen,
        ):
            await world.start()
            await world.until_names("d1")
            assert (0, 1) == (hidden.asked, seen.asked)


@real_time
async def test_REG5_a_driver_whose_socket_goes_is_taken_off() -> None:
    async with registry_world() as world:
        await world.driver()
        async with world.plugin().on(world.registry / "a.sock") as plugin:
            await world.until_true(lambda: plugin.told)
        await world.until_names()
        await world.until_true(lambda: world.drivers.find("d1") is None)
        await world.settle(0.05)
        metadata = (await world.get(NODES, "n"))["metadata"]
        assert (False, {"k": "v"}) == (NODE_IDS in metadata.get("annotations", {}), metadata["labels"])
        assert (1, 1) == (plugin.asked, len(plugin.told))


@real_time
async def test_REG6_a_socket_that_is_made_anew_is_registered_anew() -> None:
    async with registry_world() as world:
        driver = await world.driver()
        socket = world.registry / "a.sock"
        async with world.plugin().on(socket) as first:
            await world.until_true(lambda: first.told)
            os.unlink(socket)
            async with world.plugin().on(socket) as second:
                await world.until_true(lambda: second.told)
                assert ([(True, "")], 2) == (second.told, driver.asked)
                assert ["d1"] == await world.names()
                taken_off = [request.body for request in world.cluster.writes("patch csinodes")]
                assert ["add", "remove", "add"] == [body[-1]["op"] for body in taken_off]


@real_time
async def test_REG7_a_plugin_of_another_type_is_told_so_and_tried_again() -> None:
    async with registry_world() as world, world.plugin(kind="Foo").on(world.registry / "a.sock") as plugin:
        await world.until_true(lambda: len(plugin.told) >= 2)
        registered, text = plugin.told[0]
        assert not registered
        assert f"no handler registered for plugin type: Foo at socket {world.registry / 'a.sock'}" in text
    assert (0.5, 122.0) == (BACK_OFF.base_s, BACK_OFF.cap_s)


@each_row("versions", [(), ("0.3.0",), ("4.9.12", "2.0.1"), ("var", "boo")])
@real_time
async def test_REG8_a_plugin_without_a_common_version_is_refused(versions: tuple[str, ...]) -> None:
    async with registry_world(start=False) as world:
        socket = world.registry / "a.sock"
        async with world.plugin(versions=versions).on(socket) as plugin:
            world.watcher._look()
            with pytest.raises(Failed, match="CSI versions"):
                await world.plugins.perform(socket, world.plugins.decide(socket))
            assert [False] == [registered for registered, _ in plugin.told]


@real_time
async def test_REG9_one_common_version_is_enough() -> None:
    async with registry_world() as world:
        await world.driver()
        async with world.plugin(versions=("v1.2.3", "boo", "v0.3.0", "2.0.1")).on(world.registry / "a.sock"):
            await world.until_names("d1")
            assert (1, 2, 3) == world.drivers.get("d1").version


@real_time
async def test_REG10_a_second_socket_of_the_same_version_is_refused_and_its_end_changes_nothing() -> None:
    async with registry_world() as world:
        await world.driver()
        async with world.plugin().on(world.registry / "a.sock") as first:
            await world.until_true(lambda: first.told)
            async with world.plugin().on(world.registry / "b.sock") as second:
                await world.until_true(lambda: second.told)
                assert not second.told[0][0]
                assert "already registered with a higher supported version" in second.told[0][1]
            await world.settle(0.1)
            assert (["d1"], [(True, "")]) == (await world.names(), first.told)


@real_time
async def test_REG12_a_driver_that_fails_is_undone_and_told() -> None:
    async with registry_world() as world:
        driver = await world.driver(error=DriverError(Code.INTERNAL, "no metadata"))
        async with world.plugin().on(world.registry / "a.sock") as plugin:
            await world.until_true(lambda: plugin.told)
            assert not plugin.told[0][0]
            assert "no metadata" in plugin.told[0][1]
            assert ([], None) == (await world.names(), world.drivers.find("d1"))
            driver.error = None
            await world.until_names("d1")
            await world.until_true(lambda: plugin.told[-1] == (True, ""))


@real_time
async def test_REG12_what_an_earlier_agent_entered_goes_when_the_driver_fails() -> None:
    """Issue 27, A12."""
    async with registry_world(start=False) as world:
        await world.create(a_node("n", annotations={NODE_IDS: '{"d1":"old","d2":"other"}'}))
        await world.create(a_csi_node("n", {"d1": "old", "d2": "other"}))
        await world.driver(error=DriverError(Code.INTERNAL, "no metadata"))
        await world.run()
        async with world.plugin().on(world.registry / "a.sock") as plugin:
            await world.until_true(lambda: plugin.told)
            assert ["d2"] == await world.names()
            assert {"d2": "other"} == json.loads((await world.get(NODES, "n"))["metadata"]["annotations"][NODE_IDS])


@real_time
async def test_REG14_without_an_endpoint_the_registration_socket_is_the_drivers() -> None:
    async with registry_world() as world:
        plugin = world.plugin()
        plugin.info = dataclasses.replace(plugin.info, endpoint="")
        async with plugin.on(world.registry / "a.sock"):
            await world.until_true(lambda: plugin.told)
            assert "csi.v1.Node" in plugin.told[0][1] or "Method not found" in plugin.told[0][1]


@each_row("endpoint", ["tcp://1.2.3.4:5", "relative.sock", "/" + "a" * 200])
@real_time
async def test_an_endpoint_that_is_no_sockets_is_refused_at_each_try(endpoint: str) -> None:
    """A refused plugin must not count as registered."""
    async with registry_world(start=False) as world:
        socket = world.registry / "a.sock"
        plugin = world.plugin()
        plugin.info = dataclasses.replace(plugin.info, endpoint=endpoint)
        async with plugin.on(socket):
            world.watcher._look()
            for _ in range(2):
                with pytest.raises(Failed, match="endpoint"):
                    await world.plugins.perform(socket, world.plugins.decide(socket))
            assert [False, False] == [registered for registered, _ in plugin.told]


@each_row("name", ["", "../x", "a/b", "a" * 64, "-a", "ä"])
@real_time
async def test_a_name_that_is_no_drivers_is_refused(name: str) -> None:
    async with registry_world(start=False) as world:
        socket = world.registry / "a.sock"
        async with world.plugin(name).on(socket):
            world.watcher._look()
            with pytest.raises(Failed, match="no driver name"):
                await world.plugins.perform(socket, world.plugins.decide(socket))
