"""Carries out the node's part in growing a volume: the driver's call between two writes to the claim's status."""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.base.clock import rfc3339
from mooring.base.log import logger
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import Call
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import ApiError
from mooring.node.plugins.drivers import CALL_S
from mooring.node.volumes import expansion, requests
from mooring.node.volumes.expansion import Growth
from mooring.node.volumes.requests import PodUse
from mooring.node.volumes.state import VolumeState
from mooring.node.volumes.step_tools import StepTools, Surroundings

_log = logger(__name__)

STEP = "NodeExpandVolume"


class GrowthSteps(StepTools):
    """reason: of the event while the pod runs."""

    reason = "VolumeResizeFailed"

    def __init__(self, around: Surroundings, cluster: Cluster) -> None:
        super().__init__(around)
        self._cluster = cluster

    async def expand(self, state: VolumeState, use: PodUse) -> None:
        """The volume has its new size on this node afterwards, and the claim says so. Raises StepFailed."""
        volume, growth = state.volume, state.volume.growth
        assert growth is not None
        driver, able = await self._able(volume, STEP)
        if requests.EXPANDS not in able:
            state.grown = growth.claim_version
            return
        secrets = await self._secret(volume.expand_secret, STEP)
        version = growth.claim_version
        if not (growth.in_progress or growth.is_old or growth.is_written):
            version = (await self._write(growth, expansion.begun_patch(growth))).metadata.resource_version
        name = state.publications[use.uid].spec_name
        if volume.is_block:
            path, staging = self._layout.block_publish(name, use.uid), self._layout.block_staging(name)
        else:
            path, staging = self._layout.target(use.uid, name), self._layout.staging(volume.driver, volume.handle)
        try:
            request = requests.expand(volume, path, staging, able, growth.size_bytes, secrets)
            await driver.rpc.node_expand_volume(request, Call(CALL_S))
        except DriverError as error:
            await self._refused(state, growth, error)
            return
        if not growth.is_written:
            await self._write(growth, expansion.done_patch(growth, version))
        state.size_bytes, state.grown = growth.size_bytes, growth.claim_version
        state.growth_failure, state.growth_was_refused = None, False
        text = f'MountVolume.NodeExpandVolume succeeded for volume "{volume.spec_name}" {self._around.node_name}'
        self._around.tell(use, "Normal", "FileSystemResizeSuccessful", text)
        self._around.tell_claim(growth, "Normal", "FileSystemResizeSuccessful", text)

    async def _refused(self, state: VolumeState, growth: Growth, error: DriverError) -> None:
        if error.final:
            has_failed_before, state.growth_was_refused = state.growth_was_refused, True
            if not growth.is_written:  # its claim tells of a size that another node has; this node's trouble is its pods' alone
                now = rfc3339(self._around.clock.wall_s())
                await self._write(growth, expansion.failed_patch(growth, error, has_failed_before=has_failed_before, now=now))
            if error.code == Code.FAILED_PRECONDITION:
                state.may_not_grow = True
                return
            if error.code in expansion.INFEASIBLE_CODES:
                state.grown = growth.claim_version
        raise self._failed(STEP, str(error), uncertain=not error.final)

    async def _write(self, growth: Growth, body: dict[str, object]) -> PersistentVolumeClaim:
        patch = Patch(PatchType.STRATEGIC, body)
        try:
            return await self._cluster.patch(PERSISTENT_VOLUME_CLAIMS, growth.claim, patch, growth.namespace, subresource="status")
        except ApiError as error:
            raise self._failed(STEP, f"the claim could not be written: {error}") from None
