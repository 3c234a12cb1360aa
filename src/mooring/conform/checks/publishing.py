"""Volumes published to nodes, and mounted on them."""

from __future__ import annotations

from typing import Final

from mooring.conform.asker import Asker
from mooring.conform.book.errors import REFUSED
from mooring.conform.book.identity import NOT_SERVED
from mooring.conform.book.lists import LACKS
from mooring.conform.book.node import AGAIN, LEFT, LONG_PATH, SECOND_WRITER, STILL_MOUNTED, WRITABLE
from mooring.conform.book.publishing import ABSENT, ANOTHER_NODE, EVERYWHERE, FULL, INCOMPATIBLE, NOTHING_LEFT
from mooring.conform.book.requests import UNKNOWN
from mooring.conform.check import Chapter, NotApplicable
from mooring.conform.checks.lists import pages
from mooring.conform.life import ATTACHES, CREATES, STAGES, Life, begin, step
from mooring.csi.driver import Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

CHAPTER = Chapter()

_C: Final = "Controller Service [Controller Server] > "
_GONE: Final = "conform-no-such-volume"
_NO_NODE: Final = "conform-no-such-node"
PATH_BYTES: Final = 128
"""Each driver must take paths of so many."""
LIMIT_MAX: Final = 64
"""A node with room for more volumes is not filled."""


@CHAPTER.check(REFUSED, CREATES, "Node", sanity=("Node Service > should work", f"{_C}volume lifecycle > should work"))
async def life(asker: Asker) -> None:
    """A volume's way to a pod and back: made, published, staged, mounted, and all of that undone."""
    whole = await begin(asker)
    await whole.to_pod()
    await whole.from_pod()


@CHAPTER.check(
    AGAIN,
    CREATES,
    "Node",
    sanity=("Node Service > should be idempotent", f"{_C}volume lifecycle > should be idempotent"),
)
async def life_with_lost_answers(asker: Asker) -> None:
    """Each call of a volume's life comes three times, as after lost answers."""
    whole = await begin(asker)
    for rpc, rule in (*whole.there(), *whole.back()):
        for _ in range(3):
            await step(whole, rpc, rule)


@CHAPTER.check(NOTHING_LEFT, CREATES, ATTACHES, "Node")
async def unpublish_without_volume(asker: Asker) -> None:
    """ControllerUnpublishVolume answers OK after its volume was deleted: the answer of an earlier one may have been
    lost.
    """
    whole = await begin(asker)
    await step(whole, Driver.controller_publish_volume, REFUSED)
    await step(whole, Driver.controller_unpublish_volume, REFUSED)
    await asker.must(Driver.delete_volume, csi.DeleteVolumeRequest(volume_id=whole.identity))
    rule = (
        ABSENT if asker.has_found(ABSENT, Driver.controller_unpublish_volume) else NOTHING_LEFT
    )  # with a volume it fails, too
    await asker.must(Driver.controller_unpublish_volume, whole.unpublish(), rule)


@CHAPTER.check(NOTHING_LEFT, CREATES, ATTACHES, "Node")
async def unpublish_never_published(asker: Asker) -> None:
    """ControllerUnpublishVolume answers OK for a volume that was never published to the node."""
    whole = await begin(asker)
    await asker.must(Driver.controller_unpublish_volume, whole.unpublish(), NOTHING_LEFT)


@CHAPTER.check(
    UNKNOWN, ATTACHES, "Node", sanity=f"{_C}ControllerPublishVolume > should fail when the volume does not exist"
)
async def publish_unknown_volume(asker: Asker) -> None:
    """ControllerPublishVolume of a volume that does not exist is answered with NotFound."""
    request = csi.ControllerPublishVolumeRequest(
        volume_id=_GONE, node_id=asker.abilities.node_id, volume_capability=asker.capability()
    )
    await asker.refused(
        Driver.controller_publish_volume, request, UNKNOWN, Code.NOT_FOUND, why="the volume does not exist"
    )


@CHAPTER.check(
    UNKNOWN, CREATES, ATTACHES, "Node", sanity=f"{_C}ControllerPublishVolume > should fail when the node does not exist"
)
async def publish_unknown_node(asker: Asker) -> None:
    """ControllerPublishVolume to a node that does not exist is answered with NotFound."""
    whole = await begin(asker)
    request = whole.publish(node_id=_NO_NODE)
    await asker.refused(
        Driver.controller_publish_volume, request, UNKNOWN, Code.NOT_FOUND, why="the node does not exist"
    )


@CHAPTER.check(LACKS, CREATES, ATTACHES, "Node", "Controller.LIST_VOLUMES")
async def list_while_published(asker: Asker) -> None:
    """ListVolumes names the node of a published volume, where the driver says that it does."""
    whole = await begin(asker)
    await step(whole, Driver.controller_publish_volume, REFUSED)
    request, nodes = csi.ListVolumesRequest(), await _published_nodes(whole)
    if "Controller.LIST_VOLUMES_PUBLISHED_NODES" in asker.abilities and asker.abilities.node_id not in nodes:
        found = (
            f"volume {whole.identity!r} is published to {asker.abilities.node_id!r}, and published_node_ids lacks it"
        )
        asker.finds(LACKS, Driver.list_volumes, request, found)


async def _published_nodes(whole: Life) -> set[str]:
    """The nodes of a volume, as ListVolumes says them."""
    return {
        node
        for answer in await pages(whole.asker, Driver.list_volumes, csi.ListVolumesRequest())
        for entry in answer.entries
        if entry.volume.volume_id == whole.identity
        for node in entry.status.published_node_ids
    }


@CHAPTER.check(EVERYWHERE, CREATES, ATTACHES, "Node")
async def unpublish_everywhere(asker: Asker) -> None:
    """ControllerUnpublishVolume without a node_id takes the volume from the node that has it."""
    whole = await begin(asker)
    await step(whole, Driver.controller_publish_volume, REFUSED)
    request = whole.unpublish(node_id="")
    await asker.must(Driver.controller_unpublish_volume, request, EVERYWHERE)
    if asker.abilities.lacking("Controller.LIST_VOLUMES", "Controller.LIST_VOLUMES_PUBLISHED_NODES"):
        return  # nobody tells whether it did
    if nodes := await _published_nodes(whole):
        found = f"ListVolumes says that it is still published to {min(nodes)!r}"
        asker.finds(EVERYWHERE, Driver.controller_unpublish_volume, request, found)


@CHAPTER.check(ANOTHER_NODE, CREATES, ATTACHES, "Node")
async def unpublish_from_another_node(asker: Asker) -> None:
    """ControllerUnpublishVolume for a node that does not have the volume leaves it where it is."""
    await stays_where_it_is(asker, _NO_NODE)


async def stays_where_it_is(asker: Asker, other: str) -> None:
    """Publish a volume, and unpublish it from another node, by that node's id."""
    whole = await begin(asker)
    await step(whole, Driver.controller_publish_volume, REFUSED)
    if not await _stays(whole):
        raise NotApplicable("neither ListVolumes nor a read-only publication tells whether a volume is published")
    request = whole.unpublish(node_id=other)
    await asker.patiently(Driver.controller_unpublish_volume, request)  # OK and NotFound will do
    if await _stays(whole) is False:
        found = f"the volume was published to {asker.abilities.node_id!r}, and is no more"
        asker.finds(ANOTHER_NODE, Driver.controller_unpublish_volume, request, found)


async def _stays(whole: Life) -> bool | None:
    """Whether the volume is published to its node; None where nothing tells."""
    asker = whole.asker
    if not asker.abilities.lacking("Controller.LIST_VOLUMES", "Controller.LIST_VOLUMES_PUBLISHED_NODES"):
        return asker.abilities.node_id in await _published_nodes(whole)
    if asker.abilities.lacking("Controller.PUBLISH_READONLY"):
        return None
    outcome = await asker.patiently(Driver.controller_publish_volume, whole.publish(readonly=True))
    return {Code.ALREADY_EXISTS: True, Code.OK: False}.get(Code(outcome.code))


@CHAPTER.check(LONG_PATH, CREATES, "Node")
async def long_paths(asker: Asker) -> None:
    """A volume goes to a pod and back by paths of 128 bytes."""
    whole = await begin(asker)
    whole.staging, whole.target = asker.folders(PATH_BYTES)
    for rpc, _ in (*whole.there(), *whole.back()):
        await step(whole, rpc, LONG_PATH if rpc.service == "Node" else REFUSED)


@CHAPTER.check(
    INCOMPATIBLE,
    CREATES,
    ATTACHES,
    "Node",
    "Controller.PUBLISH_READONLY",
    sanity=f"{_C}ControllerPublishVolume > should fail when the volume is already published but is incompatible",
)
async def publish_in_another_way(asker: Asker) -> None:
    """A volume that is published to be written is refused with AlreadyExists when it is to be published read-only."""
    whole = await begin(asker)
    await step(whole, Driver.controller_publish_volume, REFUSED)
    request = whole.publish(readonly=True)
    why = "it is published to be written"
    await asker.refused(Driver.controller_publish_volume, request, INCOMPATIBLE, Code.ALREADY_EXISTS, why=why)


@CHAPTER.check(
    FULL,
    CREATES,
    ATTACHES,
    "Node",
    sanity=f"{_C}ControllerPublishVolume > should fail when publishing more volumes than the node max attach limit",
)
async def publish_too_many(asker: Asker) -> None:
    """A node that has max_volumes_per_node volumes gets no further one."""
    most = asker.abilities.volumes_max
    if not 0 < most <= LIMIT_MAX:
        raise NotApplicable(f"max_volumes_per_node is {most}" if most else "the driver knows no max_volumes_per_node")
    for _ in range(most):
        await step(await begin(asker), Driver.controller_publish_volume, REFUSED)
    last = await begin(asker)
    outcome = await asker.ask(Driver.controller_publish_volume, last.publish())
    if outcome.ok:
        found = f"the node has {most} volumes, which is its max_volumes_per_node, and the driver answers OK"
        asker.finds(FULL, Driver.controller_publish_volume, last.publish(), found)


@CHAPTER.check(LEFT, CREATES, "Node", sanity="Node Service > NodeUnpublishVolume > should remove target path")
async def unmount_removes(asker: Asker) -> None:
    """After NodeUnpublishVolume nothing is at target_path."""
    whole = await begin(asker)
    await whole.to_pod()
    await step(whole, Driver.node_unpublish_volume, REFUSED)
    if asker.looks_there(whole.target) and not asker.has_seen(LEFT, STILL_MOUNTED):
        asker.finds(LEFT, Driver.node_unpublish_volume, whole.unmount(), f"{whole.target} is still there")


@CHAPTER.check(WRITABLE, CREATES, "Node")
async def mount_readonly(asker: Asker) -> None:
    """A volume that is mounted with `readonly` can't be written to."""
    whole = await begin(asker)
    await whole.attach()
    if STAGES in asker.abilities:
        await step(whole, Driver.node_stage_volume, REFUSED)
    await asker.must(Driver.node_publish_volume, whole.mount(readonly=True))
    await whole.from_pod()


@CHAPTER.check(
    SECOND_WRITER,
    CREATES,
    "Node",
    "Node.SINGLE_NODE_MULTI_WRITER",
    sanity="Node Service > NodePublishVolume > with single node multi writer capability > "
    "should fail when volume with single node single writer access mode is already mounted at a different target path",
)
async def mount_for_second_writer(asker: Asker) -> None:
    """A volume of SINGLE_NODE_SINGLE_WRITER that is mounted for one pod is refused for another with
    FailedPrecondition.
    """
    whole = await begin(asker, "SINGLE_NODE_SINGLE_WRITER")
    await whole.to_pod()
    request = whole.mount(target_path=asker.folders()[1])
    why = f"the volume is at {whole.target}"
    await asker.refused(Driver.node_publish_volume, request, SECOND_WRITER, Code.FAILED_PRECONDITION, why=why)


@CHAPTER.check(NOT_SERVED, CREATES, "Node", "Node.GET_VOLUME_STATS")
async def stats(asker: Asker) -> None:
    """NodeGetVolumeStats answers for a mounted volume."""
    whole = await begin(asker)
    await whole.to_pod()
    request = csi.NodeGetVolumeStatsRequest(volume_id=whole.identity, volume_path=whole.target)
    await asker.must(Driver.node_get_volume_stats, request)


@CHAPTER.check(
    UNKNOWN,
    "Node",
    "Node.GET_VOLUME_STATS",
    sanity="Node Service > NodeGetVolumeStats > should fail when volume is not found",
)
async def stats_unknown(asker: Asker) -> None:
    """NodeGetVolumeStats of a volume that does not exist is answered with NotFound."""
    request = csi.NodeGetVolumeStatsRequest(volume_id=_GONE, volume_path="some/path")
    await asker.refused(Driver.node_get_volume_stats, request, UNKNOWN, Code.NOT_FOUND, why="the volume does not exist")


@CHAPTER.check(
    UNKNOWN,
    CREATES,
    "Node",
    "Node.GET_VOLUME_STATS",
    sanity="Node Service > NodeGetVolumeStats > should fail when volume does not exist on the specified path",
)
async def stats_elsewhere(asker: Asker) -> None:
    """NodeGetVolumeStats at a path at which the volume is not is answered with NotFound."""
    whole = await begin(asker)
    await whole.to_pod()
    request = csi.NodeGetVolumeStatsRequest(volume_id=whole.identity, volume_path="some/path")
    await asker.refused(Driver.node_get_volume_stats, request, UNKNOWN, Code.NOT_FOUND, why="the volume is not there")


@CHAPTER.check(
    UNKNOWN,
    "Node",
    "Node.EXPAND_VOLUME",
    sanity="Node Service > NodeExpandVolume > should fail when volume is not found",
)
async def node_expand_unknown(asker: Asker) -> None:
    """NodeExpandVolume of a volume that does not exist is answered with NotFound."""
    request = csi.NodeExpandVolumeRequest(volume_id=_GONE, volume_path="some/path")
    await asker.refused(Driver.node_expand_volume, request, UNKNOWN, Code.NOT_FOUND, why="the volume does not exist")


@CHAPTER.check(
    REFUSED,
    CREATES,
    "Node",
    "Node.EXPAND_VOLUME",
    sanity="Node Service > NodeExpandVolume > should work if node-expand is called after node-publish",
)
async def node_expand(asker: Asker) -> None:
    """NodeExpandVolume works while a pod has the volume."""
    whole = await begin(asker)
    await whole.to_pod()
    size = {"required_bytes": asker.options.size_bytes}
    if "Controller.EXPAND_VOLUME" in asker.abilities and "Expansion.ONLINE" in asker.abilities:
        grow = csi.ControllerExpandVolumeRequest(
            volume_id=whole.identity, capacity_range=size, volume_capability=whole.capability
        )
        await asker.must(Driver.controller_expand_volume, grow)
    request = csi.NodeExpandVolumeRequest(
        volume_id=whole.identity, volume_path=whole.target, staging_target_path=whole.staging, capacity_range=size
    )
    await asker.must(Driver.node_expand_volume, request)
