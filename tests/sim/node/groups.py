"""The groups that pods want their files to belong to: what pods say, and what must come of it on each machine.

| law            | broken when                                                                           |
| -------------- | ------------------------------------------------------------------------------------- |
| group-untold   | a driver that sets groups itself is not told the pod's, or another driver is told one |
| group-astray   | the agent gives a group what nobody asked it for, or what is not the volume           |
| group-left-out | a pod is said to run, and what it is told to own belongs to another group             |

When the agent sets a group is said by the kubelet's table: `is_set_by_agent`. A single file that can't be changed is
passed over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from mooring.base.randomness import Random
from tests.sim.node.driver import GIVING, PUBLISH
from tests.sim.node.machine import CONTENT, Machine
from tests.sim.node.plan import RWO, RWOP, DriverPlan, Plan, VolumePlan

_WISHES_SEED: Final = 1 << 46
GROUPS: Final = (3000, 4000)
CHANGE_POLICIES: Final = (None, "Always", "OnRootMismatch")
FS_TYPE: Final = "ext4"
WITHOUT_TYPE: Final = ("", "ReadWriteOnceWithFSType")
"""The policies under which what has no file system's type, or is for many nodes, is left alone; "" for a driver that
names none.
"""
_OPEN: Final = 0o660
_OPEN_FOLDER: Final = stat.S_ISGID | 0o770
Json = dict[str, Any]


class Wishes:
    """What the users of a life's pods say of groups, drawn on its own."""

    def __init__(self, plan: Plan) -> None:
        self._has_any, self._randomness = plan.habits.groups, Random(_WISHES_SEED + plan.seed)

    def put_into(self, pod: Json) -> Json:
        """The pod, which may want a group, and may only read some of its volumes."""
        if not self._has_any:
            return pod
        if self._randomness.happens(0.7):
            policy = CHANGE_POLICIES[self._randomness.below(len(CHANGE_POLICIES))]
            wanted = {"fsGroup": GROUPS[self._randomness.below(len(GROUPS))], "fsGroupChangePolicy": policy}
            pod["spec"]["securityContext"] = {name: value for name, value in wanted.items() if value is not None}
        for volume in pod["spec"].get("volumes") or ():
            source = volume.get("persistentVolumeClaim") or volume.get("csi")
            if source is not None and self._randomness.happens(0.2):
                source["readOnly"] = True
            if "csi" in volume and self._randomness.happens(0.5):
                source["fsType"] = FS_TYPE
        return pod


class Groups:
    """pods: all that there ever were, by uid: a call can come after its pod has gone."""

    def __init__(self, plan: Plan, fail: Callable[[str, str], None]) -> None:
        self._plan, self._fail = plan, fail
        self._pods: dict[str, Json] = {}

    def saw(self, pod: Json) -> None:
        self._pods[pod["metadata"]["uid"]] = pod

    # -- the driver

    def asked(self, machine: Machine, verb: str, handle: str, path: str, request: Any, own: DriverPlan) -> None:
        """A driver is called. own: that driver."""
        if verb not in GIVING:
            return
        volume = self._plan.volume_of(handle)
        is_told = own.habits.sets_groups and not (volume is not None and volume.block)
        users = self._at(path) if verb == PUBLISH else self._users_of(machine, volume)
        allowed = {str(group_of(pod) or "") if is_told else "" for pod in users}
        told = request.volume_capability.mount.volume_mount_group
        if users and told not in allowed:
            wanted = " or ".join(sorted(map(repr, allowed)))
            self._fail(
                "group-untold", f"{verb} {handle} at {machine.short(path)} has the group {told!r}, and not {wanted}"
            )
        if verb == PUBLISH and users and request.readonly != _only_reads(users[0], volume, path):
            self._fail("group-untold", f"{verb} {handle} at {machine.short(path)} says readonly {request.readonly}")

    def _at(self, path: str) -> list[Json]:
        """The pod that has this path, alone."""
        return [pod for uid, pod in self._pods.items() if uid in path]

    def _users_of(self, machine: Machine, volume: VolumePlan | None) -> list[Json]:
        pods = (pod for pod in self._pods.values() if pod["spec"].get("nodeName") == machine.name)
        return [
            pod for pod in pods if volume is not None and any(_claim_of(one) == volume.name for one in _volumes_of(pod))
        ]

    # -- the agent

    def changes(self, machine: Machine, path: str, group: int) -> None:
        """The agent is about to give a group something."""
        shown = f"{machine.short(path)} on {machine.name} is given the group {group}"
        found = next(
            ((pod, one) for pod in self._at(path) for one in self._of_agent(machine, pod) if _is_in(path, one)), None
        )
        if found is None:
            self._fail("group-astray", f"{shown}, and that is not the agent's to set")
        elif found[1] not in machine.mounts:
            self._fail("group-astray", f"{shown}, and nothing is mounted there")
        elif group_of(found[0]) != group:
            self._fail("group-astray", f"{shown}, and its pod wants {group_of(found[0])}")

    def missing(self, machine: Machine, pod: Json) -> Iterator[str]:
        """What a pod was told to own, and does not."""
        group = group_of(pod)
        for target in self._of_agent(machine, pod):
            for path in (target, str(Path(target, CONTENT))):
                if not os.path.lexists(path):
                    continue
                if machine.groups.get(path) != group and ("chgrp", path) not in machine.passed_over:
                    yield f"{machine.short(path)} is of the group {machine.groups.get(path)}, and not of {group}"
                wanted, mode = _OPEN_FOLDER if path == target else _OPEN, os.lstat(path).st_mode
                if mode & wanted != wanted and ("chmod", path) not in machine.passed_over:
                    yield f"{machine.short(path)} has the mode {mode:o}, and {group} can't use it"

    def _of_agent(self, machine: Machine, pod: Json) -> Iterator[str]:
        """The targets of the pod's volumes whose group the agent is to set."""
        if group_of(pod) is None:
            return
        uid, layout = pod["metadata"]["uid"], machine.layout
        for one in _volumes_of(pod):
            planned = next((volume for volume in self._plan.volumes if volume.name == _claim_of(one)), None)
            name, driver = (
                (planned.name, planned.driver)
                if planned is not None
                else (one["name"], one.get("csi", {}).get("driver", ""))
            )
            if driver and is_set_by_agent(one, planned, self._plan.driver_of(driver)):
                yield str(layout.target(uid, name))


def is_set_by_agent(volume: Json, planned: VolumePlan | None, driver: DriverPlan) -> bool:
    """The kubelet's table, for a pod that wants a group. volume: of the pod. planned: None for an inline one."""
    source = volume.get("persistentVolumeClaim") or volume["csi"]
    policy = driver.habits.group_policy
    if (
        driver.habits.sets_groups
        or source.get("readOnly")
        or policy == "None"
        or (planned is not None and planned.block)
    ):
        return False
    if policy not in WITHOUT_TYPE:
        return True
    if planned is None:
        return bool(source.get("fsType"))
    return bool(planned.fs_type) and planned.mode in (RWO, RWOP)


def group_of(pod: Json) -> int | None:
    found: int | None = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    return found


def _volumes_of(pod: Json) -> list[Json]:
    return pod["spec"].get("volumes") or []


def _claim_of(volume: Json) -> str:
    name: str = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    return name


def _is_in(path: str, target: str) -> bool:
    return path == target or path.startswith(f"{target}/")


def _only_reads(pod: Json, planned: VolumePlan | None, path: str) -> bool:
    """Whether the pod says of the volume at this path that it only reads it."""
    for volume in _volumes_of(pod):
        if planned is None and "csi" in volume and f"/{volume['name']}/" in path:
            return bool(volume["csi"].get("readOnly"))
        if planned is not None and _claim_of(volume) == planned.name:
            return bool(volume["persistentVolumeClaim"].get("readOnly"))
    return False
