"""Sizes, kinds of storage, topology and growth: what there is room for, where, and what is refused with which word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.cli.hostpath_flags import CAPABILITIES
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability, Service
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.layout import StorageLimits
from mooring.driver.hostpath.statefile import read_state
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import (
    GIB,
    Mode,
    a_capability,
    a_creation,
    a_deletion,
    a_driver,
    a_publication,
    a_snapshot_of,
    an_expansion,
    created,
    refused,
)

MIB = 1 << 20
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
ZONES = {"node-1": {ZONE: "a"}, "node-2": {ZONE: "b"}, "node-3": {ZONE: "b"}}
BLOCK = {"volume_capabilities": [a_capability(block=True)]}


def of_size(size: int, **parameters: str) -> dict[str, Any]:
    return {"capacity_range": {"required_bytes": size}, "parameters": parameters}


def requirements(requisite: list[str], preferred: list[str] | None = None) -> dict[str, Any]:
    """By zones."""
    terms = {"requisite": requisite, "preferred": preferred or []}
    return {
        "accessibility_requirements": {
            name: [{"segments": {ZONE: zone}} for zone in zones] for name, zones in terms.items()
        }
    }


async def room(driver: HostPath, zone: str = "", **fields: Any) -> tuple[int, int]:
    """What is left, and the largest volume."""
    if zone:
        fields["accessible_topology"] = {"segments": {ZONE: zone}}
    answer = await driver.get_capacity(csi.GetCapacityRequest(**fields))
    return answer.available_capacity, answer.maximum_volume_size.value


async def zone_of(driver: HostPath, name: str, **fields: Any) -> str:
    answer = await driver.create_volume(a_creation(name, **fields))
    (topology,) = answer.volume.accessible_topology
    assert {ZONE} == topology.segments.keys()
    return topology.segments[ZONE]


# Kinds of storage


async def test_each_kind_has_room_of_its_own(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(kinds={"fast": GIB, "slow": 10 * GIB})) as driver:
        await created(driver, "one", **of_size(600 * MIB, kind="fast"))
        again = a_creation("two", **of_size(600 * MIB, kind="fast"))
        await refused(
            driver.create_volume(again),
            Code.RESOURCE_EXHAUSTED,
            f"of kind 'fast' asked for, {424 * MIB} of {GIB} are left",
        )
        assert (424 * MIB, 424 * MIB) == await room(driver, parameters={"kind": "fast"})
        assert (10 * GIB, 10 * GIB) == await room(driver, parameters={"kind": "slow"})


async def test_without_a_kind_a_volume_goes_where_there_is_room(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(kinds={"fast": GIB, "slow": 2 * GIB})) as driver:
        assert (0, 2 * GIB) == await room(driver), "no capacity is its own, and a volume has room all the same"
        ids = [await created(driver, f"pvc-{number}", **of_size(GIB)) for number in range(3)]
        assert ["fast", "slow", "slow"] == [read_state(tmp_path).volumes[volume_id].kind for volume_id in ids]
        await refused(
            driver.create_volume(a_creation("more", **of_size(1))),
            Code.RESOURCE_EXHAUSTED,
            "delete volumes, or ask for less",
        )


@each_row(
    ("kinds", "parameters", "text"),
    [
        ({}, {"kind": "fast"}, "leave 'kind' out, or start it with --capacity=KIND=SIZE"),
        ({"fast": GIB}, {"kind": "slow"}, "there is no kind 'slow': take one of fast"),
    ],
)
async def test_a_kind_that_there_is_not_is_refused(tmp_path: Path, kinds: Any, parameters: Any, text: str) -> None:
    with a_driver(tmp_path, limits=StorageLimits(kinds=kinds)) as driver:
        await refused(driver.create_volume(a_creation(parameters=parameters)), Code.INVALID_ARGUMENT, text)
        assert (0, 0) == await room(driver, parameters=parameters)


async def test_parameters_that_it_does_not_know_are_ignored_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As with csi-driver-host-path, whose classes are taken over as they are. Told once, and nothing of what the
    cluster adds.
    """
    parameters = {
        "Kind": "fast",
        "type": "ssd",
        "kind": "slow",
        "csi.storage.k8s.io/pvc/name": "claim",
        "csiProvisionerSecretName": "s",
    }
    with a_driver(tmp_path, limits=StorageLimits(kinds={"fast": GIB, "slow": GIB})) as driver:
        answer = await driver.create_volume(a_creation(parameters=parameters))
        assert parameters == dict(answer.volume.volume_context)
        assert answer == await driver.create_volume(a_creation(parameters=parameters))
        for _ in range(2):
            await driver.create_snapshot(
                a_snapshot_of(answer.volume.volume_id, parameters={"speed": "high", "ignoreFailedRead": "true"})
            )
    told = [record.getMessage() for record in caplog.records if "is not known, and ignored" in record.getMessage()]
    assert ["Kind", "type", "speed"] == [message.split('parameter="')[1].split('"')[0] for message in told]


# Sizes


@each_row(
    ("wanted", "code", "text"),
    [
        ({"required_bytes": -1}, Code.INVALID_ARGUMENT, "must not be negative"),
        ({"required_bytes": 2, "limit_bytes": 1}, Code.INVALID_ARGUMENT, "is above limit_bytes 1"),
        (
            {"required_bytes": 2**63 - 1},
            Code.OUT_OF_RANGE,
            "more than the largest volume, 10737418240 bytes: ask for less",
        ),
        (
            {"required_bytes": 1, "limit_bytes": 511},
            Code.OUT_OF_RANGE,
            "whole sectors of 512 bytes, the next size is 512",
        ),
    ],
)
async def test_sizes_that_can_not_be(tmp_path: Path, wanted: Any, code: Code, text: str) -> None:
    with a_driver(tmp_path, limits=StorageLimits(volume_bytes_max=10 * GIB)) as driver:
        await refused(driver.create_volume(a_creation(capacity_range=wanted, **BLOCK)), code, text)


async def test_a_volume_is_either_block_or_mount(driver: HostPath) -> None:
    both = [a_capability(), a_capability(block=True)]
    await refused(
        driver.create_volume(a_creation(volume_capabilities=both)), Code.INVALID_ARGUMENT, "either block or mount"
    )
    await refused(
        driver.create_volume(a_creation(volume_capabilities=[a_capability(77)])),
        Code.INVALID_ARGUMENT,
        "access mode 77",
    )
    assert (0, 0) == await room(driver, volume_capabilities=both)
    volume_id = await created(driver, "block", **BLOCK)
    await refused(driver.controller_publish_volume(a_publication(volume_id)), Code.INVALID_ARGUMENT, "is of type block")
    as_block = a_publication(volume_id, volume_capability=a_capability(Mode.SINGLE_NODE_WRITER, block=True))
    await driver.controller_publish_volume(as_block)


@each_row(
    ("fields", "text"),
    [
        ({"name": ""}, "name is required"),
        ({"name": "a\x00b"}, "name: has control characters"),
        ({"volume_capabilities": []}, "volume_capabilities is required"),
        (
            {"mutable_parameters": {"size": "1"}},
            "invalid parameters: [size]: this driver's mutable parameters are iops",
        ),
    ],
)
async def test_other_requests_that_make_no_sense(tmp_path: Path, fields: Any, text: str) -> None:
    with a_driver(tmp_path, mutable_names=["iops"]) as driver:
        await refused(driver.create_volume(a_creation(**{"name": "n", **fields})), Code.INVALID_ARGUMENT, text)
        assert [] == list((tmp_path / "volumes").iterdir())


# Growth and change


@each_row("block", [{}, BLOCK])
async def test_volumes_grow_and_never_shrink(tmp_path: Path, block: Any) -> None:
    with a_driver(tmp_path, limits=StorageLimits(capacity_bytes=3 * GIB, volume_bytes_max=2 * GIB)) as driver:
        volume_id = await created(driver, **block)
        await created(driver, "other", **of_size(GIB // 2))
        for wanted, size in ((GIB + 512, GIB + 512), (GIB, GIB + 512), (2 * GIB, 2 * GIB), (2 * GIB, 2 * GIB)):
            answer = await driver.controller_expand_volume(an_expansion(volume_id, wanted))
            assert (size, True) == (answer.capacity_bytes, answer.node_expansion_required)
            assert size == read_state(tmp_path).volumes[volume_id].capacity_bytes
        if block:
            assert 2 * GIB == (tmp_path / "volumes" / volume_id).stat().st_size
        await refused(
            driver.controller_expand_volume(an_expansion(volume_id, 2 * GIB + 1)), Code.OUT_OF_RANGE, "largest volume"
        )
        smaller = csi.ControllerExpandVolumeRequest(volume_id=volume_id, capacity_range={"limit_bytes": GIB})
        await refused(driver.controller_expand_volume(smaller), Code.OUT_OF_RANGE, "volumes don't shrink")
        await refused(driver.controller_expand_volume(an_expansion("vol-x", GIB)), Code.NOT_FOUND, "'vol-x'")
        wrong = an_expansion(volume_id, 2 * GIB, volume_capability=a_capability(block=not block))
        await refused(driver.controller_expand_volume(wrong), Code.INVALID_ARGUMENT, "is of type")


async def test_growth_needs_room(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(capacity_bytes=3 * GIB)) as driver:
        volume_id = await created(driver)
        await created(driver, "other")
        await driver.controller_expand_volume(an_expansion(volume_id, 2 * GIB))
        await refused(
            driver.controller_expand_volume(an_expansion(volume_id, 2 * GIB + 1)), Code.RESOURCE_EXHAUSTED, "0 are left"
        )


async def test_mutable_parameters_are_set_one_by_one(tmp_path: Path) -> None:
    def wanted(**parameters: str) -> csi.ControllerModifyVolumeRequest:
        return csi.ControllerModifyVolumeRequest(volume_id=volume_id, mutable_parameters=parameters)

    with a_driver(tmp_path, mutable_names=["iops", "tier"]) as driver:
        volume_id = await created(driver, mutable_parameters={"iops": "100"})
        await driver.controller_modify_volume(wanted(tier="gold"))
        await driver.controller_modify_volume(wanted(iops="200"))
        assert {"iops": "200", "tier": "gold"} == read_state(tmp_path).volumes[volume_id].mutable_parameters
        await refused(
            driver.controller_modify_volume(wanted(b="1", a="1")), Code.INVALID_ARGUMENT, "invalid parameters: [a b]"
        )
        await created(driver, mutable_parameters={"iops": "300"})
        assert "300" == read_state(tmp_path).volumes[volume_id].mutable_parameters["iops"], (
            "asked for again, it is as it was asked for"
        )
        volume_id = "vol-x"
        await refused(driver.controller_modify_volume(wanted(iops="1")), Code.NOT_FOUND, "'vol-x'")


# Topology


async def test_topology_is_advertised_where_there_is_some(tmp_path: Path) -> None:
    with a_driver(tmp_path, topology=ZONES) as driver:
        answer = await driver.get_plugin_capabilities(csi.GetPluginCapabilitiesRequest())
        assert Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in {one.service.type for one in answer.capabilities}
    with a_driver(tmp_path) as driver:
        wanted = a_creation(**requirements(["a"]))
        await refused(
            driver.create_volume(wanted), Code.INVALID_ARGUMENT, "needs the capability VOLUME_ACCESSIBILITY_CONSTRAINTS"
        )


@each_row(
    ("requisite", "preferred", "zone"),
    [
        (["b"], [], "b"),
        (["b"], ["a"], "b"),
        (["a", "b"], [], "a"),
        (["a", "b"], ["b", "a"], "b"),
        (["x", "b"], ["x"], "b"),
        ([], ["b"], "b"),
        ([], ["x"], "a"),
    ],
)
async def test_a_volume_is_where_it_is_wanted(
    tmp_path: Path, requisite: list[str], preferred: list[str], zone: str
) -> None:
    with a_driver(tmp_path, topology=ZONES) as driver:
        for _ in range(2):
            assert zone == await zone_of(driver, "pvc-1", **requirements(requisite, preferred))
        assert zone == await zone_of(driver, "pvc-1", **requirements([])), "where it is, no other word is needed"


async def test_a_volume_goes_to_the_next_place_when_one_is_full(tmp_path: Path) -> None:
    with a_driver(tmp_path, topology=ZONES, limits=StorageLimits(capacity_bytes=2 * GIB)) as driver:
        assert (4 * GIB, 2 * GIB) == await room(driver)
        zones = [await zone_of(driver, f"pvc-{number}", **requirements(["a", "b"])) for number in range(3)]
        assert ["a", "a", "b"] == zones
        assert ((0, 0), (GIB, GIB), (0, 0)) == (
            await room(driver, "a"),
            await room(driver, "b"),
            await room(driver, "x"),
        )
        full = a_creation("more", **requirements(["a"]))
        await refused(
            driver.create_volume(full), Code.RESOURCE_EXHAUSTED, f"asked for in {ZONE}=a, 0 of {2 * GIB} are left"
        )


async def test_a_place_that_no_node_is_in_is_refused(tmp_path: Path) -> None:
    with a_driver(tmp_path, topology=ZONES) as driver:
        nowhere = a_creation(**requirements(["x"]))
        text = f"no node of this driver is in {ZONE}=x: ask for one of {ZONE}=a; {ZONE}=b"
        await refused(driver.create_volume(nowhere), Code.RESOURCE_EXHAUSTED, text)
        await created(driver, "pvc-1", **requirements(["a"]))
        await refused(
            driver.create_volume(a_creation("pvc-1", **requirements(["b"]))), Code.ALREADY_EXISTS, "another topology"
        )


async def test_a_term_may_name_some_of_the_segments(tmp_path: Path) -> None:
    racks = {node: {ZONE: "a", RACK: node[-1]} for node in ("node-1", "node-2", "node-3")}
    with a_driver(tmp_path, topology=racks) as driver:
        answer = await driver.create_volume(a_creation(**requirements(["a"])))
        assert [{ZONE: "a", RACK: "1"}] == [dict(one.segments) for one in answer.volume.accessible_topology]


async def test_a_volume_is_reached_from_its_own_place_only(tmp_path: Path) -> None:
    with a_driver(tmp_path, topology=ZONES) as driver:
        volume_id = await created(driver, **requirements(["b"]))
        text = f"is in {ZONE}=b, and node 'node-1' in {ZONE}=a"
        await refused(
            driver.controller_publish_volume(a_publication(volume_id, "node-1")), Code.FAILED_PRECONDITION, text
        )
        await driver.controller_publish_volume(a_publication(volume_id, "node-3"))
        await refused(driver.delete_volume(a_deletion(volume_id)), Code.FAILED_PRECONDITION, "unpublish it first")
    with a_driver(tmp_path, randomness=Random(8)) as driver:
        answer = await driver.controller_get_volume(csi.ControllerGetVolumeRequest(volume_id=volume_id))
        assert [] == list(answer.volume.accessible_topology), "a driver without topology has none to tell of"


@each_row(
    ("topology", "text"),
    [
        ({"node-9": {ZONE: "a"}}, "there is no node 'node-9'"),
        ({"node-1": {ZONE: "a"}, "node-2": {RACK: "1"}}, "node 'node-2' has other keys than node 'node-1'"),
        ({"node-1": {ZONE: "a"}}, "node 'node-2' has other keys"),
        ({node: {} for node in ("node-1", "node-2")}, "node 'node-1' has other keys"),
        ({"node-1": {"-": "a"}, "node-2": {"-": "a"}}, "'-' of node 'node-1' is no key"),
        ({"node-1": {"A B/zone": "a"}}, "'A B/zone' of node 'node-1' is no key"),
        ({"node-1": {ZONE: "a/b"}}, "'a/b' of node 'node-1' is no value"),
    ],
)
def test_topology_that_makes_no_sense_is_refused_at_the_start(tmp_path: Path, topology: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text.replace("(", r"\(")):
        a_driver(tmp_path / "state", node_ids=["node-1", "node-2"], topology=topology)
    assert not (tmp_path / "state").exists()


def test_every_capability_has_a_name_for_its_flag() -> None:
    assert set(CAPABILITIES) == {name for name, number in Capability.Type.items() if number}
