"""Snapshot controller and snapshotter on a group of two claims: the group, its content, its class, its members, and the
backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api import snapshot_names as names
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.cluster.snapshots.controller import SnapshotController
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.controller import Snapshotter
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from tests.sim.states.run import RESYNC_S, Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import (
    APP,
    DRIVER,
    NS,
    Json,
    a_bound_claim,
    a_claim,
    a_group_class,
    a_group_content,
    a_group_snapshot,
    a_new_content,
    a_pv,
    a_secret,
    a_snapshot,
    a_snapshot_class,
)
from tests.support.cluster_world import ClusterUser
from tests.support.scripted_driver import RPC, ScriptedDriver
from tests.support.snapshot_driver import SERVICE, SnapshotDriver

FOREIGN: Final = "example.com/other"
OTHER: Final = "other.csi.test"
CONTENT: Final = "groupsnapcontent-uid-group"
HANDLE: Final = "g-groupsnapshot-uid-group"
_AT: Final = "2026-01-01T00:00:00Z"
_IMPORT: Final = "import-member"
_GONE: Final = {"deletionTimestamp": _AT}
_HELD: Final = {"finalizers": [names.GROUP_FINALIZER]}
_READY: Final = {"boundVolumeGroupSnapshotContentName": CONTENT, "readyToUse": True, "creationTime": _AT}
_GROUP: Final[dict[str, Json | None]] = {
    "new": {},
    "absent": None,
    "blank": {"status": {"boundVolumeGroupSnapshotContentName": "", "readyToUse": False}},
    "held": _HELD,
    "bound": {**_HELD, "status": {"boundVolumeGroupSnapshotContentName": CONTENT, "readyToUse": False}},
    "ready": {**_HELD, "status": _READY},
    "failed": {**_HELD, "status": {"readyToUse": False, "error": {"message": "no", "time": _AT}}},
    "torn": {"status": _READY},
    "deleting": {**_HELD, **_GONE},
    "deleting-ready": {**_HELD, **_GONE, "status": _READY},
    "deleting-free": {"finalizers": [FOREIGN], **_GONE, "status": _READY},
    "imports": {"content": CONTENT},
}
_INFOS: Final = [
    {"volumeHandle": f"vol-{one}", "snapshotHandle": f"{HANDLE}-vol-{one}", "readyToUse": True} for one in "ab"
]
_DONE: Final = {
    "volumeGroupSnapshotHandle": HANDLE,
    "readyToUse": True,
    "creationTime": _AT,
    "volumeSnapshotInfoList": _INFOS,
}
_CONTENT_HELD: Final = {"finalizers": [names.GROUP_CONTENT_FINALIZER]}
_BEGUN: Final = {"annotations": {names.GROUP_BEING_CREATED: names.YES}}
_MARKED: Final = {"annotations": {names.GROUP_BEING_DELETED: names.YES}}
_SECRET: Final = {names.GROUP_SECRET_NAME: "secret", names.GROUP_SECRET_NAMESPACE: NS}
_CONTENTS: Final[dict[str, Json | None]] = {
    "absent": None,
    "new": _CONTENT_HELD,
    "free": {},
    "begun": {**_CONTENT_HELD, **_BEGUN},
    "made": {**_CONTENT_HELD, **_BEGUN, "status": {**_DONE, "readyToUse": False}},
    "ready": {**_CONTENT_HELD, "status": _DONE},
    "retained": {**_CONTENT_HELD, "status": _DONE, "policy": "Retain"},
    "torn": {"status": _DONE},
    "former": {**_CONTENT_HELD, "status": _DONE, "ref_uid": "uid-former"},
    "unbound": {"ref_uid": None, "imports": True},
    "marked": {**_CONTENT_HELD, **_MARKED, "status": _DONE},
    "deleting": {**_CONTENT_HELD, **_GONE, "status": _DONE},
    "deleting-begun": {**_CONTENT_HELD, **_GONE, "annotations": {**_BEGUN["annotations"], **_MARKED["annotations"]}},
    "deleting-marked": {**_CONTENT_HELD, **_MARKED, **_GONE, "status": _DONE},
    "deleting-free": {"finalizers": [FOREIGN], **_MARKED, **_GONE, "status": _DONE},
    "deleting-kept": {"finalizers": [*_CONTENT_HELD["finalizers"], FOREIGN], **_GONE, "status": _DONE,
                      "annotations": {**_BEGUN["annotations"], **_MARKED["annotations"]}},
    "deleting-secret": {**_CONTENT_HELD, **_GONE, "status": _DONE,
                        "annotations": {**_MARKED["annotations"], **_SECRET}},
    "foreign": {**_CONTENT_HELD, "driver": OTHER, "status": _DONE},
}  # fmt: skip
_CLASS: Final[dict[str, Json | None]] = {
    "there": {},
    "absent": None,
    "other-driver": {"driver": OTHER},
    "retain": {"policy": "Retain"},
}
_CLAIMS: Final = ("both", "none", "one-pending", "one-foreign", "lost")
_MEMBERS: Final = ("none", "one", "torn", "strange", "restored", "imported")
_LATER: Final = ("nothing", "member-gone")
_LATER_S: Final = 120.0
_BACKEND: Final = ("none", "made")


class GroupsRoom:
    """group is of the claims with the label app=web. members: what of its snapshots is there already; a claim is being
    filled from the restored one, and an administrator has imported the imported one, by itself. later: somebody takes
    that away, with force.
    """

    name = "groups"
    rounds = ("ListSnapshots", "GetVolumeGroupSnapshot")
    space = Space(
        Axis("group", tuple(_GROUP)),
        Axis("content", tuple(_CONTENTS)),
        Axis("class", tuple(_CLASS)),
        Axis("claims", _CLAIMS),
        Axis("members", _MEMBERS),
        Axis("backend", _BACKEND),
        Axis("later", _LATER),
    )

    def bodies(self, state: State) -> list[Json]:
        made = [
            a_snapshot_class(),
            a_secret("secret", {"key": "c2VjcmV0"}),
            *_claims(state["claims"]),
            *_members(state["members"]),
        ]
        if (fields := _CLASS[state["class"]]) is not None:
            made.append(a_group_class(**fields))
        if (fields := _GROUP[state["group"]]) is not None:
            more = dict(fields)
            status = more.pop("status", None)
            body = a_group_snapshot("group", uid="uid-group", **more)
            made.append({**body, **({"status": status} if status else {})})
        if (fields := _CONTENTS[state["content"]]) is not None:
            more = dict(fields)
            imports = more.pop("imports", False)
            body = a_group_content(CONTENT, **more)
            if imports:
                handles = {
                    "volumeGroupSnapshotHandle": HANDLE,
                    "volumeSnapshotHandles": [one["snapshotHandle"] for one in _INFOS],
                }
                body["spec"]["source"] = {"groupSnapshotHandles": handles}
            made.append(body)
        return made

    def driver(self, state: State) -> ScriptedDriver:
        driver = _Groups(controller=(RPC.LIST_SNAPSHOTS,), groups=True)
        if state["backend"] == "made":
            for info in _INFOS:
                driver.add(str(info["snapshotHandle"]), str(info["volumeHandle"]), group_snapshot_id=HANDLE)
            driver.groups[HANDLE] = [str(info["snapshotHandle"]) for info in _INFOS]
        return driver

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        driver = world.driver
        assert isinstance(driver, _Groups)
        driver.world = world
        services = frozenset({SERVICE.CONTROLLER_SERVICE, SERVICE.GROUP_CONTROLLER_SERVICE})
        info = DriverInfo(DRIVER, "1", services, frozenset(), frozenset(driver.controller))
        port = InProcessDriver(driver, clock=world.clock)
        controller = SnapshotController(
            world.runtime, SnapshotControllerOptions(worker_threads=1, groups=True, resync_s=RESYNC_S)
        )
        options = SnapshotterOptions(worker_threads=1, groups=True, resync_s=RESYNC_S)
        parts = [controller.run(), Snapshotter(world.runtime, port, info, options).run()]
        return [*parts, _member_goes(world)] if state["later"] == "member-gone" else parts

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        driver = world.driver
        assert isinstance(driver, SnapshotDriver)
        contents = world.all(GROUP_SNAPSHOT_CONTENTS)
        for group in world.all(GROUP_SNAPSHOTS):
            yield from _group(world, group)
        for content in contents:
            yield from _content(world, content)
        named = {(content.get("status") or {}).get("volumeGroupSnapshotHandle") for content in contents}
        named |= {
            (content["spec"]["source"].get("groupSnapshotHandles") or {}).get("volumeGroupSnapshotHandle")
            for content in contents
        }
        for handle in sorted(set(driver.groups) - named - ({HANDLE} if state["backend"] == "made" else set())):
            yield "leaked", f"{handle} is in the backend, no content names it"
        for snapshot in world.all(VOLUME_SNAPSHOTS):
            meta, told = snapshot["metadata"], world.told(snapshot["metadata"]["name"])
            ready = (snapshot.get("status") or {}).get("readyToUse")
            is_awaited = any(
                world.told(group["metadata"]["name"]) for group in world.all(GROUP_SNAPSHOTS)
            )  # the group says why
            of_group = any(owner["uid"] == "uid-group" for owner in meta.get("ownerReferences") or ())
            if state["members"] == "none" and of_group and names.IN_GROUP_FINALIZER not in meta.get("finalizers", ()):
                yield "member-free", f"{meta['name']} is a group's, and can be deleted alone: {meta.get('finalizers')}"
            if "deletionTimestamp" not in meta and not ready and not told and not is_awaited:
                yield "silence", f"{meta['name']} is not ready, nobody says why: {snapshot.get('status')}"
        for content in world.all(VOLUME_SNAPSHOT_CONTENTS):
            meta = content["metadata"]
            if (
                "deletionTimestamp" in meta
                and names.CONTENT_FINALIZER in meta.get("finalizers", ())
                and not world.told(meta["name"])
            ):
                yield "silence", f"{meta['name']} is being deleted, held, nobody says why"


class _Groups(SnapshotDriver):
    """Looks at the Secret that a group is deleted with, and who makes one of which the deletion was answered."""

    world: StateWorld | None = None
    is_deleted = False

    async def create_volume_group_snapshot(
        self, request: csi.CreateVolumeGroupSnapshotRequest
    ) -> csi.CreateVolumeGroupSnapshotResponse:
        assert self.world is not None
        content = self.world.find(GROUP_SNAPSHOT_CONTENTS, CONTENT)
        group = self.world.find(GROUP_SNAPSHOTS, "group")
        is_wanted = (
            group is not None and "deletionTimestamp" not in group["metadata"]
        )  # by a group that lives beside a content that goes
        if self.is_deleted and not is_wanted and content is not None and "deletionTimestamp" in content["metadata"]:
            self.world.fail(
                "made-again",
                f"{request.name} is made for a content that is being deleted, and its group was deleted already",
            )
        return await super().create_volume_group_snapshot(request)

    async def delete_volume_group_snapshot(
        self, request: csi.DeleteVolumeGroupSnapshotRequest
    ) -> csi.DeleteVolumeGroupSnapshotResponse:
        assert self.world is not None
        for content in self.world.all(GROUP_SNAPSHOT_CONTENTS):
            of_it = (content.get("status") or {}).get("volumeGroupSnapshotHandle") == request.group_snapshot_id
            if of_it and _SECRET.items() <= content["metadata"].get("annotations", {}).items() and not request.secrets:
                self.world.fail(
                    "secret-left-out",
                    f"{request.group_snapshot_id} is deleted without the Secret that its content notes",
                )
        answer = await super().delete_volume_group_snapshot(request)
        self.is_deleted = self.is_deleted or request.group_snapshot_id == HANDLE
        return answer


def _claims(value: str) -> list[Json]:
    made: list[Json] = []
    for one in "ab" if value != "none" else "":
        if value == "one-pending" and one == "b":
            made.append(a_claim("claim-b", labels=APP))
            continue
        claim = a_bound_claim(f"claim-{one}", f"pv-{one}", labels=APP)
        made.append(claim)
        driver = OTHER if value == "one-foreign" and one == "b" else DRIVER
        if not (value == "lost" and one == "b"):
            made.append(
                a_pv(f"pv-{one}", source={"csi": {"driver": driver, "volumeHandle": f"vol-{one}"}}, claim=claim)
            )
    return made


def _members(value: str) -> list[Json]:
    if value == "none":
        return []
    if value == "imported":
        info = _INFOS[0]
        return [
            a_new_content(
                _IMPORT, handle=str(info["snapshotHandle"]), ref_uid=None, policy="Retain", status={"readyToUse": True}
            )
        ]
    name = names.member_name("uid-group", "vol-a")
    owner = {
        "apiVersion": "groupsnapshot.storage.k8s.io/v1",
        "kind": "VolumeGroupSnapshot",
        "name": "group",
        "uid": "uid-group",
    }
    held = [] if value == "torn" else [names.IN_GROUP_FINALIZER]
    owners = [{**owner, "uid": "uid-other"}] if value == "strange" else [owner]
    content = names.member_content_name(name)
    member = a_snapshot(name, content=content, finalizers=held or None, ownerReferences=owners)
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name}
    restoring = [a_claim("restored", dataSource=source)] if value == "restored" else []
    return [
        {**member, "status": {"boundVolumeSnapshotContentName": content, "volumeGroupSnapshotName": "group"}},
        *restoring,
    ]


async def _member_goes(world: StateWorld) -> None:
    """By force, finalizers and all."""
    await asyncio.sleep(_LATER_S)
    user = ClusterUser(world.users)
    for kind, name in (
        (VOLUME_SNAPSHOTS, names.member_name("uid-group", "vol-a")),
        (VOLUME_SNAPSHOT_CONTENTS, _IMPORT),
    ):
        if (found := world.find(kind, name)) is not None:
            if found["metadata"].get("finalizers"):
                await user.patch(kind, name, {"metadata": {"finalizers": None}})
            if world.find(kind, name) is not None and "deletionTimestamp" not in found["metadata"]:
                await user.delete(kind, name)
    await asyncio.Event().wait()


def _group(world: StateWorld, group: Json) -> Iterator[Complaint]:
    meta, status, name = group["metadata"], group.get("status") or {}, group["metadata"]["name"]
    told = world.told(name)
    if "deletionTimestamp" in meta:
        if names.GROUP_FINALIZER in meta.get("finalizers", ()) and not told and not world.told(CONTENT):
            yield "silence", f"{name} is being deleted, held: {meta['finalizers']}"
    elif not status.get("readyToUse") and not (status.get("error") or {}).get("message") and not told:
        yield "silence", f"{name} is not ready: {status}"


def _content(world: StateWorld, content: Json) -> Iterator[Complaint]:
    meta, status, name = content["metadata"], content.get("status") or {}, content["metadata"]["name"]
    group = world.find(GROUP_SNAPSHOTS, "group")
    is_of = group is not None and content["spec"]["volumeGroupSnapshotRef"].get("uid") == group["metadata"]["uid"]
    if content["spec"]["driver"] != DRIVER:
        return
    if "deletionTimestamp" in meta:
        wanted = is_of and group is not None and "deletionTimestamp" not in group["metadata"]
        after = is_of and world.told("group")  # it goes after its group, which waits, and says for what
        if names.GROUP_CONTENT_FINALIZER in meta.get("finalizers", ()) and not (wanted or after or world.told(name)):
            yield "silence", f"{name} is being deleted, held, nobody says why: {meta.get('annotations')}"
    elif is_of and not status.get("readyToUse") and not status.get("error") and not world.told(name):
        yield "silence", f"{name} is not ready, nobody says why"
