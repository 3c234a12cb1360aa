"""Bugs to plant in the node agent, each of which the simulation must find: the agent's own parts, replaced by worse
ones for a while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.base.backoff import BackOff
from mooring.control.decision import Decision
from mooring.node.drivers import Drivers
from mooring.node.layout import inline_volume_id
from mooring.node.volumes import controller
from mooring.node.volumes.decide import Action, Do, Facts, decide_volume, do_of
from mooring.node.volumes.state import desired
from mooring.node.volumes.state.actual import ActualState, Device, Stand, Step, VolumeState
from mooring.node.volumes.state.desired import PodUse, Volume
from mooring.node.volumes.state.folders import VolumeFiles
from mooring.node.volumes.steps import tools
from mooring.node.volumes.steps.block import BlockFiles
from mooring.node.volumes.steps.file_system import FileSystemSteps
from mooring.node.volumes.steps.tools import StepFailed, StepTools
from tests.sim.node.disk_bugs import DISK_BUGS
from tests.sim.node.grouped import GROUPED
from tests.sim.node.mended import LEFT, MENDED
from tests.sim.node.outgrown import OUTGROWN
from tests.sim.node.pod_bugs import POD_BUGS
from tests.sim.planting import Bug, both, keys_are_not_held

Planted = contextlib.AbstractContextManager[Any]


def _with_facts(**changes: Any) -> Planted:
    """Decisions are made on other facts than are known."""

    def decided(state: VolumeState, facts: Facts) -> Decision[Action]:
        return decide_volume(state, msgspec.structs.replace(facts, **changes))

    return mock.patch.object(controller, "decide_volume", decided)


def _reports_are_not_awaited() -> Planted:
    """A volume is staged while the report that it is in use is on its way."""
    return _with_facts(reported=True)


def _attachments_are_not_awaited() -> Planted:
    """Whether a volume is attached is neither read from the Node's status nor from the attachment."""

    async def read(self: StepTools, state: VolumeState) -> None:
        state.context = state.context or {}

    return both(_with_facts(attached=True), mock.patch.object(StepTools, "read_attachment", read))


def _found_volumes_have_no_pods() -> Planted:
    """After a restart volumes are taken away before every pod was looked at."""
    return _with_facts(may_take_away=True, unsure=frozenset())


def _steps_are_not_in_use() -> Planted:
    """What a step is at work on is not reported when its last pod goes meanwhile."""

    def is_empty(self: VolumeState) -> bool:
        return self.device is Device.ABSENT and all(one.stand is Stand.ABSENT for one in self.publications.values())

    return mock.patch.object(VolumeState, "is_empty", property(is_empty))


def _only_pods_use_volumes() -> Planted:
    """A volume is in use as long as a pod wants it, and not until it is unstaged."""

    def in_use(self: ActualState) -> set[str]:
        return {volume.unique for volume in self.desired.volumes if self.is_attachable(volume)}

    return mock.patch.object(ActualState, "in_use", property(in_use))


def _timeouts_are_final() -> Planted:
    """A call that may have happened is taken for not done, and forgotten; its record stays."""
    original = FileSystemSteps.publish

    async def publish(self: FileSystemSteps, state: VolumeState, volume: Volume, use: PodUse) -> None:
        try:
            await original(self, state, volume, use)
        except StepFailed:
            state.publications.pop(use.uid, None)
            raise

    return mock.patch.object(FileSystemSteps, "publish", publish)


def _devices_go_before_pods() -> Planted:
    """A device that no pod wants is unstaged before it is taken from the last of them, and nobody looks where else it
    is mounted.
    """

    def decided(state: VolumeState, facts: Facts) -> Decision[Action]:
        decision = decide_volume(state, facts)
        do = do_of(decision)
        is_going = do is not None and do.step is Step.UNPUBLISH and not facts.wanted
        is_last = is_going and state.device in (Device.STAGED, Device.READY) and state.device_failure is None
        return msgspec.structs.replace(decision, actions=(Do(Step.UNSTAGE),)) if is_last else decision

    looks = (
        mock.patch.object(VolumeFiles, "foreign_references", return_value=()),
        mock.patch.object(VolumeFiles, "mounted_targets", return_value=()),
        mock.patch.object(BlockFiles, "in_use_by", return_value=()),
    )
    return both(mock.patch.object(controller, "decide_volume", decided), *looks)


def _volumes_are_not_staged() -> Planted:
    """A volume is published where it may not be staged: after a restart, or a call that was not answered."""

    def decided(state: VolumeState, facts: Facts) -> Decision[Action]:
        state.device = Device.STAGED if state.device is Device.UNCERTAIN and facts.wanted else state.device
        return decide_volume(state, facts)

    return mock.patch.object(controller, "decide_volume", decided)


def _drivers_come_unheard() -> Planted:
    """What failed for a driver's absence does not hear that it has come."""
    return mock.patch.object(Drivers, "_tell", return_value=None)


def _no_back_off() -> Planted:
    """What failed is tried again at once."""
    return both(mock.patch.object(tools, "BACK_OFF", BackOff(0.0001, 0.0001, jitter=0.0)), keys_are_not_held())


def _inline_volumes_share_an_id() -> Planted:
    """Two volumes that one pod brings are one for their driver."""
    return mock.patch.object(desired, "inline_volume_id", lambda uid, _name: inline_volume_id(uid, ""))


def _secrets_are_told() -> Planted:
    """The text of a failure shows what was sent."""
    original = FileSystemSteps.stage

    async def staged(self: FileSystemSteps, state: VolumeState, use: PodUse) -> None:
        secrets = await self._secret(state.volume.stage_secret, "MountDevice")
        try:
            await original(self, state, use)
        except StepFailed as error:
            raise self._failed(error.step, f"{error}, sent with {dict(secrets)}") from None

    return mock.patch.object(FileSystemSteps, "stage", staged)


BUGS: Final[Mapping[str, Bug]] = {
    **MENDED,
    **OUTGROWN,
    **GROUPED,
    **POD_BUGS,
    **DISK_BUGS,
    "inline-ids-shared": Bug(_inline_volumes_share_an_id, {"overlap", "pod-left", "record-dropped", "left"}),
    "reports-unawaited": Bug(_reports_are_not_awaited, {"not-in-use"}),
    "pods-unawaited": Bug(_found_volumes_have_no_pods, {"unpublish-wanted"}),
    "steps-unreported": Bug(_steps_are_not_in_use, {"not-in-use", "detached-in-use"}),
    "only-pods-reported": Bug(_only_pods_use_volumes, {"not-in-use", "detached-in-use"}),
    "attachments-unawaited": Bug(_attachments_are_not_awaited, {"not-attached", "context-wrong"}),
    "timeouts-final": Bug(_timeouts_are_final, {"pod-dropped", "unstage-published", *LEFT}),
    "devices-before-pods": Bug(_devices_go_before_pods, {"unstage-published", "overlap"}),
    "staging-skipped": Bug(_volumes_are_not_staged, {"publish-unstaged", "unrecorded", "pod-stuck"}),
    "drivers-unheard": Bug(_drivers_come_unheard, {"pod-stuck", "pod-left", "running-without", "in-use-left", *LEFT}),
    "no-back-off": Bug(_no_back_off, {"hot-loop"}),
    "secrets-told": Bug(_secrets_are_told, {"secret-shown"}),
}
