"""Carries out the steps of one volume: the driver's calls, the folders and records around them.

A record is on disk before the call that it stands for, and is removed after the driver has said that nothing is left. A call that failed
for sure leaves nothing; one that may have happened leaves everything, and counts as something that has to be taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mooring.api.core import SecretReference
from mooring.api.meta import Key
from mooring.api.storage import CSIDriver
from mooring.base.backoff import BackOff
from mooring.base.clock import Clock
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.base.randomness import Chance
from mooring.control.secrets import SecretCache, SecretError
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError
from mooring.node import records
from mooring.node.layout import Layout, attachment_name
from mooring.node.plugins.drivers import CALL_S, Drivers, NodeDriver, NotRegistered
from mooring.node.volumes import requests
from mooring.node.volumes.files import LeftOver, VolumeFiles
from mooring.node.volumes.fs_group import POLICY_DEFAULT, Walk, sets_group
from mooring.node.volumes.injected import Injected, Injector
from mooring.node.volumes.requests import PodUse
from mooring.node.volumes.state import Failure, Publication, Stand, VolumeState
from mooring.node.volumes.threads import Threads
from mooring.node.volumes.volume import Volume

_log = logger(__name__)

SLOW_S: Final = 30.0
BACK_OFF: Final = BackOff(0.5, 122.0, jitter=0.0)


class StepFailed(MooringError):
    """A step did not come to its end; str() is for the pod's event. step: `MountDevice`, `SetUp`, and others of the kubelet's names."""

    def __init__(self, step: str, text: str, *, uncertain: bool = False) -> None:
        super().__init__(text)
        self.step = step
        self.uncertain = uncertain


class Steps:
    """The steps of all volumes of one node. Each method raises StepFailed."""

    def __init__(
        self,
        node_name: str,
        layout: Layout,
        drivers: Drivers,
        secrets: SecretCache,
        injected: Injector,
        csi_drivers: Informer[CSIDriver],
        tell: Callable[[PodUse, str, str], None],
        *,
        clock: Clock,
        chance: Chance,
        files: VolumeFiles | None = None,
    ) -> None:
        self._node, self._layout, self._drivers, self._secrets = node_name, layout, drivers, secrets
        self._injected, self._clock, self._chance = injected, clock, chance
        self._csi_drivers, self._tell = csi_drivers, tell
        self._files, self._threads = files or VolumeFiles(), Threads()

    def close(self) -> None:
        self._threads.close()

    # -- giving

    async def stage(self, state: VolumeState, fs_group: int | None) -> None:
        """The device is on this node afterwards, for any pod. A driver that does not stage needs nothing, and no folder."""
        volume, step = state.volume, "MountDevice"
        driver, able = await self._able(volume, step)
        if requests.STAGES not in able:
            state.device = Stand.DONE
            return
        secrets = await self._secret(volume.stage_secret, step)
        staging = self._layout.staging(volume.driver, volume.handle)
        before = state.device
        await self._begin(volume, staging.parent, records.staging_record(volume.driver, volume.handle), staging.name, step)
        state.device = Stand.UNCERTAIN
        request = requests.stage(volume, staging, able, fs_group, state.context or {}, secrets)
        try:
            await driver.rpc.node_stage_volume(request, Call(CALL_S))
        except DriverError as error:
            self._forget_secret(volume.stage_secret)
            if error.final and before is Stand.ABSENT:
                await self._end(volume, staging.parent, staging.name, step)
                state.device = Stand.ABSENT
            raise StepFailed(step, str(error), uncertain=not error.final) from None
        state.device = Stand.DONE

    async def publish(self, state: VolumeState, use: PodUse) -> None:
        """The volume is in the pod's folder afterwards."""
        volume, step = state.volume, "SetUp"
        driver, able = await self._able(volume, step)
        staging = self._layout.staging(volume.driver, volume.handle) if requests.STAGES in able and not volume.is_inline else None
        policy = self._policy(volume, step)
        injected = await self._injection(volume, use, step)
        secrets = await self._secret(volume.publish_secret, step)
        target = self._layout.target(use.uid, volume.spec_name)
        publication = state.publications.setdefault(use.uid, Publication(volume.spec_name, Stand.ABSENT))
        before = publication.stand
        await self._begin(volume, target.parent, self._publish_record(volume), "", step)
        publication.stand = Stand.UNCERTAIN
        all_secrets = {**secrets, **injected.secrets}
        request = requests.publish(volume, use, target, staging, able, state.context or {}, all_secrets, injected.context)
        try:
            await driver.rpc.node_publish_volume(request, Call(CALL_S))
        except DriverError as error:
            self._forget_secret(volume.publish_secret)
            if before is Stand.DONE:  # what the pod has is as it was
                publication.stand = Stand.DONE
            elif error.final and before is Stand.ABSENT:
                await self._end(volume, target.parent, target.name, step)
                publication.stand = Stand.ABSENT
            raise StepFailed(step, str(error), uncertain=not error.final) from None
        if sets_group(volume, use, policy, able):
            await self._set_group(volume, use, target, step)
        publication.stand, publication.is_outdated, publication.was_found = Stand.DONE, False, False

    # -- taking away

    async def unpublish(self, state: VolumeState, uid: str) -> None:
        """Nothing of the volume is in the pod's folder afterwards."""
        volume, step, publication = state.volume, "TearDown", state.publications[uid]
        target = self._layout.target(uid, publication.spec_name)
        driver = self._driver(volume, step)
        publication.stand = Stand.UNCERTAIN
        try:
            request = csi.NodeUnpublishVolumeRequest(volume_id=volume.handle, target_path=str(target))
            await driver.rpc.node_unpublish_volume(request, Call(CALL_S))
        except DriverError as error:
            raise StepFailed(step, str(error), uncertain=True) from None
        await self._end(volume, target.parent, target.name, step)
        del state.publications[uid]

    async def unstage(self, state: VolumeState) -> None:
        """The device has left this node afterwards. A record that is missing means that it has left already."""
        volume, step = state.volume, "UnmountDevice"
        driver, able = await self._able(volume, step)
        staging = self._layout.staging(volume.driver, volume.handle)
        try:
            record = await self._threads.run(volume.driver, records.read, staging.parent)
            foreign = await self._threads.run(volume.driver, self._files.foreign_references, staging, self._layout.root)
        except (records.BadRecord, OSError, TimeoutError) as error:
            raise StepFailed(step, f"the record of the staged volume can't be read: {error}; put it right or remove it") from None
        if record is None:
            state.device = Stand.ABSENT
            return
        if foreign:
            text = f"the device mount path {str(staging)!r} is still mounted by other references {list(foreign)}"
            raise StepFailed(step, text)
        state.device = Stand.UNCERTAIN
        if requests.STAGES in able:
            try:
                request = csi.NodeUnstageVolumeRequest(volume_id=volume.handle, staging_target_path=str(staging))
                await driver.rpc.node_unstage_volume(request, Call(CALL_S))
            except DriverError as error:
                raise StepFailed(step, str(error), uncertain=True) from None
        await self._end(volume, staging.parent, staging.name, step)
        state.device = Stand.ABSENT

    # -- what the steps are made of

    def failure(self, before: Failure | None, error: StepFailed) -> Failure:
        """What is remembered of a step that failed: the next try is twice as far away as the last."""
        count = before.count + 1 if before is not None else 1
        return Failure(str(error), count, self._clock.now() + BACK_OFF.jittered_s(count, self._chance))

    def _driver(self, volume: Volume, step: str) -> NodeDriver:
        try:
            return self._drivers.get(volume.driver)
        except NotRegistered as error:
            raise StepFailed(step, f"kubernetes.io/csi: {error}") from None

    async def _able(self, volume: Volume, step: str) -> tuple[NodeDriver, frozenset[int]]:
        driver = self._driver(volume, step)
        try:
            return driver, await driver.capabilities()
        except DriverError as error:
            raise StepFailed(step, str(error), uncertain=True) from None

    async def _secret(self, reference: SecretReference | None, step: str) -> Mapping[str, str]:
        if reference is None:
            return {}
        try:
            return await self._secrets.get(reference)
        except (ApiError, SecretError) as error:
            raise StepFailed(step, f"fetching secret {reference.namespace}/{reference.name} failed: {error}") from None

    async def _injection(self, volume: Volume, use: PodUse, step: str) -> Injected:
        try:
            return await self._injected.of(volume, use)
        except ApiError as error:
            raise StepFailed(step, f"failed to get service account token attributes: {error}") from None

    def _policy(self, volume: Volume, step: str) -> str:
        """The driver's fsGroupPolicy. Raises StepFailed for a driver that does not take volumes of this kind."""
        found = self._csi_drivers.store.get(Key("", volume.driver))
        mode = records.EPHEMERAL if volume.is_inline else records.PERSISTENT
        modes = (found.spec.volume_lifecycle_modes if found is not None else None) or (records.PERSISTENT,)
        if mode not in modes:
            raise StepFailed(step, f'volume mode "{mode}" not supported by driver {volume.driver} (only supports {", ".join(modes)})')
        return (found.spec.fs_group_policy if found is not None else None) or POLICY_DEFAULT

    async def _set_group(self, volume: Volume, use: PodUse, target: Path, step: str) -> None:
        assert use.fs_group is not None
        walk = Walk(target, use.fs_group, use.fs_group_policy)
        try:
            async with asyncio.TaskGroup() as group:
                minding = group.create_task(self._mind(walk, use), name=f"node/fs-group/{use.uid}")
                await self._threads.run(volume.driver, walk.run, limit_s=None)
                minding.cancel()
        except* OSError as errors:
            text = f"applyFSGroup failed for vol {volume.handle}: {errors.exceptions[0]}"
            raise StepFailed(step, text, uncertain=True) from None

    async def _mind(self, walk: Walk, use: PodUse) -> None:
        """Tells the pod's users of a walk that takes long, after SLOW_S and then every minute."""
        await self._clock.sleep(SLOW_S)
        where = f"{use.uid}/volumes/{use.volume_name}"
        text = f"Setting volume ownership for {where} is taking longer than expected, consider using OnRootMismatch"
        self._tell(
            use, "VolumePermissionChangeInProgress", f"{text} - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"
        )
        while True:
            await self._clock.sleep(60.0)
            self._tell(use, "VolumePermissionChangeInProgress", f"{text}, processed {walk.count} files.")

    def _forget_secret(self, reference: SecretReference | None) -> None:
        if reference is not None:
            self._secrets.forget(reference)

    def _publish_record(self, volume: Volume) -> dict[str, str]:
        return records.publish_record(
            volume.driver,
            volume.handle,
            spec_name=volume.spec_name,
            node=self._node,
            attachment=attachment_name(volume.driver, volume.handle, self._node),
            mode=records.EPHEMERAL if volume.is_inline else records.PERSISTENT,
        )

    async def _begin(self, volume: Volume, folder: Path, record: Mapping[str, str], own: str, step: str) -> None:
        try:
            await self._threads.run(volume.driver, self._files.begin, folder, record, own)
        except (OSError, TimeoutError) as error:
            raise StepFailed(step, f"the volume's folder can't be made: {_words(error)}") from None

    async def _end(self, volume: Volume, folder: Path, mounted: str, step: str) -> None:
        try:
            await self._threads.run(volume.driver, self._files.end, folder, mounted)
        except (LeftOver, OSError, TimeoutError) as error:
            raise StepFailed(step, _words(error), uncertain=True) from None


def _words(error: Exception) -> str:
    return "the file system does not answer" if isinstance(error, TimeoutError) else str(error)
