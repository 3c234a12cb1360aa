"""Bugs to plant in the node agent, each of which the simulation must find: the agent's own parts, replaced by worse ones for a while."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final
from unittest import mock

from mooring.api.meta import key_of
from mooring.api.pods import PODS, Pod
from mooring.base.backoff import BackOff
from mooring.control.result import Result
from mooring.kube.cluster import Patch, PatchType
from mooring.node import records
from mooring.node.layout import inline_volume_id
from mooring.node.plugins.drivers import Drivers
from mooring.node.volumes import controller, decide, found, step_tools
from mooring.node.volumes import volume as volume_module
from mooring.node.volumes.actual import ActualState
from mooring.node.volumes.attachment import Attachments
from mooring.node.volumes.block_files import BlockFiles
from mooring.node.volumes.decide import Decision, Facts, Step, decide_volume
from mooring.node.volumes.desired import DesiredState
from mooring.node.volumes.files import VolumeFiles
from mooring.node.volumes.pods import NodePods
from mooring.node.volumes.reasons import PodGone
from mooring.node.volumes.reconcile import FileSystemSteps
from mooring.node.volumes.requests import PodUse
from mooring.node.volumes.state import Stand, VolumeState
from mooring.node.volumes.step_tools import StepFailed
from mooring.node.volumes.threads import Threads
from mooring.node.volumes.volume import Volume
from tests.sim.node.grouped import GROUPED
from tests.sim.node.mended import LEFT, MENDED
from tests.sim.node.outgrown import OUTGROWN
from tests.sim.planting import Bug, both

Planted = contextlib.AbstractContextManager[Any]


@contextlib.contextmanager
def _together(*plants: Planted) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for plant in plants:
            stack.enter_context(plant)
        yield


def _with_facts(**changes: Any) -> Planted:
    """Decisions are made on other facts than are known."""

    def decided(state: VolumeState, facts: Facts) -> Decision:
        return decide_volume(state, dataclasses.replace(facts, **changes))

    return mock.patch.object(controller, "decide_volume", decided)


def _reports_are_not_awaited() -> Planted:
    """A volume is staged while the report that it is in use is on its way."""
    return _with_facts(reported=True)


def _attachments_are_not_awaited() -> Planted:
    """Whether a volume is attached is neither read from the Node's status nor from the attachment."""

    async def read(self: Attachments, state: VolumeState) -> None:
        state.context = state.context or {}

    return _together(_with_facts(attached=True), mock.patch.object(Attachments, "read", read))


def _steps_are_not_in_use() -> Planted:
    """What a step is at work on is not reported when its last pod goes meanwhile."""

    def is_empty(self: VolumeState) -> bool:
        return self.device is Stand.ABSENT and all(one.stand is Stand.ABSENT for one in self.publications.values())

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


def _records_go_first() -> Planted:
    """The record of a publication is removed before the driver takes the volume back."""
    unpublish = FileSystemSteps.unpublish

    async def hasty(self: FileSystemSteps, state: VolumeState, uid: str) -> None:
        target = self._layout.target(uid, state.publications[uid].spec_name)
        await self._on_disk(state.volume, "TearDown", records.remove, target.parent)
        await unpublish(self, state, uid)

    return mock.patch.object(FileSystemSteps, "unpublish", hasty)


def _records_come_last() -> Planted:
    """The record of a publication is written after the driver's answer."""

    def begin(self: VolumeFiles, folder: Path, record: Mapping[str, str], own: str = "") -> None:
        folder.joinpath(own).mkdir(parents=True, exist_ok=True)

    return mock.patch.object(VolumeFiles, "begin", begin)


def _found_volumes_are_mounted() -> Planted:
    """What records tell of after a restart is taken for done."""
    find_volumes = found.find_volumes

    def sure(*args: Any) -> found.Found:
        on_disk = find_volumes(*args)
        for state in on_disk.states:
            for publication in state.publications.values():
                publication.stand = Stand.DONE
        return on_disk

    return mock.patch.object(controller, "find_volumes", sure)


def _nothing_is_found() -> Planted:
    """An agent begins as if nothing was on the disk."""
    return mock.patch.object(controller, "find_volumes", return_value=found.Found())


def _found_volumes_have_no_pods() -> Planted:
    """After a restart volumes are taken away before every pod was looked at."""
    return _with_facts(may_take_away=True, unsure=frozenset())


def _pods_in_part_are_known() -> Planted:
    """A pod of which one volume can't be found out wants what is known, and nothing else."""
    settle = DesiredState.set

    def known(self: DesiredState, pod_uid: str, wanted: Any, *, is_complete: bool = True) -> None:
        settle(self, pod_uid, wanted)

    return mock.patch.object(DesiredState, "set", known)


def _volumes_do_not_hear_of_pods() -> Planted:
    """A volume that waits for pods to be known is not told of it."""
    return mock.patch.object(controller.NodeVolumes, "_pods_known", return_value=None)


def _running_hides_deletion() -> Planted:
    """The answer to the write that sets a pod running goes into the cache, also of a pod that is being deleted."""

    async def deaf(self: NodePods, pod: Pod) -> None:
        key, body = key_of(pod), {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Running"}}
        request = self._cluster.patch(PODS, key.name, Patch(PatchType.STRATEGIC, body), key.namespace, subresource="status")
        answer = await self._actual.pods.write(key, request)
        self._looked_at[pod.metadata.uid] = answer.metadata.resource_version, self._clock.now()

    return mock.patch.object(NodePods, "_set_running", deaf)


def _pods_run_at_once() -> Planted:
    """A pod is set running as soon as it is known what it wants."""
    return mock.patch.object(ActualState, "has_all", return_value=True)


def _pods_leave_at_once() -> Planted:
    """A deleted pod's object goes while its volumes are still taken away."""
    leave, states_of_pod = NodePods._leave, ActualState.states_of_pod
    leaving: ContextVar[bool] = ContextVar("leaving", default=False)

    async def hasty(self: NodePods, pod: Any) -> Any:
        token = leaving.set(True)
        try:
            self._desired.gone(pod.metadata.uid)
            return await leave(self, pod)
        finally:
            leaving.reset(token)

    def states(self: ActualState, uid: str) -> Any:
        return () if leaving.get() else states_of_pod(self, uid)

    return both(mock.patch.object(NodePods, "_leave", hasty), mock.patch.object(ActualState, "states_of_pod", states))


def _devices_leave_no_mark() -> Planted:
    """Before the driver makes a device for a pod, nothing on the disk says so."""
    original = BlockFiles.map

    def begin_publish(self: BlockFiles, spec_name: str, uid: str) -> None:
        self._layout.block_publish(spec_name, uid).parent.mkdir(parents=True, exist_ok=True)

    def mapped(self: BlockFiles, spec_name: str, uid: str) -> None:
        file = self._layout.block_map(spec_name) / uid
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        original(self, spec_name, uid)

    return _together(mock.patch.multiple(BlockFiles, begin_publish=begin_publish, map=mapped))


def _files_are_cleared() -> Planted:
    """Before the driver is asked to take a volume back, its folder is cleared."""
    original = FileSystemSteps.unpublish

    def cleared(folder: Path) -> None:
        for path in sorted(folder.rglob("*"), reverse=True):
            os.unlink(path)

    async def unpublish(self: FileSystemSteps, state: VolumeState, uid: str) -> None:
        await self._on_disk(state.volume, "TearDown", cleared, self._layout.target(uid, state.publications[uid].spec_name))
        await original(self, state, uid)

    return mock.patch.object(FileSystemSteps, "unpublish", unpublish)


def _devices_go_before_pods() -> Planted:
    """A device that no pod wants is unstaged before it is taken from the last of them, and nobody looks where else it is mounted."""

    def decided(state: VolumeState, facts: Facts) -> Decision:
        decision = decide_volume(state, facts)
        is_last = decision.step is Step.UNPUBLISH and not facts.wanted and state.device is Stand.DONE and state.device_failure is None
        return dataclasses.replace(decision, step=Step.UNSTAGE, pod="") if is_last else decision

    looks = (
        mock.patch.object(VolumeFiles, "foreign_references", return_value=()),
        mock.patch.object(BlockFiles, "in_use_by", return_value=()),
    )
    return _together(mock.patch.object(controller, "decide_volume", decided), *looks)


def _volumes_are_not_staged() -> Planted:
    """A volume is published where it may not be staged: after a restart, or a call that was not answered."""

    def decided(state: VolumeState, facts: Facts) -> Decision:
        state.device = Stand.DONE if state.device is Stand.UNCERTAIN and facts.wanted else state.device
        return decide_volume(state, facts)

    return mock.patch.object(controller, "decide_volume", decided)


def _late_work_is_not_awaited() -> Planted:
    """Work on files that was given up may come to its end after what was begun later."""
    return mock.patch.object(Threads, "_leave", return_value=None)


def _volumes_for_one_pod_are_shared() -> Planted:
    """ReadWriteOncePod is a word."""
    return mock.patch.object(decide, "_held_by_others", return_value=[])


def _failed_pods_are_forgotten() -> Planted:
    """A pod that could not be got rid of is not tried again while others wait for the volume."""

    def decided(state: VolumeState, facts: Facts) -> Decision:
        decision = decide_volume(state, facts)
        is_settled = decision.step is Step.NOTHING and facts.wanted
        return dataclasses.replace(decision, after_s=None) if is_settled else decision

    return mock.patch.object(controller, "decide_volume", decided)


def _folders_are_tried_once() -> Planted:
    """The folder of a pod that is gone is left where it could not be removed at once."""
    return mock.patch.object(NodePods, "_clean_up", mock.AsyncMock(return_value=Result(PodGone())))


def _drivers_come_unheard() -> Planted:
    """What failed for a driver's absence does not hear that it has come."""
    return mock.patch.object(Drivers, "_tell", return_value=None)


def _no_back_off() -> Planted:
    """What failed is tried again at once."""
    return mock.patch.object(step_tools, "BACK_OFF", BackOff(0.0001, 0.0001, jitter=0.0))


def _inline_volumes_share_an_id() -> Planted:
    """Two volumes that one pod brings are one for their driver."""
    return mock.patch.object(volume_module, "inline_volume_id", lambda uid, _name: inline_volume_id(uid, ""))


def _secrets_are_told() -> Planted:
    """The text of a failure shows what was sent."""
    original = FileSystemSteps.stage

    async def staged(self: FileSystemSteps, state: VolumeState, use: PodUse) -> None:
        secrets = await self._secret(state.volume.stage_secret, "MountDevice")
        try:
            await original(self, state, use)
        except StepFailed as error:
            raise self._failed(error.step, f"{error}, sent with {dict(secrets)}", uncertain=error.uncertain) from None

    return mock.patch.object(FileSystemSteps, "stage", staged)


BUGS: Final[Mapping[str, Bug]] = {
    **MENDED,
    **OUTGROWN,
    **GROUPED,
    "inline-ids-shared": Bug(_inline_volumes_share_an_id, {"overlap", "pod-left", "record-dropped", "left"}),
    "reports-unawaited": Bug(_reports_are_not_awaited, {"not-in-use"}, first_seed=8),
    "steps-unreported": Bug(_steps_are_not_in_use, {"not-in-use", "detached-in-use"}, first_seed=39),
    "only-pods-reported": Bug(_only_pods_use_volumes, {"not-in-use", "detached-in-use"}),
    "attachments-unawaited": Bug(_attachments_are_not_awaited, {"not-attached", "context-wrong"}),
    "timeouts-final": Bug(_timeouts_are_final, {"pod-dropped", "unstage-published", *LEFT}, first_seed=12),
    "records-first": Bug(_records_go_first, {"record-dropped"}),
    "records-missing": Bug(_records_come_last, {"unrecorded"}),
    "found-trusted": Bug(_found_volumes_are_mounted, {"running-without", "pod-stuck"}, first_seed=11),
    "nothing-found": Bug(_nothing_is_found, {"pod-dropped", "not-in-use", "detached-in-use", *LEFT}),
    "pods-unawaited": Bug(_found_volumes_have_no_pods, {"unpublish-wanted"}, first_seed=11),
    "pods-in-part-known": Bug(_pods_in_part_are_known, {"unpublish-wanted"}, first_seed=11),
    "pods-unheard": Bug(_volumes_do_not_hear_of_pods, {"pod-left", "pod-stuck", "in-use-left", *LEFT}, first_seed=765),
    "running-hides-deletion": Bug(_running_hides_deletion, {"pod-left", "pod-stuck"}, first_seed=97),
    "pods-run-at-once": Bug(_pods_run_at_once, {"running-without"}),
    "pods-leave-at-once": Bug(_pods_leave_at_once, {"pod-dropped"}),
    "devices-unmarked": Bug(_devices_leave_no_mark, {"pod-dropped", *LEFT}, first_seed=752),
    "files-cleared": Bug(_files_are_cleared, {"deleted-in-mount"}),
    "devices-before-pods": Bug(_devices_go_before_pods, {"unstage-published"}),
    "staging-skipped": Bug(_volumes_are_not_staged, {"publish-unstaged", "unrecorded", "pod-stuck"}),
    "late-work-unawaited": Bug(_late_work_is_not_awaited, {"record-dropped", "unrecorded", *LEFT}, first_seed=241),
    "one-pod-shared": Bug(_volumes_for_one_pod_are_shared, {"two-pods"}),
    "failed-pods-forgotten": Bug(_failed_pods_are_forgotten, {"pod-left", "pod-stuck", "in-use-left", *LEFT}),
    "folders-tried-once": Bug(_folders_are_tried_once, {"folder-left"}, first_seed=74),
    "drivers-unheard": Bug(_drivers_come_unheard, {"pod-stuck", "pod-left", "running-without"}),
    "no-back-off": Bug(_no_back_off, {"hot-loop"}),
    "secrets-told": Bug(_secrets_are_told, {"secret-shown"}, first_seed=12),
}
