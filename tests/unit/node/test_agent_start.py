"""The start of an agent on a machine that is not as it should be."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, cast

import pytest

from mooring.api.core import NODES
from mooring.api.volume_names import unique_name
from mooring.mounts import system
from mooring.node.agent import CONTROLLED_ATTACH, AgentSockets, NodeAgent
from mooring.node.layout import KubeletLayout
from mooring.node.options import AgentOptions
from mooring.node.volumes.state import folders
from tests.support.builders import a_node
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.plugin_world import NoSockets


@each_row("is_bare", [True, False])
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
    monkeypatch.setattr(system, "SBIN", ())
    world = ClusterWorld()
    agent = NodeAgent(
        world.runtime, AgentOptions("n", tmp_path / "root"), sockets=AgentSockets(watch=cast(Any, NoSockets))
    )
    async with world.running(agent.run()):
        await world.shown(NODES, "n", lambda node: True, wait_s=60.0)
        assert is_bare == ("mount, umount, losetup" in caplog.text)


@in_virtual_time
async def test_a_node_that_is_made_anew_has_in_use_what_the_disk_tells_of_from_its_first_moment(tmp_path: Path) -> None:
    """The Node was removed while its agent was away: a list that came later would let the controller detach what is
    mounted.
    """
    world, layout, pods = ClusterWorld(), KubeletLayout(tmp_path / "root"), ("p1", "p2")
    agent = NodeAgent(world.runtime, AgentOptions("n", layout.root), sockets=AgentSockets(watch=cast(Any, NoSockets)))
    found = {layout.staging("d1", "h1").parent: folders.staging_record("d1", "h1")}
    for uid, handle, mode in zip(pods, ("h2", "h3"), (folders.PERSISTENT, folders.EPHEMERAL), strict=True):
        about = folders.publish_record("d1", handle, spec_name=handle, node="n", attachment="va", mode=mode)
        found[layout.target(uid, handle).parent] = about
    for folder, record in found.items():
        folder.mkdir(parents=True)
        folders.write_record(folder, record)
    async with world.running(agent.run()):
        await world.shown(NODES, "n", lambda node: True, wait_s=60.0)
    [made] = world.cluster.writes("create nodes")
    assert [unique_name("d1", "h1"), unique_name("d1", "h2")] == made.body["status"]["volumesInUse"]
    assert made.body["status"]["volumesInUse"] == (await world.get(NODES, "n"))["status"]["volumesInUse"]


@in_virtual_time
async def test_a_node_that_is_there_is_marked_as_managed_and_no_later_one_of_its_name(tmp_path: Path) -> None:
    world = ClusterWorld()
    made = await world.create(a_node("n"))
    agent = NodeAgent(
        world.runtime, AgentOptions("n", tmp_path / "root"), sockets=AgentSockets(watch=cast(Any, NoSockets))
    )
    async with world.running(agent.run()):
        await world.shown(
            NODES,
            "n",
            lambda node: node["metadata"].get("annotations", {}).get(CONTROLLED_ATTACH) == "true",
            wait_s=60.0,
        )
    assert made["metadata"]["uid"] == world.cluster.writes("patch nodes/status")[0].body["metadata"]["uid"]


@in_virtual_time
async def test_a_volume_s_folder_that_the_disk_would_not_remove_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record went before an earlier agent ended; else it would stay until the next start."""
    world, layout = ClusterWorld(), KubeletLayout(tmp_path / "root")
    folder = layout.staging("d1", "h1").parent
    folder.mkdir(parents=True)
    rmdir, failures = os.rmdir, iter([OSError(errno.EIO, "Input/output error")])

    def fails_once(path: Path) -> None:
        if path == folder and (error := next(failures, None)) is not None:
            raise error
        rmdir(path)

    monkeypatch.setattr(os, "rmdir", fails_once)
    agent = NodeAgent(world.runtime, AgentOptions("n", layout.root), sockets=AgentSockets(watch=cast(Any, NoSockets)))

    async def is_gone() -> bool:
        return not folder.exists()

    async with world.running(agent.run()):
        await world.shown(NODES, "n", lambda node: True, wait_s=60.0)
        assert folder.exists()
        await world.until(is_gone, 60.0, "the folder is gone")
