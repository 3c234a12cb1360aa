"""Bugs to plant in the node agent, each of which the simulation must find: the agent's own parts, replaced by worse ones for a while."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

from mooring.base.backoff import BackOff
from mooring.node import records
from mooring.node.layout import Layout
from mooring.node.plugins.drivers import Drivers
from mooring.node.volumes import controller, found, pods, step_tools
from mooring.node.volumes.actual import ActualState
from mooring.node.volumes.attachment import Attachments
from mooring.node.volumes.block_files import BlockFiles
from mooring.node.volumes.decide import Decision, Facts, decide_volume
from mooring.node.volumes.desired import DesiredState
from mooring.node.volumes.files import VolumeFiles
from mooring.node.volumes.in_use import InUseReport
from mooring.node.volumes.pods import NodePods
from mooring.node.volumes.reconcile import FileSystemSteps
from mooring.node.volumes.state import Stand, VolumeState
from mooring.node.volumes.threads import Threads
from tests.sim.planting import Bug

Planted = contextlib.AbstractContextManager[Any]


def _with_facts(**changes: Any) -> Planted:
    """Decisions are made on other facts than are known."""

    def decided(state: VolumeState, facts: Facts) -> Decision:
        return decide_volume(state, dataclasses.replace(facts, **changes))

    return mock.patch.object(controller, "decide_volume", decided)


def _reports_are_not_awaited() -> Planted:
    """A volume is staged while the report that it is in use is on its way."""
    return _with_facts(reported=True)


def _attachments_are_not_awaited() -> Planted:
    """The Node's status says nothing about what may be staged; an attachment's own object is all that is read."""
    return _with_facts(attached=True)


def _attachments_are_not_read() -> Planted:
    """What the Node's status says is enough, and what the attacher noted is not looked for."""

    async def read(self: Attachments, state: VolumeState) -> None:
        state.context = state.context or {}

    return mock.patch.object(Attachments, "read", read)


def _reports_count_as_made() -> Planted:
    """A report of volumes in use counts as made while it is on its way, or was not answered."""

    def has(self: InUseReport, name: str) -> bool:
        return name in self._names() or (self._reports is not None and name in self._reports)

    return mock.patch.object(InUseReport, "has", has)


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
    """A call that was not answered in time is taken for not done: its record goes."""

    def forgotten(steps: Any, name: str) -> Any:
        giving = getattr(steps, name)

        async def given(self: Any, state: VolumeState, what: Any) -> None:
            try:
                await giving(self, state, what)
            except step_tools.StepFailed:
                if name == "stage":
                    state.device = Stand.ABSENT
                else:
                    state.publications.pop(what.uid, None)
                raise

        return mock.patch.object(steps, name, given)

    @contextlib.contextmanager
    def planted() -> Any:
        with forgotten(FileSystemSteps, "stage"), forgotten(FileSystemSteps, "publish"):
            yield

    return planted()


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

    def sure(layout: Layout) -> list[VolumeState]:
        states = find_volumes(layout)
        for state in states:
            state.device = Stand.DONE if state.device is Stand.UNCERTAIN else state.device
            for publication in state.publications.values():
                publication.stand = Stand.DONE
        return states

    return mock.patch.object(controller, "find_volumes", sure)


def _nothing_is_found() -> Planted:
    """An agent begins as if nothing was on the disk."""
    return mock.patch.object(controller, "find_volumes", return_value=[])


def _found_volumes_have_no_pods() -> Planted:
    """After a restart volumes are taken away before every pod was looked at."""
    return _with_facts(may_take_away=True, unsure=frozenset())


def _pods_in_part_are_known() -> Planted:
    """A pod of which one volume can't be found out wants what is known, and nothing else."""
    settle = DesiredState.set

    def known(self: DesiredState, pod_uid: str, wanted: Any, *, is_all: bool = True) -> None:
        settle(self, pod_uid, wanted)

    return mock.patch.object(DesiredState, "set", known)


def _volumes_do_not_wait_for_pods() -> Planted:
    """A volume that waits for pods to be known is not told of it."""
    return mock.patch.object(DesiredState, "_told", return_value=None)


def _running_hides_deletion() -> Planted:
    """The answer to the write that sets a pod running goes into the cache, also of a pod that is being deleted."""
    wrote = pods.NodePods._set_running

    async def deaf(self: NodePods, pod: Any) -> None:
        patch = self._cluster.patch

        async def patched(*args: Any, **options: Any) -> Any:
            answer = await patch(*args, **options)
            self._actual.pods.wrote(answer)
            return answer

        with mock.patch.object(self._cluster, "patch", patched):
            await wrote(self, pod)

    return mock.patch.object(NodePods, "_set_running", deaf)


def _pods_run_at_once() -> Planted:
    """A pod is set running when its volumes are staged."""
    return mock.patch.object(ActualState, "has_all", return_value=True)


def _pods_leave_at_once() -> Planted:
    """A deleted pod's object goes while its volumes are still taken away."""
    leave = NodePods._leave

    async def hasty(self: NodePods, pod: Any) -> Any:
        with mock.patch.object(ActualState, "states_of_pod", return_value=()):
            self._desired.gone(pod.metadata.uid)
            return await leave(self, pod)

    return mock.patch.object(NodePods, "_leave", hasty)


def _devices_leave_no_mark() -> Planted:
    """Before the driver makes a device for a pod, nothing on the disk says so."""

    def begin_publish(self: BlockFiles, spec_name: str, uid: str) -> None:
        self._layout.block_publish(spec_name, uid).parent.mkdir(parents=True, exist_ok=True)
        mapped = self._layout.block_map(spec_name)
        mapped.mkdir(parents=True, exist_ok=True)

    def mapped(self: BlockFiles, spec_name: str, uid: str) -> None:
        (self._layout.block_map(spec_name) / uid).touch()
        original(self, spec_name, uid)

    original = BlockFiles.map

    @contextlib.contextmanager
    def planted() -> Any:
        with mock.patch.multiple(BlockFiles, begin_publish=begin_publish, map=mapped):
            yield

    return planted()


def _files_are_cleared() -> Planted:
    """A volume's folder is removed with everything in it, as soon as the driver answers."""

    def end(self: VolumeFiles, folder: Path, mounted: str) -> None:
        for path in sorted((folder / mounted).rglob("*"), reverse=True):
            os.unlink(path)
        shutil.rmtree(folder, ignore_errors=True)

    async def unpublish(self: FileSystemSteps, state: VolumeState, uid: str) -> None:
        target = self._layout.target(uid, state.publications[uid].spec_name)
        await self._on_disk(state.volume, "TearDown", self._files.end, target.parent, target.name)
        await original(self, state, uid)

    original = FileSystemSteps.unpublish

    @contextlib.contextmanager
    def planted() -> Any:
        with mock.patch.object(VolumeFiles, "end", end), mock.patch.object(FileSystemSteps, "unpublish", unpublish):
            yield

    return planted()


def _devices_go_before_pods() -> Planted:
    """A device is unstaged when its last pod is being taken care of, and not when that has come to its end."""

    def decided(state: VolumeState, facts: Facts) -> Decision:
        present = state.publications
        if not facts.wanted and state.device is Stand.DONE:
            state.publications = {}
        try:
            return decide_volume(state, facts)
        finally:
            state.publications = present

    return mock.patch.object(controller, "decide_volume", decided)


def _volumes_are_staged_once() -> Planted:
    """A volume that was once staged is published without being staged anew."""

    async def unstage(self: FileSystemSteps, state: VolumeState) -> None:
        await original(self, state)
        state.device = Stand.DONE if state.publications else state.device

    original = FileSystemSteps.unstage

    async def stage(self: FileSystemSteps, state: VolumeState, fs_group: int | None) -> None:
        state.device = Stand.DONE

    @contextlib.contextmanager
    def planted() -> Any:
        with mock.patch.multiple(FileSystemSteps, stage=stage, unstage=unstage):
            yield

    return planted()


def _late_work_is_not_awaited() -> Planted:
    """Work on files that was given up may come to its end after what was begun later."""
    return mock.patch.object(Threads, "_leave", return_value=None)


def _folders_are_tried_once() -> Planted:
    """The folder of a pod that is gone is left where it could not be removed at once."""
    return mock.patch.object(NodePods, "_clean_up", mock.AsyncMock())


def _drivers_come_unheard() -> Planted:
    """What failed for a driver's absence does not hear that it has come."""
    return mock.patch.object(Drivers, "_tell", return_value=None)


def _no_back_off() -> Planted:
    """What failed is tried again at once."""
    return mock.patch.object(step_tools, "BACK_OFF", BackOff(0.0001, 0.0001, jitter=0.0))


def _secrets_are_told() -> Planted:
    """The text of a failure shows the request."""

    async def staged(self: FileSystemSteps, state: VolumeState, fs_group: int | None) -> None:
        secrets = await self._secret(state.volume.stage_secret, "MountDevice")
        try:
            await original(self, state, fs_group)
        except step_tools.StepFailed as error:
            raise self._failed(error.step, f"{error}, sent with {dict(secrets)}", uncertain=error.uncertain) from None

    original = FileSystemSteps.stage
    return mock.patch.object(FileSystemSteps, "stage", staged)


BUGS: Final[Mapping[str, Bug]] = {}
