"""Item C.7 of issue 27: what a Node says that it has, from flags or from the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mooring.api.core import NODES
from mooring.base.errors import ConfigError
from mooring.control.caches import Caches
from mooring.control.manager import Manager
from mooring.node.agent import new_node
from mooring.node.heartbeat import Heartbeat
from mooring.node.resources import Resources, decide_resources, machine_resources, resources_of
from tests.support.builders import a_node, typed
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

MACHINE = {"cpu": "8", "memory": "16Gi"}
Given = Mapping[str, str]


@each_row(
    ("capacity", "allocatable", "has", "free"),
    [
        ({}, {}, {**MACHINE, "pods": "110"}, {**MACHINE, "pods": "110"}),
        ({"cpu": "64", "disks": "3"}, {}, {**MACHINE, "cpu": "64", "disks": "3", "pods": "110"}, None),
        ({}, {"cpu": "7500m"}, {**MACHINE, "pods": "110"}, {**MACHINE, "cpu": "7500m", "pods": "110"}),
        ({"pods": "5"}, {"pods": "0"}, {**MACHINE, "pods": "5"}, {**MACHINE, "pods": "0"}),
    ],
)
def test_flags_win_over_the_machine(capacity: Given, allocatable: Given, has: Given, free: Given | None) -> None:
    assert Resources(has, has if free is None else free) == resources_of(MACHINE, 110, capacity, allocatable)


@each_row(
    ("capacity", "allocatable", "words"),
    [
        ({"memory": "3Gb"}, {}, "capacity: memory=3Gb: quantities must match"),
        ({}, {"cpu": "x"}, "allocatable: cpu=x: quantities must match"),
        ({"cpu": "-1"}, {}, "capacity: cpu=-1 is negative"),
        ({}, {"cpu": "8001m"}, "allocatable: cpu=8001m is more than the node has, 8"),
        ({}, {"disks": "1"}, "allocatable: the node has no disks; name it in --capacity, too"),
    ],
)
def test_what_can_not_be_is_refused(capacity: Given, allocatable: Given, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        resources_of(MACHINE, 110, capacity, allocatable)


def test_the_machine_is_asked_also_before_the_root_folder_is_there(tmp_path: Path) -> None:
    found = machine_resources(tmp_path / "not" / "yet")
    assert str(os.cpu_count()) == found["cpu"]
    disk = os.statvfs(tmp_path)
    assert f"{disk.f_blocks * disk.f_frsize // 1024}Ki" == found["ephemeral-storage"]
    [total] = [
        line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:")
    ]
    assert f"{total}Ki" == found["memory"]


WANTED = Resources({"cpu": "4", "memory": "2Gi"}, {"cpu": "1500m", "memory": "2Gi"})


@each_row(
    ("status", "lacking"),
    [
        ({}, {"capacity": WANTED.capacity, "allocatable": WANTED.allocatable}),
        (
            {"capacity": {"cpu": "4", "memory": "2048Mi", "gpu": "1"}, "allocatable": {"cpu": "1.5", "memory": "2Gi"}},
            {},
        ),
        (
            {"capacity": {"cpu": "4", "memory": "2Gi"}, "allocatable": {"cpu": "1", "memory": "2Gi"}},
            {"allocatable": {"cpu": "1500m"}},
        ),
    ],
)
def test_what_the_node_does_not_say_is_written(status: dict[str, Given], lacking: dict[str, Given]) -> None:
    """Another spelling is the same; resources of others are nobody's business here."""
    assert lacking == decide_resources(typed(a_node("n", **status)), WANTED)


@in_virtual_time
async def test_the_agent_says_what_its_node_has_and_makes_it_good() -> None:
    world = ClusterWorld()
    await world.create(new_node("n"))
    caches = Caches(world.runtime)
    heartbeat = Heartbeat(world.runtime, caches, "n", resources=WANTED)
    async with world.running(Manager(caches, heartbeat.controller).run()):
        await world.settle(1.0)
        found = (await world.get(NODES, "n"))["status"]
        assert (WANTED.capacity, WANTED.allocatable) == (found["capacity"], found["allocatable"])
        assert 1 == len(world.cluster.writes("patch nodes/status")), "with the conditions"
        more = {"capacity": {"gpu": "1", "cpu": "1"}, "allocatable": {"gpu": "1"}}
        await world.patch(NODES, "n", {"status": more}, subresource="status")
        await world.settle(1.0)
        found = (await world.get(NODES, "n"))["status"]
        assert {**WANTED.capacity, "gpu": "1"} == found["capacity"]
        assert {**WANTED.allocatable, "gpu": "1"} == found["allocatable"]
        before = len(world.cluster.writes("patch nodes/status"))
        await world.settle(200.0)
        assert before == len(world.cluster.writes("patch nodes/status"))
