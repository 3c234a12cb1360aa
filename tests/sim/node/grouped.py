"""More bugs to plant in the node agent: in what it does for pods that want their files to belong to a group."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, cast
from unittest import mock

import msgspec

from mooring.node.volumes.decide import Do
from mooring.node.volumes.state.actual import Stand, VolumeState
from mooring.node.volumes.state.desired import PodUse, Volume
from mooring.node.volumes.steps import file_system, requests
from mooring.node.volumes.steps.announcements import StepWatch
from mooring.node.volumes.steps.file_system import FileSystemSteps
from mooring.node.volumes.steps.requests import sets_group
from tests.sim.planting import Bug

Planted = contextlib.AbstractContextManager[Any]


def _patched(judge: Callable[[Volume, PodUse, str, Collection[int]], bool]) -> Planted:
    """When the agent sets a group."""
    return mock.patch.object(file_system, "sets_group", judge)


def _no_group_is_set() -> Planted:
    """No volume gets the group of its pod."""
    return _patched(lambda volume, use, policy, able: False)


def _readers_set_groups() -> Planted:
    """A volume gets the group of a pod that only reads it, too."""
    return _patched(
        lambda volume, use, policy, able: sets_group(
            volume, msgspec.structs.replace(use, read_only=False), policy, able
        )
    )


def _drivers_are_not_trusted() -> Planted:
    """The agent sets the group also where the driver does that."""
    return _patched(lambda volume, use, policy, able: sets_group(volume, use, policy, ()))


def _policies_are_not_read() -> Planted:
    """What a CSIDriver says of groups is not read."""
    return _patched(lambda volume, use, policy, able: sets_group(volume, use, "File", able))


def _drivers_are_told_no_group() -> Planted:
    """A driver that sets groups itself hears of none."""
    capability = requests.capability

    def silent(volume: Volume, able: Collection[int], _group: int | None) -> Any:
        return capability(volume, able, None)

    return mock.patch.object(requests, "capability", silent)


def _groups_are_set_once() -> Planted:
    """What is there at a restart, or after a call that may have happened, counts as the pod's own."""
    publish, set_group = FileSystemSteps.publish, FileSystemSteps._set_group

    async def noting(self: Any, state: VolumeState, volume: Volume, use: PodUse) -> None:
        one = state.publications.get(use.uid)
        self.is_there = one is not None and one.stand is not Stand.ABSENT
        await publish(self, state, volume, use)

    async def once(self: Any, volume: Volume, use: PodUse, target: Path, step: str) -> None:
        if not self.is_there:
            await set_group(self, volume, use, target, step)

    return mock.patch.multiple(FileSystemSteps, publish=noting, _set_group=once)


def _walks_are_told_as_silence() -> Planted:
    """Users hear that the driver does not answer while the agent sets a group."""
    tell = StepWatch._tell_when_slow

    async def tells(self: StepWatch, state: VolumeState, do: Do) -> None:
        await tell(self, cast(Any, _NotWalked(state)), do)

    return mock.patch.object(StepWatch, "_tell_when_slow", tells)


class _NotWalked:
    """A volume of which nobody knows that it is walked."""

    is_walked = False

    def __init__(self, state: VolumeState) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)


GROUPED: Final[Mapping[str, Bug]] = {
    "groups-left-out": Bug(_no_group_is_set, {"group-left-out"}),
    "readers-set-groups": Bug(_readers_set_groups, {"group-astray"}),
    "drivers-untrusted": Bug(_drivers_are_not_trusted, {"group-astray"}),
    "policies-unread": Bug(_policies_are_not_read, {"group-astray"}),
    "groups-untold": Bug(_drivers_are_told_no_group, {"group-untold"}),
    "groups-set-once": Bug(_groups_are_set_once, {"group-left-out"}),
    "walks-told-as-silence": Bug(_walks_are_told_as_silence, {"told-astray"}),
}
