"""Registrar and agent together: readiness means that CSINode names the driver, and a refusal is explained with what was
seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.csi.errors import DriverError
from mooring.driver.server import serving
from mooring.kube.errors import Forbidden
from mooring.node.csinode.decide import NODE_IDS
from mooring.sidecars.registrar.registrar import Registrar
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.node.plugin_world import NodePlugin, RegistryWorld, real_time, registry_world


class GatedPlugin(NodePlugin):
    """NodeGetInfo waits for the gate."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.gate = asyncio.Event()

    async def node_get_info(self, request: Any) -> Any:
        answer = await super().node_get_info(request)
        await self.gate.wait()
        return answer


@contextlib.asynccontextmanager
async def registrar(world: RegistryWorld, refusals: list[str] | None = None) -> AsyncIterator[Registrar]:
    """The registrar of driver d1."""

    def refused() -> None:
        assert refusals is not None
        refusals.append("refused")

    made = Registrar("d1", str(world.endpoint("d1")), world.registry, clock=world.clock, on_refusal=refused)
    async with world.running(made.run()):
        yield made


@real_time
async def test_readiness_means_that_csinode_names_the_driver() -> None:
    """Seen before each of its steps: nobody asks, then NodeGetInfo runs, and only after CSINode was written it is
    ready.
    """
    async with registry_world(start=False) as world, registrar(world) as made:
        driver = GatedPlugin("d1")
        async with serving(driver, str(world.endpoint("d1")), grace_s=0.0):
            await world.until_true(made.socket.exists)
            assert "has not asked yet" in made.obstacle
            assert str(world.registry) in made.obstacle
            await world.start()
            await world.until_true(lambda: driver.asked)
            assert "has not said yet" in made.obstacle
            assert str(world.endpoint("d1")) in made.obstacle
            assert [] == await world.names()
            driver.gate.set()
            await world.until_true(lambda: made.is_registered)
            assert ("", ["d1"]) == (made.obstacle, await world.names())


async def _nothing(world: RegistryWorld) -> None:
    """The driver alone is at fault."""


async def _csinode_refused(world: RegistryWorld) -> None:
    world.cluster.refuse("create csinodes", times=None, error=Forbidden('csinodes "n" is forbidden'))


async def _another_label(world: RegistryWorld) -> None:
    await world.patch(NODES, "n", {"metadata": {"labels": {"k": "old"}}})


async def _a_broken_annotation(world: RegistryWorld) -> None:
    await world.patch(NODES, "n", {"metadata": {"annotations": {NODE_IDS: "{"}}})


async def _another_registrar(world: RegistryWorld) -> None:
    await world.driver("other")
    plugin = world.plugin("d1")
    plugin.info = dataclasses.replace(plugin.info, endpoint=str(world.endpoint("other")))
    await world.stack.enter_async_context(plugin.on(world.registry / "other.sock"))
    await world.until_names("d1")


@each_row(
    ("trouble", "error", "node_id", "seen", "cause"),
    [
        pytest.param(
            _nothing, DriverError(Code.INTERNAL, "no metadata"), "i", "no metadata", "NodeGetInfo failed", id="driver"
        ),
        pytest.param(
            _nothing,
            DriverError(Code.UNIMPLEMENTED, "unknown"),
            "i",
            "Unimplemented",
            "no node service",
            id="no-node-service",
        ),
        pytest.param(_nothing, None, "", "node", "gave no node id", id="no-node-id"),
        pytest.param(
            _csinode_refused, None, "i", 'csinodes \\"n\\" is forbidden', "the API server refuses", id="refused"
        ),
        pytest.param(_another_label, None, "i", "topology value collision", "remove that label", id="collision"),
        pytest.param(_a_broken_annotation, None, "i", NODE_IDS, "remove or mend it", id="annotation"),
        pytest.param(_another_registrar, None, "i", "other.sock", "another registrar", id="registered-already"),
    ],
)
@real_time
async def test_NDR4_a_refusal_is_told_with_what_was_seen_and_its_likely_cause(
    trouble: Callable[[RegistryWorld], Awaitable[None]],
    error: Exception | None,
    node_id: str,
    seen: str,
    cause: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refusals: list[str] = []
    async with registry_world() as world:
        (await world.driver(error=error)).node_id = node_id
        await trouble(world)
        async with registrar(world, refusals) as made:
            await world.until_true(lambda: refusals)
            assert "has not said yet" in made.obstacle
    (line, *_) = [line for line in capsys.readouterr().err.splitlines() if "Registration process failed" in line]
    reason, _, told = line.partition(" cause=")
    assert seen in reason
    assert cause in told
