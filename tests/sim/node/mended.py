"""Defects of the node agent that were mended, planted again: the simulation must find each by a law that tells of
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

from mooring.api.meta import Key, key_of
from mooring.api.pods import PODS, Pod
from mooring.api.storage import TokenRequest
from mooring.control.result import Because
from mooring.csi.errors import DriverError
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import ApiError
from mooring.node.csinode import reconcile as csinode
from mooring.node.csinode.decide import decide_csinode
from mooring.node.volumes import controller
from mooring.node.volumes.decide import Do
from mooring.node.volumes.pods.controller import NodePods
from mooring.node.volumes.state import folders
from mooring.node.volumes.state.actual import ActualState, Device, Stand, Step, UnderWay, VolumeState
from mooring.node.volumes.state.desired import DesiredState, PodUse, Volume
from mooring.node.volumes.state.folders import VolumeFiles, remove_folder
from mooring.node.volumes.state.in_use import InUseReport, NamesInUse
from mooring.node.volumes.steps import block
from mooring.node.volumes.steps.attachment import Attachments
from mooring.node.volumes.steps.block import BlockSteps
from mooring.node.volumes.steps.file_system import FileSystemSteps
from mooring.node.volumes.steps.requests import Injector
from mooring.node.volumes.steps.run import StepTasks
from mooring.node.volumes.steps.stages import StageSteps
from mooring.node.volumes.steps.tools import StepFailed
from tests.sim.planting import Bug, both

Planted = contextlib.AbstractContextManager[Any]

# -- what can't be read


def _doubts_are_dropped() -> Planted:
    """A volume whose record can't be read leaves the list of volumes in use, and is unstaged though a pod may have
    it.
    """
    return mock.patch.object(NamesInUse, "may_be_unread", return_value=False)


def _one_pod_in_doubt_holds_all() -> Planted:
    """As long as some pod can't be resolved, nothing that was in use before the start is let go."""
    return mock.patch.object(DesiredState, "has_unseen", property(lambda self: bool(self._first | self._incomplete)))


def _new_pods_hold_all() -> Planted:
    """Nothing is taken away while any pod is not looked at yet."""
    return mock.patch.object(DesiredState, "has_unseen", property(lambda self: bool(self._unseen)))


# -- drivers


def _unknown_volumes_stay() -> Planted:
    """A driver that does not know a volume any more is asked for ever."""

    async def take_back(
        self: StageSteps,
        volume: Volume,
        step: str,
        call: Awaitable[object],
        end: Callable[..., None],
        *args: Any,
        pod: str = "",
    ) -> None:
        try:
            await call
        except DriverError as error:
            raise self._failed(step, str(error)) from None
        await self._on_disk(volume, step, end, *args, pod=pod)

    return mock.patch.object(StageSteps, "_take_back", take_back)


def _leavings_are_in_the_way() -> Planted:
    """Only an empty folder may be left at a target."""
    return both(
        mock.patch.object(folders, "remove_target", remove_folder),
        mock.patch.object(block, "remove_target", remove_folder),
    )


def _steps_hold_workers() -> Planted:
    """A step holds one of the places that all volumes share until it has ended."""
    carry_out = StepTasks._carry_out

    async def held(self: Any, unique: str, step: Callable[[], Awaitable[None]]) -> None:
        self.places = getattr(self, "places", None) or asyncio.Semaphore(controller.WORKERS)
        async with self.places:
            await carry_out(self, unique, step)

    return mock.patch.object(StepTasks, "_carry_out", held)


def _each_step_is_alone() -> Planted:
    """A volume is not taken from one pod while it is being taken from another."""
    begin = controller.NodeVolumes._begin

    def alone(self: controller.NodeVolumes, state: VolumeState, do: Do, because: Because) -> None:
        begin(self, state, do, because)
        state.at_work[do.pod] = UnderWay(Step.STAGE, because)

    return mock.patch.object(controller.NodeVolumes, "_begin", alone)


def _failed_steps_are_told_wrong() -> Planted:
    """What a step that failed has left is told as if the driver had said that it has taken the volume back."""

    async def undo(
        self: StageSteps,
        volume: Volume,
        step: str,
        error: DriverError,
        end: Callable[..., None],
        *args: Any,
        pod: str = "",
    ) -> None:
        try:
            await self._on_disk(volume, step, end, *args, pod=pod)
        except StepFailed as left:
            raise self._failed(step, f"the driver says that it has taken the volume back, but {left}") from None

    return mock.patch.object(StageSteps, "_undo", undo)


def _answers_of_others_count() -> Planted:
    """What a driver says of another node, or of none, changes how many volumes this one holds."""
    return both(
        mock.patch.object(csinode, "decide_refresh", decide_csinode),
        mock.patch.object(csinode, "_check_node_id", return_value=None),
    )


def _hosts_are_shared() -> Planted:
    """A volume of two nodes of one machine waits for the other node's pods."""

    def references(self: VolumeFiles, staging: Path, root: Path) -> tuple[str, ...]:
        return self._mount_table().references(str(staging))

    return mock.patch.object(VolumeFiles, "foreign_references", references)


def _full_nodes_reject_all() -> Planted:
    """A node that takes no more volumes rejects the pods that run, too."""

    async def reject(self: Attachments, uid: str, reason: str, message: str) -> None:
        pod = self._actual.pod(uid)
        if pod is not None:
            status = {"status": {"phase": "Failed", "reason": reason, "message": message}}
            with contextlib.suppress(ApiError):
                key = key_of(pod)
                await self._cluster.patch(
                    PODS, key.name, Patch(PatchType.STRATEGIC, status), key.namespace, subresource="status"
                )

    return both(
        mock.patch.object(Attachments, "_reject", reject),
        mock.patch.object(VolumeState, "has", _has_only_what_is_asked),
    )


def _has_only_what_is_asked(self: VolumeState, pod_uid: str) -> bool:
    one = self.publications.get(pod_uid)
    return one is not None and one.stand is Stand.DONE and not one.is_held and self.unattached_since is None


# -- pods


def _pods_are_names() -> Planted:
    """A pod is removed by its name, whose pod that is by then."""
    delete = Cluster.delete

    async def by_name(self: Cluster, kind: Any, name: str, namespace: str = "", **options: Any) -> None:
        await delete(self, kind, name, namespace, **(options | {"uid": ""}))

    return mock.patch.object(Cluster, "delete", by_name)


def _running_is_for_names() -> Planted:
    """That a pod runs is written to whichever pod has its name by then."""

    async def run(self: NodePods, pod: Pod) -> None:
        key = key_of(pod)
        patch = Patch(PatchType.STRATEGIC, {"status": {"phase": "Running"}})
        answer = await self._cluster.patch(PODS, key.name, patch, key.namespace, subresource="status")
        self._looked_at[pod.metadata.uid] = answer.metadata.resource_version, self._clock.now()

    return mock.patch.object(NodePods, "_set_running", run)


class _Deaf:
    """Knows of no pod that has gone."""

    def __init__(self, actual: ActualState, pod: Pod) -> None:
        self._actual, self._pod = actual, pod

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actual, name)

    def pod(self, _uid: str) -> Pod:
        return self._pod


def _gone_pods_want() -> Planted:
    """A pod that went while its claims were read wants its volumes all the same."""
    look = NodePods._look_at

    async def deaf(self: NodePods, pod: Pod) -> None:
        other: Any = copy.copy(self)
        other._actual = _Deaf(self._actual, pod)
        await look(other, pod)

    return mock.patch.object(NodePods, "_look_at", deaf)


def _tokens_are_shared() -> Planted:
    """A token that one pod got is good for all."""
    token = Injector._token

    async def shared(self: Any, use: PodUse, request: TokenRequest) -> Any:
        self.first = getattr(self, "first", None) or use
        return await token(self, self.first, request)

    return mock.patch.object(Injector, "_token", shared)


# -- reports


def _reports_count_at_once() -> Planted:
    """A volume counts as reported that is named in a report which is on its way, or lost."""
    return mock.patch.object(InUseReport, "has", lambda self, name: name in self._names())


def _reports_hold_for_any_version() -> Planted:
    """A report that is carried out late takes away what was reported since."""

    async def write(self: InUseReport, wanted: Any, *, was_unsure: bool) -> None:
        patch = Patch(PatchType.STRATEGIC, {"status": {"volumesInUse": sorted(wanted) or None}})
        node = self._nodes.store.get(Key("", self._node_name))
        assert node is not None
        await self._writer.patch(node, patch, "status")

    return mock.patch.object(InUseReport, "_write", write)


def _only_what_was_named_is_in_use() -> Planted:
    """What is mounted is reported only where the Node named it when the agent began."""

    def in_use(self: ActualState) -> set[str]:
        wanted = {volume.unique for volume in self.desired.volumes if self.is_attachable(volume)}
        return wanted | {unique for unique, state in self.states.items() if not state.is_empty and state.attachable}

    return mock.patch.object(ActualState, "in_use", property(in_use))


# -- steps


def _failures_forget_what_was_unsure() -> Planted:
    """A final error after a call that may have happened counts for that one, too."""

    def forgetting(steps: Any, name: str) -> Planted:
        original = getattr(steps, name)

        async def step(self: Any, state: VolumeState, *args: Any) -> None:
            if name == "stage" and state.device is Device.UNCERTAIN:
                state.device = Device.ABSENT
            if (
                name == "publish"
                and (one := state.publications.get(args[1].uid)) is not None
                and one.stand is Stand.UNCERTAIN
            ):
                one.stand = Stand.ABSENT
            await original(self, state, *args)

        return mock.patch.object(steps, name, step)

    return both(*(forgetting(steps, name) for steps in (FileSystemSteps, BlockSteps) for name in ("stage", "publish")))


LEFT: Final = frozenset({"mount-left", "staged-left", "published-left", "folder-left", "loop-left"})

MENDED: Final[Mapping[str, Bug]] = {
    "only-named-in-use": Bug(_only_what_was_named_is_in_use, {"not-in-use", "detached-in-use"}),
    "full-nodes-reject-all": Bug(_full_nodes_reject_all, {"pod-rejected"}),
    "doubts-dropped": Bug(_doubts_are_dropped, {"not-in-use", "detached-in-use", "two-pods", "unstage-published"}),
    "doubtful-pod-holds-all": Bug(_one_pod_in_doubt_holds_all, {"in-use-left", "pod-left", "pod-stuck", *LEFT}),
    "new-pods-hold-all": Bug(_new_pods_hold_all, {"held-up"}),
    "unknown-volumes-stay": Bug(_unknown_volumes_stay, {"pod-left", "pod-stuck", "in-use-left", *LEFT}),
    "leavings-in-the-way": Bug(_leavings_are_in_the_way, {"pod-left", "pod-stuck", "in-use-left", *LEFT}),
    "steps-hold-workers": Bug(_steps_hold_workers, {"held-up"}),
    "steps-alone": Bug(_each_step_is_alone, {"held-up"}),
    "failures-told-wrong": Bug(_failed_steps_are_told_wrong, {"told-wrong"}),
    "others-counted": Bug(_answers_of_others_count, {"count-astray"}),
    "hosts-shared": Bug(_hosts_are_shared, {"in-use-left", "pod-left", "pod-stuck", "held-up", *LEFT}),
    "pods-are-names": Bug(_pods_are_names, {"pod-dropped", "late-astray"}),
    "running-for-names": Bug(_running_is_for_names, {"running-without"}),
    "gone-pods-want": Bug(_gone_pods_want, {"pod-left", "pod-stuck", "in-use-left", *LEFT}),
    "tokens-shared": Bug(_tokens_are_shared, {"token-astray"}),
    "reports-count-at-once": Bug(_reports_count_at_once, {"not-in-use"}),
    "reports-late": Bug(_reports_hold_for_any_version, {"not-in-use"}),
    "unsure-forgotten": Bug(
        _failures_forget_what_was_unsure,
        {"record-dropped", "not-in-use", "unrecorded", "pod-dropped", "two-pods", *LEFT},
    ),
}
