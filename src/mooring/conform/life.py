"""The steps of a volume's life, as Kubernetes takes them: each goes only as far as the driver's capabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from mooring.conform.asker import Asker
from mooring.conform.book.errors import REFUSED
from mooring.conform.book.node import AGAIN
from mooring.conform.book.publishing import ABSENT
from mooring.conform.book.publishing import REFUSED_AGAIN as PUBLISH_REFUSED
from mooring.conform.book.rule import Rule
from mooring.conform.book.volumes import FORGOTTEN
from mooring.conform.check import Stopped
from mooring.conform.finder import told
from mooring.csi.driver import Driver, Rpc
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

CREATES = "Controller.CREATE_DELETE_VOLUME"
ATTACHES = "Controller.PUBLISH_UNPUBLISH_VOLUME"
STAGES = "Node.STAGE_UNSTAGE_VOLUME"
NODE = "Node"


async def create(asker: Asker, request: csi.CreateVolumeRequest) -> csi.Volume:
    """Raises Stopped, NotApplicable."""
    return await asker.create(request)


async def delete(asker: Asker, volume: csi.Volume) -> None:
    await asker.must(Driver.delete_volume, csi.DeleteVolumeRequest(volume_id=volume.volume_id))


async def is_known(asker: Asker, volume: csi.Volume) -> None:
    """Asks for a volume that is there by its id. Raises Stopped where the driver does not know it."""
    request = csi.ValidateVolumeCapabilitiesRequest(
        volume_id=volume.volume_id, volume_capabilities=[asker.capability()]
    )
    outcome = await asker.patiently(Driver.validate_volume_capabilities, request)
    if outcome.error is not None and outcome.code != Code.UNIMPLEMENTED:
        if not outcome.breaches and not outcome.is_unsent:
            asker.finds(FORGOTTEN, Driver.validate_volume_capabilities, request, f"the driver answers {outcome.error}")
        raise Stopped(told(f"ValidateVolumeCapabilities failed: {outcome.error}", request))


class Life(msgspec.Struct):
    """A volume on its way to a pod. context: publish_context, once the volume is published."""

    asker: Asker
    volume: csi.Volume
    capability: csi.VolumeCapability
    staging: str
    target: str
    context: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def identity(self) -> str:
        return self.volume.volume_id

    def publish(self, **fields: Any) -> csi.ControllerPublishVolumeRequest:
        fields = {"node_id": self.asker.abilities.node_id, "volume_capability": self.capability, **fields}
        return csi.ControllerPublishVolumeRequest(
            volume_id=self.identity, volume_context=dict(self.volume.volume_context), **fields
        )

    def unpublish(self, **fields: Any) -> csi.ControllerUnpublishVolumeRequest:
        return csi.ControllerUnpublishVolumeRequest(
            volume_id=self.identity, **{"node_id": self.asker.abilities.node_id, **fields}
        )

    def stage(self, **fields: Any) -> csi.NodeStageVolumeRequest:
        fields = {
            "volume_capability": self.capability,
            "staging_target_path": self.staging,
            **self._contexts(),
            **fields,
        }
        return csi.NodeStageVolumeRequest(volume_id=self.identity, **fields)

    def unstage(self) -> csi.NodeUnstageVolumeRequest:
        return csi.NodeUnstageVolumeRequest(volume_id=self.identity, staging_target_path=self.staging)

    def mount(self, **fields: Any) -> csi.NodePublishVolumeRequest:
        fields = {"volume_capability": self.capability, "target_path": self.target, **self._contexts(), **fields}
        if STAGES in self.asker.abilities:
            fields["staging_target_path"] = self.staging
        return csi.NodePublishVolumeRequest(volume_id=self.identity, **fields)

    def unmount(self) -> csi.NodeUnpublishVolumeRequest:
        return csi.NodeUnpublishVolumeRequest(volume_id=self.identity, target_path=self.target)

    def _contexts(self) -> dict[str, Any]:
        return {"volume_context": dict(self.volume.volume_context), "publish_context": dict(self.context)}

    async def attach(self) -> None:
        if ATTACHES in self.asker.abilities:
            await step(self, Driver.controller_publish_volume, REFUSED)

    async def to_pod(self) -> None:
        """Published, staged and mounted."""
        for rpc, _ in self.there():
            await step(self, rpc, REFUSED)

    async def from_pod(self) -> None:
        for rpc, _ in self.back():
            await step(self, rpc, REFUSED)

    def there(self) -> Iterator[tuple[Rpc[Any, Any], Rule]]:
        """The calls on the way to a pod, each with the rule that is broken where its repetition fails."""
        if ATTACHES in self.asker.abilities:
            yield Driver.controller_publish_volume, PUBLISH_REFUSED
        if STAGES in self.asker.abilities:
            yield Driver.node_stage_volume, AGAIN
        yield Driver.node_publish_volume, AGAIN

    def back(self) -> Iterator[tuple[Rpc[Any, Any], Rule]]:
        yield Driver.node_unpublish_volume, AGAIN
        if STAGES in self.asker.abilities:
            yield Driver.node_unstage_volume, AGAIN
        if ATTACHES in self.asker.abilities:
            yield Driver.controller_unpublish_volume, ABSENT

    def request(self, rpc: Rpc[Any, Any]) -> Any:
        """The request of one of these calls, as things are now."""
        makers: dict[str, Callable[[], Any]] = {
            "controller_publish_volume": self.publish,
            "node_stage_volume": self.stage,
            "node_publish_volume": self.mount,
            "node_unpublish_volume": self.unmount,
            "node_unstage_volume": self.unstage,
            "controller_unpublish_volume": self.unpublish,
        }
        return makers[rpc.attribute]()


async def step(life: Life, rpc: Rpc[Any, Any], rule: Rule) -> None:
    answer = await life.asker.must(rpc, life.request(rpc), rule)
    if rpc is Driver.controller_publish_volume:
        life.context = dict(answer.publish_context)


async def begin(asker: Asker, mode: str = "SINGLE_NODE_WRITER", **fields: Any) -> Life:
    """A new volume, and paths for it. Raises Stopped, NotApplicable."""
    asker.needs(NODE)
    capability = asker.capability(mode)
    volume = await create(asker, asker.a_volume(**{"volume_capabilities": [capability], **fields}))
    return Life(asker, volume, capability, *asker.folders())
