"""The node's part in growing a volume: the driver's call between two writes to the claim's status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.quantity import parse_quantity
from mooring.base.clock import rfc3339
from mooring.base.log import logger
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.kube.errors import ApiError, Conflict
from mooring.kube.patch import strategic_patch
from mooring.node.drivers import CALL_S
from mooring.node.volumes.state.actual import Refusal, VolumeState
from mooring.node.volumes.state.desired import IN_PROGRESS, PENDING, Growth, PodUse, resize_step, size_bytes_of
from mooring.node.volumes.steps import requests
from mooring.node.volumes.steps.tools import StepFailed, StepTools
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

STEP = "NodeExpandVolume"
CONFLICTS_MAX: Final = 5
"""A write that may come after any other is sent again so often at once."""


INFEASIBLE: Final = "NodeResizeInfeasible"
INFEASIBLE_CODES: Final = frozenset({Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND})
_CONDITIONS: Final = ("Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError")


class ClaimMoved(StepFailed):
    """Others have changed the claim since it was read: it is read again, without a word to users."""

    is_shown = False


class GrowthSteps(StepTools):
    """reason: of the event while the pod runs."""

    reason = "VolumeResizeFailed"

    async def expand(self, state: VolumeState, use: PodUse) -> None:
        """The volume has its new size on this node afterwards, and the claim says so. A pod that only reads is told.
        Raises StepFailed.
        """
        volume, growth = state.volume, state.volume.growth
        assert growth is not None
        if use.read_only:
            self._tell_read_only(state, use, growth)
            return
        driver, able = await self._able(volume, STEP)
        if requests.EXPANDS not in able:
            await self._unable(state, growth)
            return
        secrets = await self._expand_secret(state, growth)
        version = growth.claim_version
        if not (growth.in_progress or growth.is_old or growth.is_written):
            version = (await self._write(growth, begun_patch(growth))).metadata.resource_version
        name = state.publications[use.uid].spec_name
        request = requests.VolumeRequests(self._layout, volume, able).expand(use.uid, name, growth.size_bytes, secrets)
        try:
            await driver.rpc.node_expand_volume(request, Call(CALL_S))
        except DriverError as error:
            await self._refused(state, growth, error)
            return
        if not growth.is_written:
            await self._save(growth, version)
        state.size_bytes, state.grown = growth.size_bytes, growth.claim_version
        state.growth_failure, state.growth_refusal = None, Refusal.NONE
        text = f'MountVolume.NodeExpandVolume succeeded for volume "{volume.spec_name}" {self._around.node_name}'
        self._around.tell(use, "Normal", "FileSystemResizeSuccessful", text)
        self._around.tell_claim(growth, "Normal", "FileSystemResizeSuccessful", text)

    def _tell_read_only(self, state: VolumeState, use: PodUse, growth: Growth) -> None:
        state.publications[use.uid].told_size = growth.size
        text = (
            f'MountVolume.NodeExpandVolume failed for volume "{state.volume.spec_name}" requested read-only file system'
        )
        self._around.tell(use, "Warning", "FileSystemResizeFailed", text)
        self._around.tell_claim(growth, "Warning", "FileSystemResizeFailed", text)

    async def _unable(self, state: VolumeState, growth: Growth) -> None:
        """The driver can't expand here. Raises StepFailed where the claim waits for that: its controller has promised
        it.
        """
        state.grown = growth.claim_version
        if growth.is_old or growth.is_written:
            return
        text = f"NodeExpand is not supported by the CSI driver {state.volume.driver}"
        state.grown = (await self._write(growth, failed_patch(growth, text, self._now()))).metadata.resource_version
        raise self._failed(STEP, text)

    async def _expand_secret(self, state: VolumeState, growth: Growth) -> Mapping[str, str]:
        """Raises StepFailed, also told on the claim, which has no pod's events."""
        try:
            return await self._secret(state.volume.expand_secret, STEP)
        except StepFailed as failure:
            if not growth.is_written:
                await self._write(growth, failed_patch(growth, str(failure), self._now()))
            raise

    async def _refused(self, state: VolumeState, growth: Growth, error: DriverError) -> None:
        if error.final:
            has_failed_before = state.growth_refusal is not Refusal.NONE
            state.growth_refusal = Refusal.FINAL
            # A claim with its size has it by another node: this one's trouble is its pods' alone. An old resizer hears
            # of no refusal.
            if not (growth.is_written or growth.is_old):
                patch = refused_patch(growth, error, has_failed_before=has_failed_before, now=self._now())
                await self._write(growth, patch)
            if error.code == Code.FAILED_PRECONDITION:
                state.growth_refusal = Refusal.IN_USE
                _log.error(
                    "A volume may not grow in use; this node does not ask again",
                    volume=state.volume.unique,
                    reason=str(error),
                )
                return
            if error.code in INFEASIBLE_CODES:
                state.grown = growth.claim_version
        raise self._failed(STEP, str(error))

    def _now(self) -> str:
        return rfc3339(self._around.clock.wall_s())

    async def _save(self, growth: Growth, version: str) -> None:
        """The claim has its size. A change by others during the call asks for no second one. Raises StepFailed."""
        for _ in range(CONFLICTS_MAX):
            try:
                await self._write(growth, done_patch(growth, version))
                return
            except ClaimMoved:
                claim = await self._read(growth)
                if not is_still_due(growth, claim):
                    return
                version = claim.metadata.resource_version
        raise ClaimMoved(STEP, "the claim could not be written: it changes all the time")

    async def _read(self, growth: Growth) -> PersistentVolumeClaim:
        try:
            return await self._around.cluster.get(PERSISTENT_VOLUME_CLAIMS, growth.claim, growth.namespace)
        except ApiError as error:
            raise self._failed(STEP, f"the claim could not be read: {error}") from None

    async def _write(self, growth: Growth, body: dict[str, object]) -> PersistentVolumeClaim:
        """Raises StepFailed, ClaimMoved."""
        patch = strategic_patch(body, of=growth.claim_uid)
        try:
            return await self._around.cluster.patch(
                PERSISTENT_VOLUME_CLAIMS, growth.claim, patch, growth.namespace, subresource="status"
            )
        except Conflict as error:
            raise ClaimMoved(STEP, f"the claim could not be written: {error}") from None
        except ApiError as error:
            raise self._failed(STEP, f"the claim could not be written: {error}") from None


def is_still_due(growth: Growth, claim: PersistentVolumeClaim) -> bool:
    """True for the claim that the growth was decided for, changed only in what does not concern it."""
    if claim.metadata.uid != growth.claim_uid:
        return False
    if growth.is_old:
        return not resize_step(claim) and size_bytes_of(claim) < growth.size_bytes
    allocated = (claim.status.allocated_resources or {}).get("storage", "")
    return (
        resize_step(claim) in (PENDING, IN_PROGRESS)
        and parse_quantity(allocated or "0").value == parse_quantity(growth.size).value
    )


def begun_patch(growth: Growth) -> dict[str, Any]:
    """A strategic merge patch of the claim's status: the node is at work. It holds only for the claim as it was
    read.
    """
    return {
        "metadata": {"resourceVersion": growth.claim_version},
        "status": {"allocatedResourceStatuses": {"storage": IN_PROGRESS}},
    }


def done_patch(growth: Growth, version: str) -> dict[str, Any]:
    """The same: the claim has its size, and nothing is left of the way there. version: the claim's, as it was written
    last.
    """
    return {
        "metadata": {"resourceVersion": version},
        "status": {
            "capacity": {"storage": growth.size},
            "allocatedResourceStatuses": {"storage": None},
            "conditions": [{"$patch": "delete", "type": kind} for kind in _CONDITIONS],
        },
    }


def failed_patch(growth: Growth, text: str, now: str) -> dict[str, Any]:
    """A strategic merge patch of the status of this very claim, whatever has become of it meanwhile: the failure. now:
    RFC 3339.
    """
    condition = {
        "type": "NodeResizeError",
        "status": "True",
        "lastTransitionTime": now,
        "message": f"failed to expand pvc with {text}",
    }
    return {"status": {"conditions": [condition]}}


def refused_patch(growth: Growth, error: DriverError, *, has_failed_before: bool, now: str) -> dict[str, Any]:
    """The same, after a refusal by the driver: where it will refuse again, the controller has the claim."""
    patch = failed_patch(growth, str(error), now)
    if error.code in INFEASIBLE_CODES or (has_failed_before and growth.is_another_size_wanted):
        patch["status"]["allocatedResourceStatuses"] = {"storage": INFEASIBLE}
    return patch
