"""Carries out the steps of a raw block volume. As with file systems, the record is there before the driver is called, and goes last."""

from __future__ import annotations

from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.node.drivers import CALL_S
from mooring.node.volumes import requests
from mooring.node.volumes.block_files import BlockFiles
from mooring.node.volumes.requests import PodUse
from mooring.node.volumes.state import Publication, Stand, Volume, VolumeState
from mooring.node.volumes.step_tools import StepTools, Surroundings


class BlockSteps(StepTools):
    """Raw devices. Each method raises StepFailed."""

    reason = "FailedMapVolume"

    def __init__(self, around: Surroundings, files: BlockFiles | None = None) -> None:
        super().__init__(around)
        self._files = files or BlockFiles(around.layout)

    async def stage(self, state: VolumeState, _use: PodUse) -> None:
        """The device is on this node afterwards, for any pod."""
        volume, step, before = state.volume, "SetUpDevice", state.device
        driver, able = await self._able(volume, step)
        stages = requests.STAGES in able
        secrets = await self._secret(volume.stage_secret, step) if stages else {}
        state.device, state.may_be_staged = Stand.UNCERTAIN, state.may_be_staged or stages
        await self._on_disk(volume, step, lambda: self._files.begin(volume.spec_name, self._publish_record(volume, ""), stages=stages))
        if stages:
            staging = self._layout.block_staging(volume.spec_name)
            try:
                request = requests.stage(volume, staging, able, None, state.context or {}, secrets)
                await driver.rpc.node_stage_volume(request, Call(CALL_S))
            except DriverError as error:
                self._forget_secret(volume.stage_secret)
                if error.final and before is Stand.ABSENT:
                    await self._undo(volume, step, error, self._files.end, volume.spec_name)
                    state.device = Stand.ABSENT
                raise self._failed(step, str(error), uncertain=not error.final) from None
        state.device = Stand.DONE

    async def publish(self, state: VolumeState, volume: Volume, use: PodUse) -> None:
        """The pod's device file, and the link to it, are there afterwards. volume: as the pod's own PersistentVolume has it."""
        step = "MapPodDevice"
        driver, able = await self._able(volume, step)
        if requests.STAGES in able and not state.may_be_staged:  # the driver has come to stage volumes since
            await self.stage(state, use)
        injected = await self._injection(volume, use, step)
        secrets = await self._secret(volume.publish_secret, step)
        target, staging = self._layout.block_publish(volume.spec_name, use.uid), self._layout.block_staging(volume.spec_name)
        publication = state.publications.setdefault(use.uid, Publication(volume.spec_name, Stand.ABSENT))
        before = publication.stand
        publication.stand = Stand.UNCERTAIN
        await self._on_disk(volume, step, self._files.begin_publish, volume.spec_name, use.uid, pod=use.uid)
        request = requests.publish(volume, use, target, staging, able, state.context or {}, secrets, injected.context)
        try:
            await driver.rpc.node_publish_volume(request, Call(CALL_S))
        except DriverError as error:
            self._forget_secret(volume.publish_secret)
            if before is Stand.DONE:  # what the pod has is as it was
                publication.stand = Stand.DONE
            elif error.final and before is Stand.ABSENT:
                await self._undo(volume, step, error, self._files.end_publish, volume.spec_name, use.uid, pod=use.uid)
                publication.stand = Stand.ABSENT
            raise self._failed(step, str(error), uncertain=not error.final) from None
        await self._on_disk(volume, step, self._files.map, volume.spec_name, use.uid, pod=use.uid)
        self._published(state, use, before)
        if before is not Stand.DONE:
            self._tell_mapped(state, use)

    async def unpublish(self, state: VolumeState, uid: str) -> None:
        """Nothing of the device is left for the pod afterwards."""
        volume, step = state.volume, "UnmapVolume"
        spec_name = state.publications[uid].spec_name
        driver = self._driver(volume, step)
        state.publications[uid].stand = Stand.UNCERTAIN
        await self._on_disk(volume, step, self._files.unmap, spec_name, uid, pod=uid)
        target = str(self._layout.block_publish(spec_name, uid))
        request = csi.NodeUnpublishVolumeRequest(volume_id=volume.handle, target_path=target)
        call = driver.rpc.node_unpublish_volume(request, Call(CALL_S))
        await self._take_back(volume, step, call, self._files.end_publish, spec_name, uid, pod=uid)
        state.was_given_back(uid, self._around.clock.now())

    async def unstage(self, state: VolumeState) -> None:
        """The device has left this node afterwards."""
        volume, step = state.volume, "UnmapDevice"
        if pods := await self._on_disk(volume, step, self._files.in_use_by, volume.spec_name):
            mapped = self._layout.block_map(volume.spec_name)
            raise self._failed(step, f"the device {mapped} is still referenced from other Pods {list(pods)}")
        state.device = Stand.UNCERTAIN
        driver, able = await self._able(volume, step) if state.may_be_staged else (None, frozenset[int]())
        if driver is not None and requests.STAGES in able:
            staging = str(self._layout.block_staging(volume.spec_name))
            request = csi.NodeUnstageVolumeRequest(volume_id=volume.handle, staging_target_path=staging)
            call = driver.rpc.node_unstage_volume(request, Call(CALL_S))
            await self._take_back(volume, step, call, self._files.end, volume.spec_name)
        else:
            await self._on_disk(volume, step, self._files.end, volume.spec_name)
        state.device, state.may_be_staged = Stand.ABSENT, False

    def _tell_mapped(self, state: VolumeState, use: PodUse) -> None:
        spec_name = state.volume.spec_name
        paths = (
            ("globalMapPath", self._layout.block_map(spec_name)),
            ("volumeMapPath", self._layout.block_link(use.uid, spec_name).parent),
        )
        for name, path in paths:
            text = f'MapVolume.MapPodDevice succeeded for volume "{spec_name}" {name} "{path}"'
            self._around.tell(use, "Normal", "SuccessfulMountVolume", text)
