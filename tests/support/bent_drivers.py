"""Drivers that break one rule of CSI each: the reference driver, over links in place of mounts, with one of its answers
bent.

What bends it stands before the driver's own checks, as a driver in another language would have it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.layout import StorageLimits
from mooring.driver.hostpath.node.mount_mode import LINK, MountMode
from mooring.driver.hostpath.options import HostpathOptions
from mooring.wire.grpc.codes import Code

NODE = "node-1"
SECRET = "s3cr3t-word"
Controller = csi.ControllerServiceCapability.RPC
Node = csi.NodeServiceCapability.RPC
Service = csi.PluginCapability.Service


@contextlib.contextmanager
def reference(folder: Path) -> Iterator[HostPath]:
    """With everything switched on."""
    driver = HostPath(
        folder,
        node_ids=[NODE],
        topology={NODE: {"zone": "a"}},
        limits=StorageLimits(attach_max=6),
        options=HostpathOptions(volumes_per_node=6),
        mutable_names=("iops",),
        randomness=Random(1),
        mount_mode=MountMode(folder.resolve(), LINK),
    )
    with driver:
        yield driver


class Bent:
    """A driver with one fault. breaks: the number of the rule. timeout_s: by then its calls end on the slowest machine,
    or never.
    """

    breaks: ClassVar[str] = ""
    timeout_s: ClassVar[float] = 60.0
    all: ClassVar[list[type[Bent]]] = []

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.seen: dict[Any, Any] = {}
        self.count = 0

    def __init_subclass__(cls) -> None:
        if cls.breaks:
            Bent.all.append(cls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def again(self, key: Any) -> bool:
        """True from the second time on."""
        known = key in self.seen
        self.seen[key] = True
        return known


# -- who it is


class BadName(Bent):
    breaks = "CSI101"

    async def get_plugin_info(self, request: Any) -> Any:
        answer = await self.inner.get_plugin_info(request)
        answer.name = "my driver"
        return answer


class NoVersion(Bent):
    breaks = "CSI102"

    async def get_plugin_info(self, request: Any) -> Any:
        answer = await self.inner.get_plugin_info(request)
        answer.vendor_version = ""
        return answer


class HidesController(Bent):
    breaks = "CSI104"

    async def get_plugin_capabilities(self, request: Any) -> Any:
        return _without_service(await self.inner.get_plugin_capabilities(request), Service.CONTROLLER_SERVICE)


class NoCapacity(Bent):
    breaks = "CSI105"

    async def get_capacity(self, request: Any) -> Any:
        raise DriverError(Code.UNIMPLEMENTED, "not yet")


class TellsNodesUnasked(Bent):
    breaks = "CSI106"

    async def controller_get_capabilities(self, request: Any) -> Any:
        answer = await self.inner.controller_get_capabilities(request)
        kept = [one for one in answer.capabilities if one.rpc.type != Controller.LIST_VOLUMES_PUBLISHED_NODES]
        return csi.ControllerGetCapabilitiesResponse(capabilities=kept)


class HidesTopology(Bent):
    breaks = "CSI107"

    async def get_plugin_capabilities(self, request: Any) -> Any:
        return _without_service(
            await self.inner.get_plugin_capabilities(request), Service.VOLUME_ACCESSIBILITY_CONSTRAINTS
        )

    async def create_volume(self, request: Any) -> Any:
        answer = await self.inner.create_volume(request)
        answer.volume.ClearField("accessible_topology")
        return answer


class UnknownCapability(Bent):
    breaks = "CSI108"

    async def controller_get_capabilities(self, request: Any) -> Any:
        answer = await self.inner.controller_get_capabilities(request)
        answer.capabilities.add(rpc={"type": 0})
        return answer


class ChangesItsMind(Bent):
    breaks = "CSI109"

    async def controller_get_capabilities(self, request: Any) -> Any:
        answer = await self.inner.controller_get_capabilities(request)
        if self.again("asked"):
            kept = [one for one in answer.capabilities if one.rpc.type != Controller.VOLUME_CONDITION]
            return csi.ControllerGetCapabilitiesResponse(capabilities=kept)
        return answer


class GrowsByWordAlone(Bent):
    breaks = "CSI108"

    async def controller_get_capabilities(self, request: Any) -> Any:
        answer = await self.inner.controller_get_capabilities(request)
        kept = [one for one in answer.capabilities if one.rpc.type != Controller.EXPAND_VOLUME]
        return csi.ControllerGetCapabilitiesResponse(capabilities=kept)

    async def node_get_capabilities(self, request: Any) -> Any:
        answer = await self.inner.node_get_capabilities(request)
        kept = [one for one in answer.capabilities if one.rpc.type != Node.EXPAND_VOLUME]
        return csi.NodeGetCapabilitiesResponse(capabilities=kept)

    async def controller_expand_volume(self, request: Any) -> Any:
        raise DriverError(Code.UNIMPLEMENTED, "it does not grow")

    async def node_expand_volume(self, request: Any) -> Any:
        raise DriverError(Code.UNIMPLEMENTED, "it does not grow")


class ListsNoStatus(Bent):
    breaks = "CSI105"

    async def list_volumes(self, request: Any) -> Any:
        answer = await self.inner.list_volumes(request)
        for entry in answer.entries:
            if not entry.status.published_node_ids:
                entry.ClearField("status")
        return answer


class OddTopology(Bent):
    breaks = "CSI116"

    async def list_volumes(self, request: Any) -> Any:
        answer = await self.inner.list_volumes(request)
        for entry in answer.entries:
            entry.volume.accessible_topology.add(segments={"zone": "a b"})
        return answer


class TwoPrefixes(Bent):
    breaks = "CSI117"

    async def list_volumes(self, request: Any) -> Any:
        answer = await self.inner.list_volumes(request)
        for entry in answer.entries:
            entry.volume.accessible_topology.add(segments={"a.example.com/zone": "a", "b.example.com/rack": "1"})
        return answer


# -- answers by themselves


class SnapshotWithoutTime(Bent):
    breaks = "CSI111"

    async def create_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_snapshot(request)
        answer.snapshot.ClearField("creation_time")
        return answer


class LongManifest(Bent):
    breaks = "CSI112"

    async def get_plugin_info(self, request: Any) -> Any:
        answer = await self.inner.get_plugin_info(request)
        answer.manifest["notes"] = "x" * 5000
        return answer


class NegativeCapacity(Bent):
    breaks = "CSI113"

    async def get_capacity(self, request: Any) -> Any:
        return csi.GetCapacityResponse(available_capacity=-1)


class MembersWithoutGroup(Bent):
    breaks = "CSI114"

    async def create_volume_group_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_volume_group_snapshot(request)
        for member in answer.group_snapshot.snapshots:
            member.group_snapshot_id = ""
        return answer


class NodeWithoutPlace(Bent):
    breaks = "CSI115"

    async def node_get_info(self, request: Any) -> Any:
        answer = await self.inner.node_get_info(request)
        answer.ClearField("accessible_topology")
        return answer


# -- requests


class DeletesNothing(Bent):
    breaks = "CSI121"

    async def delete_volume(self, request: Any) -> Any:
        return await self.inner.delete_volume(request) if request.volume_id else csi.DeleteVolumeResponse()


class NodesAreInternal(Bent):
    breaks = "CSI122"

    async def controller_publish_volume(self, request: Any) -> Any:
        try:
            return await self.inner.controller_publish_volume(request)
        except DriverError as error:
            raise DriverError(Code.INTERNAL if error.code == Code.NOT_FOUND else error.code, error.message) from None


class ShortNames(Bent):
    breaks = "CSI123"

    async def create_volume(self, request: Any) -> Any:
        if len(request.name) > 64:
            raise DriverError(Code.INVALID_ARGUMENT, "the name is too long")
        return await self.inner.create_volume(request)


# -- volumes


class AnotherVolume(Bent):
    breaks = "CSI201"

    async def create_volume(self, request: Any) -> Any:
        self.count += 1
        return await self.inner.create_volume(
            _changed(request, name=f"{request.name}-{self.count}"[-128:]) if request.name else request
        )


class RefusesItsVolume(Bent):
    breaks = "CSI202"

    async def create_volume(self, request: Any) -> Any:
        if request.name in self.seen:
            raise DriverError(Code.ALREADY_EXISTS, f"{request.name} exists")
        answer = await self.inner.create_volume(request)
        self.seen[request.name] = True
        return answer


class CutsNames(Bent):
    breaks = "CSI203"

    async def create_volume(self, request: Any) -> Any:
        return await self.inner.create_volume(_changed(request, name=request.name[:100]))


class SmallVolumes(Bent):
    breaks = "CSI204"

    async def create_volume(self, request: Any) -> Any:
        answer = await self.inner.create_volume(request)
        answer.volume.capacity_bytes = 1
        return answer


class ForgetsSources(Bent):
    breaks = "CSI205"

    async def create_volume(self, request: Any) -> Any:
        answer = await self.inner.create_volume(request)
        answer.volume.ClearField("content_source")
        return answer


class Elsewhere(Bent):
    breaks = "CSI206"

    async def create_volume(self, request: Any) -> Any:
        answer = await self.inner.create_volume(request)
        del answer.volume.accessible_topology[:]
        answer.volume.accessible_topology.add(segments={"zone": "b"})
        return answer


class ChangingContext(Bent):
    breaks = "CSI207"

    async def create_volume(self, request: Any) -> Any:
        answer = await self.inner.create_volume(request)
        self.count += 1
        answer.volume.volume_context["made"] = str(self.count)
        return answer


class DeletesOnce(Bent):
    breaks = "CSI208"

    async def delete_volume(self, request: Any) -> Any:
        if request.volume_id and self.again(request.volume_id):
            raise DriverError(Code.NOT_FOUND, "there is no such volume")
        return await self.inner.delete_volume(request)


class ForgetsVolumes(Bent):
    breaks = "CSI209"

    async def validate_volume_capabilities(self, request: Any) -> Any:
        await self.inner.validate_volume_capabilities(request)
        raise DriverError(Code.NOT_FOUND, "there is no such volume")


class GrowsToNothing(Bent):
    breaks = "CSI210"

    async def controller_expand_volume(self, request: Any) -> Any:
        answer = await self.inner.controller_expand_volume(request)
        answer.capacity_bytes = 0
        return answer


class AnySize(Bent):
    breaks = "CSI211"

    async def create_volume(self, request: Any) -> Any:
        try:
            answer = await self.inner.create_volume(request)
        except DriverError as error:
            if error.code != Code.ALREADY_EXISTS:
                raise
            return self.seen[request.name]
        self.seen[request.name] = answer
        return answer


class ConfirmsNothing(Bent):
    breaks = "CSI212"

    async def validate_volume_capabilities(self, request: Any) -> Any:
        answer = await self.inner.validate_volume_capabilities(request)
        answer.ClearField("confirmed")
        return answer


class GrowsOfflineOnly(Bent):
    breaks = "CSI213"

    async def controller_publish_volume(self, request: Any) -> Any:
        answer = await self.inner.controller_publish_volume(request)
        self.seen[request.volume_id] = True
        return answer

    async def controller_unpublish_volume(self, request: Any) -> Any:
        self.seen.pop(request.volume_id, None)
        return await self.inner.controller_unpublish_volume(request)

    async def controller_expand_volume(self, request: Any) -> Any:
        if request.volume_id in self.seen and request.capacity_range.required_bytes > self.inner_size:
            raise DriverError(Code.FAILED_PRECONDITION, "the volume is in use")
        return await self.inner.controller_expand_volume(request)

    inner_size = 1 << 20


class GrowsSometime(Bent):
    """No breach: it grows volumes, and does not say in GetPluginCapabilities when."""

    async def get_plugin_capabilities(self, request: Any) -> Any:
        answer = await self.inner.get_plugin_capabilities(request)
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[one for one in answer.capabilities if one.HasField("service")]
        )


class TakesAnyParameter(Bent):
    breaks = "CSI214"

    async def controller_modify_volume(self, request: Any) -> Any:
        for key in [key for key in request.mutable_parameters if key != "iops"]:
            del request.mutable_parameters[key]
            request.mutable_parameters["iops"] = "1"
        return await self.inner.controller_modify_volume(request)


class RetellsContext(Bent):
    breaks = "CSI215"

    async def list_volumes(self, request: Any) -> Any:
        answer = await self.inner.list_volumes(request)
        for entry in answer.entries:
            entry.volume.volume_context["listed"] = "yes"
        return answer


class LargeSnapshots(Bent):
    breaks = "CSI216"

    async def create_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_snapshot(request)
        answer.snapshot.size_bytes = 1 << 40
        return answer


# -- published


class ChangingPublishContext(Bent):
    breaks = "CSI301"

    async def controller_publish_volume(self, request: Any) -> Any:
        answer = await self.inner.controller_publish_volume(request)
        self.count += 1
        answer.publish_context["turn"] = str(self.count)
        return answer


class PublishesOnce(Bent):
    breaks = "CSI302"

    async def controller_publish_volume(self, request: Any) -> Any:
        key = request.volume_id, request.node_id
        if key in self.seen and not request.readonly:
            raise DriverError(Code.FAILED_PRECONDITION, "it is published already")
        answer = await self.inner.controller_publish_volume(request)
        self.seen[key] = True
        return answer

    async def controller_unpublish_volume(self, request: Any) -> Any:
        answer = await self.inner.controller_unpublish_volume(request)
        self.seen.pop((request.volume_id, request.node_id), None)
        return answer


class UnpublishesOnce(Bent):
    breaks = "CSI304"

    async def controller_unpublish_volume(self, request: Any) -> Any:
        answer = await self.inner.controller_unpublish_volume(request)
        if self.again((request.volume_id, request.node_id)):
            raise DriverError(Code.NOT_FOUND, "it is not published")
        return answer


class IgnoresReadonly(Bent):
    breaks = "CSI305"

    async def controller_publish_volume(self, request: Any) -> Any:
        return await self.inner.controller_publish_volume(_changed(request, readonly=False))


class NeverFull(Bent):
    breaks = "CSI306"

    async def node_get_info(self, request: Any) -> Any:
        answer = await self.inner.node_get_info(request)
        answer.max_volumes_per_node = 2
        return answer


class UnpublishesItsOwn(Bent):
    breaks = "CSI307"

    async def controller_publish_volume(self, request: Any) -> Any:
        answer = await self.inner.controller_publish_volume(request)
        self.seen[request.volume_id] = True
        return answer

    async def controller_unpublish_volume(self, request: Any) -> Any:
        answer = await self.inner.controller_unpublish_volume(request)
        if request.volume_id not in self.seen:
            raise DriverError(Code.NOT_FOUND, "it was never published")
        return answer


class WantsANode(Bent):
    breaks = "CSI309"

    async def controller_unpublish_volume(self, request: Any) -> Any:
        if not request.node_id:
            raise DriverError(Code.INVALID_ARGUMENT, "node_id is required")
        return await self.inner.controller_unpublish_volume(request)


class ForgetsEverywhere(Bent):
    breaks = "CSI309"

    async def controller_unpublish_volume(self, request: Any) -> Any:
        if request.volume_id and not request.node_id:
            return csi.ControllerUnpublishVolumeResponse()
        return await self.inner.controller_unpublish_volume(request)


class DetachesFromAnyNode(Bent):
    breaks = "CSI310"

    async def controller_unpublish_volume(self, request: Any) -> Any:
        return await self.inner.controller_unpublish_volume(_changed(request, node_id=""))


class DetachesFromAnyNodeAndListsNone(DetachesFromAnyNode):
    """Only a publication in another way shows it."""

    async def controller_get_capabilities(self, request: Any) -> Any:
        answer = await self.inner.controller_get_capabilities(request)
        hidden = (Controller.LIST_VOLUMES_PUBLISHED_NODES, Controller.LIST_VOLUMES)
        kept = [one for one in answer.capabilities if one.rpc.type not in hidden]
        return csi.ControllerGetCapabilitiesResponse(capabilities=kept)


# -- snapshots


class AnotherSnapshot(Bent):
    breaks = "CSI401"

    async def create_snapshot(self, request: Any) -> Any:
        if not (request.name and request.source_volume_id):
            return await self.inner.create_snapshot(request)
        first = self.seen.setdefault(request.name, request.source_volume_id)
        if first != request.source_volume_id:
            raise DriverError(Code.ALREADY_EXISTS, "it is of another volume")
        self.count += 1
        return await self.inner.create_snapshot(_changed(request, name=f"{request.name}-{self.count}"[-128:]))


class RefusesItsSnapshot(Bent):
    breaks = "CSI402"

    async def create_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_snapshot(request)
        if self.again(request.name):
            raise DriverError(Code.ALREADY_EXISTS, "it exists")
        return answer


class WrongSource(Bent):
    breaks = "CSI403"

    async def create_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_snapshot(request)
        answer.snapshot.source_volume_id = "another"
        return answer

    async def get_snapshot(self, request: Any) -> Any:
        answer = await self.inner.get_snapshot(request)
        answer.snapshot.source_volume_id = "another"
        return answer


class MovingTime(Bent):
    breaks = "CSI404"

    async def create_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_snapshot(request)
        self.count += 1
        answer.snapshot.creation_time.seconds += self.count
        return answer


class ReadyOnce(Bent):
    breaks = "CSI405"

    async def create_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_snapshot(request)
        answer.snapshot.ready_to_use = not self.again(request.name)
        return answer


class DeletesSnapshotsOnce(Bent):
    breaks = "CSI406"

    async def delete_snapshot(self, request: Any) -> Any:
        if request.snapshot_id and self.again(request.snapshot_id):
            raise DriverError(Code.NOT_FOUND, "there is no such snapshot")
        return await self.inner.delete_snapshot(request)


class CutsSnapshotNames(Bent):
    breaks = "CSI407"

    async def create_snapshot(self, request: Any) -> Any:
        return await self.inner.create_snapshot(_changed(request, name=request.name[:100]))


class LosesMembers(Bent):
    breaks = "CSI408"

    async def create_volume_group_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_volume_group_snapshot(request)
        answer.group_snapshot.snapshots[0].source_volume_id = "another"
        return answer


class AnySource(Bent):
    breaks = "CSI409"

    async def create_snapshot(self, request: Any) -> Any:
        try:
            answer = await self.inner.create_snapshot(request)
        except DriverError as error:
            if error.code != Code.ALREADY_EXISTS:
                raise
            return self.seen[request.name]
        self.seen[request.name] = answer
        return answer


class EarlyGroups(Bent):
    breaks = "CSI410"

    async def create_volume_group_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_volume_group_snapshot(request)
        answer.group_snapshot.snapshots[0].ready_to_use = False
        return answer


class TakesSnapshotsAlong(Bent):
    breaks = "CSI411"

    async def create_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_snapshot(request)
        self.seen.setdefault(request.source_volume_id, set()).add(answer.snapshot.snapshot_id)
        return answer

    async def delete_volume(self, request: Any) -> Any:
        answer = await self.inner.delete_volume(request)
        for identity in self.seen.pop(request.volume_id, ()):
            await self.inner.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=identity))
        return answer


class RefusesToDeleteSources(Bent):
    breaks = "CSI411"

    async def create_snapshot(self, request: Any) -> Any:
        answer = await self.inner.create_snapshot(request)
        self.seen[answer.snapshot.snapshot_id] = request.source_volume_id
        return answer

    async def delete_snapshot(self, request: Any) -> Any:
        answer = await self.inner.delete_snapshot(request)
        self.seen.pop(request.snapshot_id, None)
        return answer

    async def delete_volume(self, request: Any) -> Any:
        if request.volume_id in self.seen.values():
            raise DriverError(Code.INTERNAL, "it has snapshots")
        return await self.inner.delete_volume(request)


# -- the node


class ChangingNode(Bent):
    breaks = "CSI501"

    async def node_get_info(self, request: Any) -> Any:
        answer = await self.inner.node_get_info(request)
        if self.again("asked"):
            answer.node_id = "another"
        return answer


class LeavesTargets(Bent):
    breaks = "CSI515"

    async def node_unpublish_volume(self, request: Any) -> Any:
        answer = await self.inner.node_unpublish_volume(request)
        _make(request.target_path)
        return answer

    async def node_publish_volume(self, request: Any) -> Any:
        _remove(request.target_path)
        return await self.inner.node_publish_volume(request)


class StagesOnce(Bent):
    breaks = "CSI517"

    async def node_stage_volume(self, request: Any) -> Any:
        answer = await self.inner.node_stage_volume(request)
        if self.again(request.staging_target_path):
            raise DriverError(Code.INTERNAL, "it is staged already")
        return answer


class GrowsToOneByte(Bent):
    breaks = "CSI518"

    async def node_expand_volume(self, request: Any) -> Any:
        answer = await self.inner.node_expand_volume(request)
        answer.capacity_bytes = 1
        return answer


class TwoWriters(Bent):
    breaks = "CSI519"

    async def node_publish_volume(self, request: Any) -> Any:
        try:
            return await self.inner.node_publish_volume(request)
        except DriverError as error:
            if error.code != Code.FAILED_PRECONDITION:
                raise
            return csi.NodePublishVolumeResponse()


class ShortPaths(Bent):
    breaks = "CSI523"

    async def node_stage_volume(self, request: Any) -> Any:
        if len(request.staging_target_path) == 128:
            raise DriverError(Code.INVALID_ARGUMENT, "the path is too long")
        return await self.inner.node_stage_volume(request)


# -- lists


class EndlessList(Bent):
    breaks = "CSI601"

    async def list_volumes(self, request: Any) -> Any:
        token = request.starting_token
        answer = csi.ListVolumesResponse() if token == "more" else await self.inner.list_volumes(request)
        answer.next_token = answer.next_token or "more"
        return answer


class WholePages(Bent):
    breaks = "CSI602"

    async def list_volumes(self, request: Any) -> Any:
        return await self.inner.list_volumes(_changed(request, max_entries=0))


class ListsTwice(Bent):
    breaks = "CSI603"

    async def list_volumes(self, request: Any) -> Any:
        answer = await self.inner.list_volumes(request)
        if answer.entries and not request.max_entries:
            answer.entries.append(answer.entries[0])
        return answer


class ListsAll(Bent):
    breaks = "CSI604"

    async def list_snapshots(self, request: Any) -> Any:
        return await self.inner.list_snapshots(_changed(request, snapshot_id="", source_volume_id=""))


class ListsFewer(Bent):
    breaks = "CSI605"

    async def list_volumes(self, request: Any) -> Any:
        answer = await self.inner.list_volumes(request)
        if answer.entries and not answer.next_token:
            del answer.entries[-1]
        return answer


class ListsOnePage(Bent):
    """As csi-driver-host-path 1.18: a page that is cut has no token."""

    breaks = "CSI605"

    async def list_volumes(self, request: Any) -> Any:
        answer = await self.inner.list_volumes(request)
        answer.next_token = ""
        return answer


class ListsOneSnapshot(Bent):
    """As csi-driver-host-path 1.18: of a volume's snapshots it lists the first."""

    breaks = "CSI605"

    async def list_snapshots(self, request: Any) -> Any:
        answer = await self.inner.list_snapshots(request)
        if request.source_volume_id:
            del answer.entries[1:]
        return answer


class AnyToken(Bent):
    breaks = "CSI606"

    async def list_volumes(self, request: Any) -> Any:
        try:
            return await self.inner.list_volumes(request)
        except DriverError:
            return csi.ListVolumesResponse()


# -- errors


class UnknownErrors(Bent):
    breaks = "CSI701"

    async def validate_volume_capabilities(self, request: Any) -> Any:
        try:
            return await self.inner.validate_volume_capabilities(request)
        except DriverError as error:
            raise DriverError(Code.UNKNOWN if error.code == Code.NOT_FOUND else error.code, error.message) from None


class TellsSecrets(Bent):
    breaks = "CSI702"

    async def create_volume(self, request: Any) -> Any:
        try:
            return await self.inner.create_volume(request)
        except DriverError as error:
            raise DriverError(error.code, f"{error.message}: --password={request.secrets['password']}") from None


class AnswersSecrets(Bent):
    breaks = "CSI703"

    async def create_volume(self, request: Any) -> Any:
        answer = await self.inner.create_volume(request)
        answer.volume.volume_context["login"] = request.secrets["password"]
        return answer


class CreatesSlowly(Bent):
    """Where somebody has less patience than a sidecar has."""

    async def create_volume(self, request: Any) -> Any:
        await asyncio.sleep(0.3)
        return await self.inner.create_volume(request)


class SilentCapacity(Bent):
    breaks = "CSI704"
    timeout_s = 2.0

    async def get_capacity(self, request: Any) -> Any:
        await asyncio.get_running_loop().create_future()


class AlwaysAborted(Bent):
    breaks = "CSI705"

    async def controller_modify_volume(self, request: Any) -> Any:
        await self.inner.controller_modify_volume(request)
        raise DriverError(Code.ABORTED, "another call is under way")


class SaysNothing(Bent):
    breaks = "CSI708"

    async def validate_volume_capabilities(self, request: Any) -> Any:
        try:
            return await self.inner.validate_volume_capabilities(request)
        except DriverError as error:
            raise DriverError(error.code, "") from None


class NotReady(Bent):
    breaks = "CSI709"

    async def probe(self, request: Any) -> Any:
        raise DriverError(Code.FAILED_PRECONDITION, "the backend is missing")


def _changed(request: Any, **fields: Any) -> Any:
    copy = type(request)()
    copy.CopyFrom(request)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def _without_service(answer: Any, number: int) -> Any:
    kept = [one for one in answer.capabilities if one.service.type != number]
    return csi.GetPluginCapabilitiesResponse(capabilities=kept)


def _make(folder: str) -> None:
    if folder.startswith("/"):
        Path(folder).mkdir(exist_ok=True)


def _remove(folder: str) -> None:
    with contextlib.suppress(OSError):
        Path(folder).rmdir()
