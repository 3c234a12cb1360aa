"""The start of an agent on a machine that is not as it should be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from mooring.api.core import NODES
from mooring.node.agent import AgentOptions, AgentSockets, NodeAgent
from tests.support.cluster_world import ClusterWorld
from tests.support.virtual_loop import in_virtual_time


class _NoSockets:
    def __init__(self, *_: Any, **options: Any) -> None:
        pass

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("is_bare", [True, False])
@in_virtual_time
async def test_programs_that_are_missing_are_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_bare: bool
) -> None:
    """The agent works without them: file systems need none."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in () if is_bare else ("mount", "umount", "losetup"):
        (tools / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tools))
    world = ClusterWorld()
    agent = NodeAgent(world.runtime, AgentOptions("n", tmp_path / "root"), sockets=AgentSockets(watch=cast(Any, _NoSockets)))
    async with world.running(agent.run()):
        await world.shown(NODES, "n", lambda node: True, wait_s=60.0)
        assert is_bare == ("mount, umount, losetup" in caplog.text)
