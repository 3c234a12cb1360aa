"""Attaches volumes to this node where no controller does: it makes and deletes its VolumeAttachments itself, and the attacher acts on them.

Source: kubelet 1.36 with enableControllerAttachDetach off. A volume stands in `volumesInUse` before its VolumeAttachment is made, and until
it is gone: an agent that starts finds there what an earlier one has attached. Each step asks once; the next look comes soon, so that no pod
that leaves waits for an attacher.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api.core import PERSISTENT_VOLUMES, Node
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.api.volume_names import attachment_name, split_unique_name
from mooring.base.backoff import BackOff
from mooring.base.clock import Clock
from mooring.kube.cluster import Cluster
from mooring.kube.errors import AlreadyExists, ApiError, NotFound
from mooring.node.volumes.state import Failure, Stand, Volume, VolumeState
from mooring.node.volumes.step_tools import StepFailed

STEP: Final = "Attach"
REASON: Final = "FailedAttachVolume"
BACK_OFF: Final = BackOff(0.1, 10.0, jitter=0.0)


class SelfAttachment:
    """Of one node. attaches: False where the attach/detach controller does it."""

    def __init__(self, cluster: Cluster, node_name: str, clock: Clock, *, attaches: bool) -> None:
        self._cluster, self._node_name, self._clock = cluster, node_name, clock
        self.attaches = attaches

    # -- the start

    def of_found(self, state: VolumeState) -> Stand:
        """The attachment of a volume that was found on the disk, or of which a step has failed: perhaps this node has asked for it."""
        return Stand.UNCERTAIN if self.attaches and state.attachable else Stand.ABSENT

    def left(self, node: Node, states: Mapping[str, VolumeState]) -> Iterator[tuple[str, VolumeState]]:
        """The volumes that the Node says to be in use, and of which nothing was found: they may be attached."""
        for unique in (node.status.volumes_in_use or ()) if self.attaches else ():
            if unique not in states and (found := split_unique_name(unique)) is not None:
                driver, handle = found
                volume = Volume(unique=unique, driver=driver, handle=handle, spec_name="", is_known=False)
                yield unique, VolumeState(volume, attachable=True, attachment=Stand.UNCERTAIN)

    # -- the steps

    async def carry_out(self, state: VolumeState, *, is_attach: bool) -> None:
        """Raises StepFailed."""
        await (self.attach(state) if is_attach else self.detach(state))

    async def attach(self, state: VolumeState) -> None:
        """Asks for the attachment, or looks what has become of it."""
        state.attachment = Stand.UNCERTAIN
        found = await self._find(state.volume)
        if found is None:
            await self._create(state.volume)
            self._look_later(state, "its VolumeAttachment is made")
        elif found.metadata.deletion_timestamp is not None:
            self._look_later(state, "an earlier VolumeAttachment is being deleted")
        elif found.status.attached:
            state.attachment, state.attach_wait, state.context = Stand.DONE, None, found.status.attachment_metadata or {}
        elif found.status.attach_error is not None:
            raise _failed(found.status.attach_error.message)
        else:
            self._look_later(state, "the attacher has not attached it yet")

    async def detach(self, state: VolumeState) -> None:
        """Deletes the attachment, or looks whether it is gone."""
        state.attachment, state.context = Stand.UNCERTAIN, None
        found = await self._find(state.volume)
        if found is None:
            state.attachment, state.attach_wait = Stand.ABSENT, None
            return
        if found.metadata.deletion_timestamp is None:
            await self._delete(found)
        self._look_later(state, "the attacher has not detached it yet")

    def _look_later(self, state: VolumeState, text: str) -> None:
        state.attach_wait = self.wait_after(state.attach_wait, text)

    def wait_after(self, before: Failure | None, text: str) -> Failure:
        """The wait for the next look, twice as long as the one before."""
        count = before.count + 1 if before is not None else 1
        return Failure(text, count, self._clock.now() + BACK_OFF.delay_s(count))

    # -- the API server

    async def _find(self, volume: Volume) -> VolumeAttachment | None:
        try:
            return await self._cluster.get(VOLUME_ATTACHMENTS, self._name(volume))
        except NotFound:
            return None
        except ApiError as error:
            raise _failed(str(error)) from None

    async def _create(self, volume: Volume) -> None:
        """One that an earlier try has made, whose answer was lost, is fine."""
        source = {"persistentVolumeName": volume.spec_name}
        body = {
            "apiVersion": VOLUME_ATTACHMENTS.api_version,
            "kind": VOLUME_ATTACHMENTS.name,
            "metadata": {"name": self._name(volume)},
            "spec": {"attacher": volume.driver, "nodeName": self._node_name, "source": source},
        }
        try:
            await self._cluster.get(PERSISTENT_VOLUMES, volume.spec_name)  # a disk that a pod itself names has none
            await self._cluster.create(VOLUME_ATTACHMENTS, body)
        except AlreadyExists:
            pass
        except ApiError as error:
            raise _failed(str(error)) from None

    async def _delete(self, attachment: VolumeAttachment) -> None:
        try:
            await self._cluster.delete(VOLUME_ATTACHMENTS, attachment.metadata.name, uid=attachment.metadata.uid)
        except NotFound:
            pass
        except ApiError as error:
            raise _failed(str(error)) from None

    def _name(self, volume: Volume) -> str:
        return attachment_name(volume.driver, volume.handle, self._node_name)


def _failed(text: str) -> StepFailed:
    return StepFailed(STEP, text, reason=REASON)
