"""The host-path driver on nodes: the codes of its refusals, what may come twice, and several nodes. By links, so that
any user can test.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability, NodeCapability
from mooring.driver.hostpath import statefile
from mooring.driver.hostpath.layout import StorageLimits
from mooring.driver.hostpath.node import staging, targets
from mooring.driver.hostpath.node.mount_mode import LINK, MountMode
from mooring.driver.hostpath.node.mounting import Links
from mooring.driver.hostpath.options import HostpathOptions
from mooring.driver.hostpath.statefile import read_state
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import (
    GIB,
    a_capability,
    a_deletion,
    a_driver,
    a_publication,
    an_expansion,
    created,
    published_nodes,
    refused,
)
from tests.unit.driver.node_calls import (
    MANY_NODES,
    SINGLE_WRITER,
    OnNode,
    a_staging,
    a_target,
    a_withdrawal,
    an_inline,
    an_unstaging,
    linking,
)

STATS = csi.NodeGetVolumeStatsRequest


def everything(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def state_of(folder: Path) -> Any:
    return read_state(folder / "state")


async def node_capabilities(plugin: Any) -> set[int]:
    answer = await plugin.node_get_capabilities(csi.NodeGetCapabilitiesRequest())
    return {one.rpc.type for one in answer.capabilities}


# The life of a volume


async def test_each_step_may_come_twice_and_nothing_is_left(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.create()
        await on_node.attach()
        for step in (on_node.stage, on_node.publish):
            await step()
            await step()
        (on_node.target / "file").write_text("data")
        assert ["file"] == [path.name for path in driver._folder.data(on_node.volume_id).iterdir()]
        for step in (on_node.unpublish, on_node.unstage):
            await step()
            await step()
        assert not on_node.target.is_symlink()
        assert () == state_of(tmp_path).volumes[on_node.volume_id].uses
        await on_node.detach()
        await driver.delete_volume(a_deletion(on_node.volume_id))


async def test_a_volume_is_at_several_paths_and_leaves_them_one_by_one(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.up()
        other = await on_node.publish(tmp_path / "other")
        await on_node.unpublish()
        assert (False, True) == (on_node.target.is_symlink(), other.is_symlink())
        await refused(on_node.unstage(), Code.INTERNAL, f"is still published at '{other}'")
        await on_node.unpublish(other)
        await on_node.unstage()


async def test_what_a_node_has_is_known_after_a_restart(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.up()
    with linking(tmp_path) as driver:
        on_node.driver = on_node.node = driver
        await on_node.publish()
        await on_node.down()
    assert {} == state_of(tmp_path).volumes


# Refusals


async def test_volumes_that_there_are_not(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        for call in (
            driver.node_stage_volume(a_staging("vol-1", tmp_path / "s")),
            driver.node_publish_volume(a_target("vol-1", tmp_path / "s", tmp_path / "t")),
            driver.node_get_volume_stats(STATS(volume_id="vol-1", volume_path="some/path")),
            driver.node_expand_volume(csi.NodeExpandVolumeRequest(volume_id="vol-1", volume_path="some/path")),
        ):
            await refused(call, Code.NOT_FOUND)


async def test_a_volume_that_is_not_known_is_nowhere_and_what_others_have_stays(tmp_path: Path) -> None:
    """A node that was given up comes back to volumes that were deleted meanwhile: it has to let them go."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "data").write_text("data")
    (tmp_path / "link").symlink_to("data")
    with linking(tmp_path) as driver:
        for name in ("nothing", "folder", "file", "precious", "data", "link"):
            await driver.node_unpublish_volume(a_withdrawal("../../vol-1", tmp_path / name))
        await driver.node_unstage_volume(an_unstaging("vol-1", tmp_path / "precious"))
    assert {"data", "link", "precious", "state"} == set(os.listdir(tmp_path))
    assert (tmp_path / "precious" / "file").exists()


async def test_volumes_that_do_not_fit_the_request(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.create()
        await on_node.attach()
        as_block = {"volume_capability": a_capability(block=True)}
        await refused(on_node.stage(**as_block), Code.INVALID_ARGUMENT, "is of type mount")
        await on_node.stage()
        await refused(on_node.publish(**as_block), Code.INVALID_ARGUMENT, "is of type mount")
        elsewhere = a_target(on_node.volume_id, tmp_path / "elsewhere", on_node.target)
        await refused(driver.node_publish_volume(elsewhere), Code.INVALID_ARGUMENT, "is staged at")
        await on_node.publish()
        await refused(on_node.publish(readonly=True), Code.ALREADY_EXISTS, "readonly=False")


ANY_WRITER = a_capability()


@each_row(
    ("first", "second"), [(ANY_WRITER, SINGLE_WRITER), (SINGLE_WRITER, SINGLE_WRITER), (SINGLE_WRITER, ANY_WRITER)]
)
async def test_a_single_writer_has_one_path(tmp_path: Path, first: Any, second: Any) -> None:
    with linking(tmp_path, attach=False) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.create()
        await on_node.stage()
        await on_node.publish(volume_capability=first)
        again = on_node.publish(tmp_path / "other", volume_capability=second)
        await refused(again, Code.FAILED_PRECONDITION, "SINGLE_NODE_SINGLE_WRITER allows one path")


async def test_a_target_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.create()
        await on_node.attach()
        await on_node.stage()
        on_node.target.write_text("somebody else's")
        await refused(on_node.publish(), Code.ALREADY_EXISTS, "leads to something else")
        assert "somebody else's" == on_node.target.read_text()
        await on_node.unpublish()
        assert "somebody else's" == on_node.target.read_text(), "it was never published there"
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "file").touch()
        await refused(on_node.publish(tmp_path / "full"), Code.INTERNAL, "not empty")
        await refused(on_node.publish(tmp_path / "no" / "parent"), Code.INTERNAL, "No such file")
        assert () == state_of(tmp_path).volumes[on_node.volume_id].uses[0].targets, "what failed is not recorded"


async def test_an_empty_folder_at_the_target_gives_way(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        on_node.target.mkdir()
        await on_node.up()
        assert on_node.target.is_symlink()


async def test_a_volume_in_another_place_is_not_staged_here(tmp_path: Path) -> None:
    topology = {f"node-{number}": {"zone": f"z{number}"} for number in (1, 2, 3)}
    with linking(tmp_path, topology=topology, attach=False) as driver:
        on_node = OnNode(driver, tmp_path, node=driver.node("node-2"), node_id="node-2")
        await on_node.create()
        await refused(on_node.stage(), Code.FAILED_PRECONDITION, "volume")


# Volumes in use


async def test_a_volume_in_use_is_not_deleted_and_a_dead_node_does_not_count(tmp_path: Path) -> None:
    """Without the check of the life cycle."""
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.up()
        await refused(driver.delete_volume(a_deletion(on_node.volume_id)), Code.FAILED_PRECONDITION, "'node-1'")
        await on_node.detach()
        await refused(on_node.publish(tmp_path / "late"), Code.FAILED_PRECONDITION, "no longer attached")
        await driver.delete_volume(a_deletion(on_node.volume_id))
        for _ in range(2):
            await on_node.unpublish()
        assert not on_node.target.is_symlink(), "the node comes back, and clears what it had"


@each_row("block", [False, True])
async def test_what_is_left_empty_at_a_target_goes_with_it(tmp_path: Path, block: bool) -> None:
    """The record is lost, and a reboot took the mount."""
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path, block=block)
        await on_node.create()
        on_node.target.touch() if block else on_node.target.mkdir()
        await on_node.unpublish()
        assert not on_node.target.exists()


async def test_without_attach_what_a_node_has_is_in_use(tmp_path: Path) -> None:
    with linking(tmp_path, attach=False) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.create()
        await on_node.stage()
        await refused(driver.delete_volume(a_deletion(on_node.volume_id)), Code.FAILED_PRECONDITION, "'node-1'")
        await on_node.unstage()
        await driver.delete_volume(a_deletion(on_node.volume_id))


# Several nodes


async def test_nodes_of_one_driver_share_its_volumes_and_know_themselves_apart(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        first = OnNode(driver, tmp_path)
        first.capability = MANY_NODES
        await first.up()
        second = OnNode(driver, tmp_path, node=driver.node("node-2"), node_id="node-2")
        second.volume_id, second.capability = first.volume_id, MANY_NODES
        await refused(second.stage(), Code.INTERNAL, "not attached to node 'node-2'")
        await second.attach()
        await second.stage()
        await second.publish()
        (first.target / "file").write_text("seen by both")
        assert "seen by both" == (second.target / "file").read_text()
        assert ["node-1", "node-2"] == await published_nodes(driver, first.volume_id)
        entry = (await driver.list_volumes(csi.ListVolumesRequest())).entries[0]
        assert ["node-1", "node-2"] == list(entry.status.published_node_ids)
        for one in (first, second):
            await one.unpublish()
            await one.unstage()
            await one.detach()
        assert [] == await published_nodes(driver, first.volume_id)
        for plugin, node_id in ((driver, "node-1"), (second.node, "node-2")):
            assert node_id == (await plugin.node_get_info(csi.NodeGetInfoRequest())).node_id
        with pytest.raises(ConfigError, match="there is no node 'node-9'"):
            driver.node("node-9")


async def test_another_nodes_service_has_no_controller(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        node = driver.node("node-2")
        await refused(node.create_volume(csi.CreateVolumeRequest()), Code.UNIMPLEMENTED)
        answer = await node.get_plugin_capabilities(csi.GetPluginCapabilitiesRequest())
        assert [] == [one.service.type for one in answer.capabilities if one.HasField("service")]
        assert driver.name == (await node.get_plugin_info(csi.GetPluginInfoRequest())).name
        assert await node_capabilities(driver) == await node_capabilities(node)


async def test_a_node_tells_its_place_and_its_limit(tmp_path: Path) -> None:
    topology = {f"node-{number}": {"zone": f"z{number}"} for number in (1, 2, 3)}
    with linking(tmp_path, topology=topology, options=HostpathOptions(volumes_per_node=5)) as driver:
        info = await driver.node("node-2").node_get_info(csi.NodeGetInfoRequest())
        assert ("node-2", 5, {"zone": "z2"}) == (
            info.node_id,
            info.max_volumes_per_node,
            dict(info.accessible_topology.segments),
        )


# Capabilities

ALL = {
    NodeCapability.STAGE_UNSTAGE_VOLUME,
    NodeCapability.GET_VOLUME_STATS,
    NodeCapability.EXPAND_VOLUME,
    NodeCapability.VOLUME_CONDITION,
    NodeCapability.SINGLE_NODE_MULTI_WRITER,
}


@each_row(
    ("options", "gone"),
    [
        ({}, set()),
        ({"without_on_nodes": [NodeCapability.STAGE_UNSTAGE_VOLUME]}, {NodeCapability.STAGE_UNSTAGE_VOLUME}),
        (
            {"without_on_nodes": [NodeCapability.GET_VOLUME_STATS]},
            {NodeCapability.GET_VOLUME_STATS, NodeCapability.VOLUME_CONDITION},
        ),
        ({"without_on_nodes": [NodeCapability.EXPAND_VOLUME]}, {NodeCapability.EXPAND_VOLUME}),
        ({"without": [Capability.SINGLE_NODE_MULTI_WRITER]}, {NodeCapability.SINGLE_NODE_MULTI_WRITER}),
    ],
)
async def test_capabilities_of_a_node_can_be_left_out(tmp_path: Path, options: Any, gone: set[int]) -> None:
    with linking(tmp_path, **options) as driver:
        assert ALL - gone == await node_capabilities(driver)
        assert ALL - gone == await node_capabilities(driver.node("node-2"))


async def test_a_driver_that_stages_nothing_publishes_at_once(tmp_path: Path) -> None:
    with linking(tmp_path, without_on_nodes=[NodeCapability.STAGE_UNSTAGE_VOLUME]) as driver:
        volume_id = await created(driver)
        await driver.controller_publish_volume(a_publication(volume_id))
        await driver.node_publish_volume(a_target(volume_id, "", tmp_path / "target"))
        assert (tmp_path / "target").is_dir()
        await driver.node_unpublish_volume(a_withdrawal(volume_id, tmp_path / "target"))
        assert () == state_of(tmp_path).volumes[volume_id].uses


async def test_the_group_of_a_volume_needs_its_capability(tmp_path: Path) -> None:
    of_group = a_capability()
    of_group.mount.volume_mount_group = "4321"
    with linking(tmp_path, attach=False) as driver:
        volume_id = await created(driver)
        await refused(
            driver.node_stage_volume(a_staging(volume_id, tmp_path, volume_capability=of_group)), Code.INVALID_ARGUMENT
        )
    with linking(tmp_path, attach=False, options=HostpathOptions(mount_group=True)) as driver:
        assert NodeCapability.VOLUME_MOUNT_GROUP in await node_capabilities(driver)


# Statistics and expansion


async def test_statistics_are_of_the_path_and_tell_its_health(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        target = await on_node.up()
        for path in (target, on_node.staging):
            answer = await driver.node_get_volume_stats(STATS(volume_id=on_node.volume_id, volume_path=str(path)))
            assert {csi.VolumeUsage.BYTES, csi.VolumeUsage.INODES} == {usage.unit for usage in answer.usage}
            assert all(usage.total >= usage.used > 0 for usage in answer.usage)
            assert not answer.volume_condition.abnormal
        await refused(
            driver.node_get_volume_stats(STATS(volume_id=on_node.volume_id, volume_path=str(tmp_path))), Code.NOT_FOUND
        )
        target.unlink()
        await refused(
            driver.node_get_volume_stats(STATS(volume_id=on_node.volume_id, volume_path=str(target))), Code.NOT_FOUND
        )


async def test_statistics_tell_that_the_data_is_gone(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.up()
        driver._folder.data(on_node.volume_id).rmdir()
        answer = await driver.node_get_volume_stats(
            STATS(volume_id=on_node.volume_id, volume_path=str(on_node.staging))
        )
        assert (True, "The source path of the volume doesn't exist") == (
            answer.volume_condition.abnormal,
            answer.volume_condition.message,
        )


def expand(
    on_node: OnNode, size: int | None = 2 * GIB, path: Path | str | None = None, **fields: Any
) -> Awaitable[Any]:
    wanted = {} if size is None else {"capacity_range": {"required_bytes": size}}
    path = on_node.target if path is None else path
    answer: Awaitable[Any] = on_node.node.node_expand_volume(
        csi.NodeExpandVolumeRequest(volume_id=on_node.volume_id, volume_path=str(path), **wanted, **fields)
    )
    return answer


async def test_a_volume_grows_by_controller_and_node(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path, block=True)
        await on_node.up()
        answer = await driver.controller_expand_volume(an_expansion(on_node.volume_id, 2 * GIB))
        assert (2 * GIB, True) == (answer.capacity_bytes, answer.node_expansion_required)
        assert 2 * GIB == (await expand(on_node)).capacity_bytes
        assert 2 * GIB == on_node.target.stat().st_size


async def test_a_node_grows_a_volume_alone_where_the_controller_does_not(tmp_path: Path) -> None:
    with linking(tmp_path, without=[Capability.EXPAND_VOLUME]) as driver:
        on_node = OnNode(driver, tmp_path, block=True)
        await on_node.up()
        assert 2 * GIB == (await expand(on_node)).capacity_bytes
        assert (2 * GIB, 2 * GIB) == (
            on_node.target.stat().st_size,
            state_of(tmp_path).volumes[on_node.volume_id].capacity_bytes,
        )


async def test_without_expansion_on_nodes_the_controller_asks_for_none(tmp_path: Path) -> None:
    with linking(tmp_path, without_on_nodes=[NodeCapability.EXPAND_VOLUME]) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.up()
        answer = await driver.controller_expand_volume(an_expansion(on_node.volume_id, 2 * GIB))
        assert not answer.node_expansion_required
        await refused(expand(on_node), Code.UNIMPLEMENTED)


async def test_expansions_that_can_not_be(tmp_path: Path) -> None:
    with linking(
        tmp_path, options=HostpathOptions(node_volume_bytes_max=3 * GIB), limits=StorageLimits(volume_bytes_max=8 * GIB)
    ) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.up()
        (tmp_path / "file").touch()
        for path in (tmp_path / "nothing", tmp_path / "file", ""):
            await refused(expand(on_node, path=path), Code.INVALID_ARGUMENT, "volume_path")
        await refused(expand(on_node, None), Code.INVALID_ARGUMENT, "capacity_range is required")
        await refused(expand(on_node, 4 * GIB), Code.OUT_OF_RANGE, "that a volume on a node may have")
        await refused(
            expand(on_node, volume_capability=a_capability(block=True)), Code.INVALID_ARGUMENT, "is of type mount"
        )


# Pods' own volumes


async def test_a_pods_own_volume_is_made_and_deleted_with_its_path(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        target = tmp_path / "target"
        for _ in range(2):
            await driver.node_publish_volume(an_inline("csi-1", target))
        (target / "file").write_text("data")
        (volume,) = state_of(tmp_path).volumes.values()
        assert ("csi-1", "ephemeral-csi-1", 100 << 20) == (volume.inline_id, volume.name, volume.capacity_bytes)
        assert [] == list((await driver.list_volumes(csi.ListVolumesRequest())).entries), (
            "the controller does not know it"
        )
        for _ in range(2):  # the first answer may be lost
            await driver.node_unpublish_volume(a_withdrawal("csi-1", target))
        assert {} == state_of(tmp_path).volumes
        assert [] == list((tmp_path / "state" / "volumes").iterdir())
        assert not target.is_symlink()


@each_row("volume_id", ["../x", "../../etc", "/etc", "a" * 128, ".", "ä☃"])
async def test_a_callers_id_never_becomes_a_path(tmp_path: Path, volume_id: str) -> None:
    with linking(tmp_path) as driver:
        before = everything(tmp_path)
        await driver.node_publish_volume(an_inline(volume_id, tmp_path / "target"))
        (made,) = (tmp_path / "state" / "volumes").iterdir()
        assert made == (tmp_path / "target").resolve()
        await driver.node_unpublish_volume(a_withdrawal(volume_id, tmp_path / "target"))
        assert before == everything(tmp_path)


async def test_a_pods_own_volume_takes_room_and_goes_when_it_can_not_be_published(tmp_path: Path) -> None:
    with linking(tmp_path, limits=StorageLimits(kinds={"fast": 150 << 20})) as driver:
        await refused(driver.node_publish_volume(an_inline("csi-1", tmp_path / "no" / "parent")), Code.INTERNAL)
        assert {} == state_of(tmp_path).volumes
        await driver.node_publish_volume(an_inline("csi-1", tmp_path / "one"))
        await refused(driver.node_publish_volume(an_inline("csi-2", tmp_path / "two")), Code.RESOURCE_EXHAUSTED)
        context = {"csi.storage.k8s.io/ephemeral": "true", "kind": "slow"}
        await refused(
            driver.node_publish_volume(an_inline("csi-3", tmp_path / "three", volume_context=context)),
            Code.INVALID_ARGUMENT,
        )


async def test_a_pods_own_volume_that_is_not_saved_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet comes again and again, on a disk that is full already."""

    def full(_state: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    with linking(tmp_path) as driver:
        with monkeypatch.context() as patch:
            patch.setattr(statefile, "encoded", full)
            await refused(driver.node_publish_volume(an_inline("csi-1", tmp_path / "one")), Code.RESOURCE_EXHAUSTED)
        assert [] == list((tmp_path / "state" / "volumes").iterdir())
        await driver.node_publish_volume(an_inline("csi-1", tmp_path / "one"))


def _fails_for_another(monkeypatch: pytest.MonkeyPatch, module: Any, journal: Any) -> None:
    """While the loop devices of a volume are given back, another call's write fails; it takes along what is not saved
    yet.
    """

    async def release(*_of: object) -> None:
        def failing(_state: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch, contextlib.suppress(DriverError):
            patch.setattr(journal, "_write", failing)
            await journal.flushed()

    monkeypatch.setattr(module, "release_unused", release)


async def test_a_path_is_not_said_to_be_left_while_its_record_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with linking(tmp_path) as driver:
        await driver.node_publish_volume(an_inline("csi-1", tmp_path / "target"))
        _fails_for_another(monkeypatch, targets, driver._journal)
        await driver.node_unpublish_volume(a_withdrawal("csi-1", tmp_path / "target"))
        assert {} == state_of(tmp_path).volumes
        assert [] == list((tmp_path / "state" / "volumes").iterdir())


async def test_a_volume_is_not_said_to_be_unstaged_while_its_record_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with linking(tmp_path) as driver:
        volume = OnNode(driver, tmp_path)
        await volume.up()
        await volume.unpublish()
        _fails_for_another(monkeypatch, staging, driver._journal)
        await volume.unstage()
        assert state_of(tmp_path).volumes[volume.volume_id].use_on(volume.node_id) is None


# Meanwhile


async def test_a_caller_that_gives_up_leaves_a_call_that_ends(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.create()
        await on_node.attach()
        await on_node.stage()
        for _ in range(10):
            task = asyncio.ensure_future(on_node.publish())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await on_node.publish()
        await on_node.down()
    assert {} == state_of(tmp_path).volumes


async def test_a_driver_by_links_makes_no_file_systems(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="volumes are to be shown by links"):
        a_driver(
            tmp_path / "state", mount_mode=MountMode(tmp_path / "state", LINK), options=HostpathOptions(images=True)
        )
    a_driver(tmp_path / "state", mount_mode=MountMode(tmp_path / "state", LINK)).close()


STEPS: list[Callable[[OnNode], Awaitable[Any]]] = [OnNode.stage, OnNode.publish, OnNode.unpublish, OnNode.unstage]


@each_row("block", [False, True])
async def test_the_state_is_saved_before_each_answer(tmp_path: Path, block: bool) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path, block=block)
        await on_node.create()
        await on_node.attach()
        for step in STEPS:
            await step(on_node)
            assert driver._core.state == state_of(tmp_path)


@each_row("stages", [True, False])
async def test_a_volume_that_is_nowhere_keeps_no_device_though_a_kill_came_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: bool
) -> None:
    """The record that it is gone may have been saved with another call's, just before: the caller comes again."""
    released: list[Path] = []
    monkeypatch.setattr(Links, "release", lambda self, source: released.append(source.path))
    with linking(
        tmp_path,
        options=HostpathOptions(attach=False),
        without_on_nodes=() if stages else (NodeCapability.STAGE_UNSTAGE_VOLUME,),
    ) as driver:
        volume = OnNode(driver, tmp_path, block=True)
        await volume.create()
        if stages:
            await driver.node_unstage_volume(an_unstaging(volume.volume_id, volume.staging))
        else:
            await driver.node_unpublish_volume(a_withdrawal(volume.volume_id, volume.target))
        assert [tmp_path / "state" / "volumes" / volume.volume_id] == released
