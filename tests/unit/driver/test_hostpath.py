"""The reference driver: every call does what CSI says, again and again."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability, Expansion, Service
from mooring.driver.hostpath import statefile
from mooring.driver.hostpath.attachments import PUBLICATION_KEY
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
    an_unpublication,
    created,
    driver,
    published_nodes,
    refused,
)

PVC = "csi.storage.k8s.io/pvc/name"


async def listed(driver: HostPath, **fields: Any) -> list[str]:
    answer = await driver.list_volumes(csi.ListVolumesRequest(**fields))
    return [entry.volume.volume_id for entry in answer.entries]


ALL = {
    Capability.CREATE_DELETE_VOLUME,
    Capability.PUBLISH_UNPUBLISH_VOLUME,
    Capability.LIST_VOLUMES,
    Capability.GET_CAPACITY,
    Capability.CREATE_DELETE_SNAPSHOT,
    Capability.LIST_SNAPSHOTS,
    Capability.CLONE_VOLUME,
    Capability.PUBLISH_READONLY,
    Capability.EXPAND_VOLUME,
    Capability.LIST_VOLUMES_PUBLISHED_NODES,
    Capability.VOLUME_CONDITION,
    Capability.GET_VOLUME,
    Capability.SINGLE_NODE_MULTI_WRITER,
    Capability.MODIFY_VOLUME,
    Capability.GET_SNAPSHOT,
}


SERVICES = {Service.CONTROLLER_SERVICE, Service.GROUP_CONTROLLER_SERVICE}


async def advertised(driver: HostPath) -> tuple[set[int], set[int], set[int]]:
    """Its services, the ways it expands volumes, and what its controller can do."""
    answer = await driver.get_plugin_capabilities(csi.GetPluginCapabilitiesRequest())
    services = {one.service.type for one in answer.capabilities if one.HasField("service")}
    expansion = {one.volume_expansion.type for one in answer.capabilities if one.HasField("volume_expansion")}
    controller = await driver.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest())
    return services, expansion, {one.rpc.type for one in controller.capabilities}


async def test_it_advertises_what_it_does(driver: HostPath) -> None:
    assert (SERVICES, {Expansion.ONLINE}, ALL) == await advertised(driver)


PUBLISHING = {Capability.PUBLISH_UNPUBLISH_VOLUME, Capability.PUBLISH_READONLY, Capability.LIST_VOLUMES_PUBLISHED_NODES}


@each_row(
    ("left_out", "gone"),
    [
        (Capability.PUBLISH_UNPUBLISH_VOLUME, PUBLISHING),
        (Capability.LIST_VOLUMES, {Capability.LIST_VOLUMES, Capability.LIST_VOLUMES_PUBLISHED_NODES}),
        (Capability.CREATE_DELETE_VOLUME, {Capability.CREATE_DELETE_VOLUME, Capability.CLONE_VOLUME}),
        *(
            (one, {one})
            for one in sorted(ALL - PUBLISHING - {Capability.LIST_VOLUMES, Capability.CREATE_DELETE_VOLUME})
        ),
    ],
)
async def test_what_is_left_out_is_not_advertised_and_takes_along_what_needs_it(
    tmp_path: Path, left_out: int, gone: set[int]
) -> None:
    with a_driver(tmp_path, without=[left_out]) as driver:
        expansion = set() if left_out == Capability.EXPAND_VOLUME else {Expansion.ONLINE}
        groups = set() if left_out == Capability.CREATE_DELETE_SNAPSHOT else {Service.GROUP_CONTROLLER_SERVICE}
        assert ({Service.CONTROLLER_SERVICE, *groups}, expansion, ALL - gone) == await advertised(driver)


async def test_what_is_left_out_is_refused(tmp_path: Path) -> None:
    without = [
        Capability.CREATE_DELETE_SNAPSHOT,
        Capability.CLONE_VOLUME,
        Capability.MODIFY_VOLUME,
        Capability.EXPAND_VOLUME,
    ]
    with a_driver(tmp_path, without=without) as driver:
        volume_id = await created(driver)
        await refused(driver.create_snapshot(a_snapshot_of(volume_id)), Code.UNIMPLEMENTED)
        clone = a_creation("clone", volume_content_source={"volume": {"volume_id": volume_id}})
        await refused(driver.create_volume(clone), Code.INVALID_ARGUMENT, "needs the capability CLONE_VOLUME")
        await refused(
            driver.create_volume(a_creation("m", mutable_parameters={"a": "b"})), Code.INVALID_ARGUMENT, "MODIFY_VOLUME"
        )
        await refused(driver.controller_expand_volume(an_expansion(volume_id, 2 * GIB)), Code.UNIMPLEMENTED)


async def test_without_attach_it_neither_publishes_nor_says_so(tmp_path: Path) -> None:
    with a_driver(tmp_path, attach=False) as driver:
        answer = await driver.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest())
        assert Capability.PUBLISH_UNPUBLISH_VOLUME not in {one.rpc.type for one in answer.capabilities}
        await refused(driver.controller_publish_volume(a_publication(await created(driver))), Code.UNIMPLEMENTED)


# Creating and deleting


async def test_a_volume_is_a_folder_and_its_parameters_are_its_context(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        answer = await driver.create_volume(a_creation(parameters={PVC: "claim"}))
    assert (GIB, {PVC: "claim"}) == (answer.volume.capacity_bytes, dict(answer.volume.volume_context))
    assert (tmp_path / "volumes" / answer.volume.volume_id).is_dir()
    assert "pvc-1" == read_state(tmp_path).volumes[answer.volume.volume_id].name


async def test_the_same_name_gives_the_same_volume(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        assert await created(driver, "one") == await created(driver, "one")
        assert await created(driver, "one") != await created(driver, "two")
    assert 2 == len(list((tmp_path / "volumes").iterdir()))


@each_row(
    "other",
    [
        {"capacity_range": csi.CapacityRange(required_bytes=2 * GIB)},
        {"capacity_range": csi.CapacityRange(limit_bytes=GIB - 1)},
        {"parameters": {PVC: "other"}},
    ],
    fresh=[driver],
)
async def test_the_same_name_with_something_else_exists_already(driver: HostPath, other: dict[str, Any]) -> None:
    await created(driver, "one")
    await refused(driver.create_volume(a_creation("one", **other)), Code.ALREADY_EXISTS, "'one'")


@each_row(
    ("wanted", "size"),
    [
        (None, GIB),
        ({"limit_bytes": 5}, 5),
        ({"required_bytes": 7}, 7),
        ({"required_bytes": 3 * GIB, "limit_bytes": 4 * GIB}, 3 * GIB),
        ({"limit_bytes": 4 * GIB}, GIB),
    ],
    fresh=[driver],
)
async def test_sizes(driver: HostPath, wanted: Any, size: int) -> None:
    assert size == (await driver.create_volume(a_creation(capacity_range=wanted))).volume.capacity_bytes


async def test_capacity_is_shared_and_comes_back(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(capacity_bytes=5 * GIB, volume_bytes_max=3 * GIB)) as driver:
        await refused(driver.create_volume(a_creation(capacity_range={"required_bytes": 4 * GIB})), Code.OUT_OF_RANGE)
        big = await created(driver, "big", capacity_range={"required_bytes": 3 * GIB})
        answer = await driver.get_capacity(csi.GetCapacityRequest())
        assert (2 * GIB, 2 * GIB) == (answer.available_capacity, answer.maximum_volume_size.value)
        wanted = a_creation("other", capacity_range={"required_bytes": 3 * GIB})
        await refused(driver.create_volume(wanted), Code.RESOURCE_EXHAUSTED, f"{2 * GIB} of {5 * GIB} are left")
        await driver.delete_volume(a_deletion(big))
        await driver.create_volume(wanted)


async def test_two_creations_at_once_never_share_the_last_room(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(capacity_bytes=GIB)) as driver:
        results = await asyncio.gather(created(driver, "one"), created(driver, "two"), return_exceptions=True)
        assert 1 == len([one for one in results if isinstance(one, str)])
        assert 1 == len(await listed(driver))


async def test_a_deleted_volume_leaves_nothing_and_deleting_again_is_fine(driver: HostPath, tmp_path: Path) -> None:
    volume_id = await created(driver)
    data = tmp_path / "volumes" / volume_id / "a" / "file"
    data.parent.mkdir()
    data.write_text("data")
    await driver.delete_volume(a_deletion(volume_id))
    assert [] == list((tmp_path / "volumes").iterdir())
    assert volume_id not in read_state(tmp_path).volumes
    await driver.delete_volume(a_deletion(volume_id))
    await driver.delete_volume(a_deletion("never-was"))


async def test_an_id_is_never_taken_for_a_path(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    with a_driver(tmp_path / "state") as driver:
        for hostile in ("../../precious", "..", "/", ".", str(precious), "vol-../../../precious"):
            await driver.delete_volume(a_deletion(hostile))
            await refused(driver.controller_publish_volume(a_publication(hostile)), Code.NOT_FOUND)
        await created(driver, "../../../escape")
    assert precious.is_dir()
    assert ["precious", "state"] == sorted(os.listdir(tmp_path))


async def test_a_published_volume_is_not_deleted(driver: HostPath) -> None:
    volume_id = await created(driver)
    await driver.controller_publish_volume(a_publication(volume_id, "node-2"))
    await refused(driver.delete_volume(a_deletion(volume_id)), Code.FAILED_PRECONDITION, "'node-2'")
    await driver.controller_unpublish_volume(an_unpublication(volume_id, "node-2"))
    await driver.delete_volume(a_deletion(volume_id))


async def test_data_that_can_not_be_removed_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also across a restart, which it does not keep from serving."""
    with monkeypatch.context() as patch:
        patch.setattr(statefile, "remove_tree", _no_permission)
        with a_driver(tmp_path) as driver:
            volume_id = await created(driver)
            await refused(driver.delete_volume(a_deletion(volume_id)), Code.INTERNAL, "can't be removed")
        with a_driver(tmp_path) as driver:
            await refused(driver.delete_volume(a_deletion(volume_id)), Code.INTERNAL, "can't be removed")
    with a_driver(tmp_path) as driver:
        assert [] == list((tmp_path / "volumes").iterdir())
        await driver.delete_volume(a_deletion(volume_id))
        assert [] == list((tmp_path / "volumes").iterdir())


def _no_permission(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))


# Publishing


async def test_publishing_is_remembered_and_its_repetition_gives_the_same_context(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        volume_id = await created(driver)
        first = await driver.controller_publish_volume(a_publication(volume_id))
        assert first == await driver.controller_publish_volume(a_publication(volume_id))
        assert ["node-1"] == await published_nodes(driver, volume_id)
        await driver.controller_unpublish_volume(an_unpublication(volume_id))
        await driver.controller_unpublish_volume(an_unpublication(volume_id))
        assert [] == await published_nodes(driver, volume_id)
        again = await driver.controller_publish_volume(a_publication(volume_id))
    assert ("1", "2") == (first.publish_context[PUBLICATION_KEY], again.publish_context[PUBLICATION_KEY])


async def test_unknown_volumes_and_nodes_are_not_found(driver: HostPath) -> None:
    await refused(driver.controller_publish_volume(a_publication("no-volume")), Code.NOT_FOUND, "'no-volume'")
    await refused(
        driver.controller_publish_volume(a_publication(await created(driver), "no-node")), Code.NOT_FOUND, "'no-node'"
    )


@each_row("change", [{"readonly": True}, {"mode": Mode.MULTI_NODE_MULTI_WRITER}], fresh=[driver])
async def test_published_in_another_way_exists_already(driver: HostPath, change: dict[str, Any]) -> None:
    volume_id = await created(driver)
    await driver.controller_publish_volume(a_publication(volume_id))
    other = a_publication(volume_id, **change)
    await refused(
        driver.controller_publish_volume(other),
        Code.ALREADY_EXISTS,
        "readonly=False and access mode SINGLE_NODE_WRITER",
    )


SNW, SNR, MNR = Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY
MNSW, MNMW = Mode.MULTI_NODE_SINGLE_WRITER, Mode.MULTI_NODE_MULTI_WRITER
SNSW, SNMW = Mode.SINGLE_NODE_SINGLE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER


@each_row(
    ("first", "second", "allowed"),
    [
        *(((mode, False), (mode, False), False) for mode in (SNW, SNR, SNSW, SNMW)),
        *(((mode, False), (mode, False), True) for mode in (MNR, MNMW)),
        ((SNW, True), (SNW, True), False),
        ((MNMW, False), (SNW, False), False),
        ((SNW, False), (MNMW, False), False),
        ((MNSW, False), (MNSW, False), False),
        ((MNSW, False), (MNSW, True), True),
        ((MNSW, True), (MNSW, False), True),
        ((MNMW, False), (MNSW, False), False),
        ((MNMW, False), (MNR, False), True),
    ],
    fresh=[driver],
)
async def test_a_second_node_is_for_multi_node_modes(driver: HostPath, first: Any, second: Any, allowed: bool) -> None:
    volume_id = await created(driver)
    await driver.controller_publish_volume(a_publication(volume_id, "node-1", first[0], readonly=first[1]))
    call = driver.controller_publish_volume(a_publication(volume_id, "node-2", second[0], readonly=second[1]))
    if allowed:
        await call
    else:
        await refused(call, Code.FAILED_PRECONDITION, "'node-1'")
    assert (["node-1", "node-2"] if allowed else ["node-1"]) == await published_nodes(driver, volume_id)


async def test_without_a_node_it_is_unpublished_from_all(driver: HostPath) -> None:
    volume_id = await created(driver)
    for node_id in ("node-3", "node-1"):
        await driver.controller_publish_volume(a_publication(volume_id, node_id, MNMW))
    assert ["node-1", "node-3"] == await published_nodes(driver, volume_id)
    await driver.controller_unpublish_volume(an_unpublication(volume_id, ""))
    assert [] == await published_nodes(driver, volume_id)


async def test_unpublishing_what_is_unknown_is_done_already(driver: HostPath) -> None:
    await driver.controller_unpublish_volume(an_unpublication("no-volume"))
    volume_id = await created(driver)
    await driver.controller_publish_volume(a_publication(volume_id))
    await driver.controller_unpublish_volume(an_unpublication(volume_id, "no-node"))
    assert ["node-1"] == await published_nodes(driver, volume_id)


async def test_a_full_node_takes_no_more(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(attach_max=1)) as driver:
        one, two = await created(driver, "one"), await created(driver, "two")
        await driver.controller_publish_volume(a_publication(one))
        await refused(driver.controller_publish_volume(a_publication(two)), Code.RESOURCE_EXHAUSTED, "'node-1'")
        await driver.controller_publish_volume(a_publication(two, "node-2"))
        await driver.controller_publish_volume(a_publication(one))


# Questions


async def test_pages_are_stable_while_volumes_come_and_go(driver: HostPath) -> None:
    ids = sorted([await created(driver, f"pvc-{number}") for number in range(5)])
    assert ids == await listed(driver)
    first = await driver.list_volumes(csi.ListVolumesRequest(max_entries=2))
    assert ids[:2] == [entry.volume.volume_id for entry in first.entries]
    await driver.delete_volume(a_deletion(ids[1]))
    await driver.delete_volume(a_deletion(ids[3]))
    assert [ids[2], ids[4]] == await listed(driver, starting_token=first.next_token)
    last = await driver.list_volumes(csi.ListVolumesRequest(max_entries=2, starting_token=first.next_token))
    assert "" == last.next_token
    assert [] == await listed(driver, starting_token=ids[4])


async def test_a_foreign_token_is_aborted(driver: HostPath) -> None:
    await refused(
        driver.list_volumes(csi.ListVolumesRequest(starting_token="invalid-token")),
        Code.ABORTED,
        "start from the beginning",
    )


async def test_the_list_tells_where_volumes_are(driver: HostPath, tmp_path: Path) -> None:
    volume_id = await created(driver)
    await driver.controller_publish_volume(a_publication(volume_id))
    entry = (await driver.list_volumes(csi.ListVolumesRequest())).entries[0]
    assert (["node-1"], False) == (list(entry.status.published_node_ids), entry.status.volume_condition.abnormal)
    (tmp_path / "volumes" / volume_id).rmdir()
    entry = (await driver.list_volumes(csi.ListVolumesRequest())).entries[0]
    assert "The source path of the volume doesn't exist" == entry.status.volume_condition.message


async def test_an_unknown_volume_is_not_found_by_questions(driver: HostPath) -> None:
    await refused(driver.controller_get_volume(csi.ControllerGetVolumeRequest(volume_id="v")), Code.NOT_FOUND)
    question = csi.ValidateVolumeCapabilitiesRequest(volume_id="v", volume_capabilities=[a_capability()])
    await refused(driver.validate_volume_capabilities(question), Code.NOT_FOUND)


@each_row(
    ("fields", "reason"),
    [
        ({}, ""),
        ({"volume_context": {PVC: "claim"}, "parameters": {PVC: "claim"}}, ""),
        ({"volume_capabilities": [a_capability(), a_capability(block=True)]}, "is of type mount"),
        ({"volume_capabilities": [a_capability(77)]}, "77"),
        ({"volume_context": {PVC: "other"}}, "volume_context"),
        ({"parameters": {PVC: "other"}}, "parameters"),
        ({"mutable_parameters": {"b": "c"}}, "invalid parameters: [b]"),
        ({"mutable_parameters": {"a": "b"}}, ""),
    ],
)
async def test_capabilities_are_confirmed_or_the_reason_is_told(tmp_path: Path, fields: Any, reason: str) -> None:
    with a_driver(tmp_path, mutable_names=["a"]) as driver:
        volume_id = await created(driver, parameters={PVC: "claim"})
        fields = {"volume_capabilities": [a_capability(MNMW)], **fields}
        answer = await driver.validate_volume_capabilities(
            csi.ValidateVolumeCapabilitiesRequest(volume_id=volume_id, **fields)
        )
    assert answer.HasField("confirmed") is (not reason)
    assert reason in answer.message
    if not reason:
        assert fields["volume_capabilities"] == list(answer.confirmed.volume_capabilities)
