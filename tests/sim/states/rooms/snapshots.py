"""Snapshot controller and snapshotter: a claim, a class, a snapshot, its content, a second content of the same handle,
the backend.
"""

from __future__ import annotations

import functools
from collections.abc import Coroutine, Iterator
from typing import Any

from mooring.api import snapshot_names as names
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.cluster.snapshots.controller import SnapshotController
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.controller import Snapshotter
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from tests.sim.states.rooms.snapshot_values import (
    BACKENDS,
    CLAIMS,
    CLASSES,
    CONTENT,
    FOREIGN,
    HANDLE,
    SNAPS,
    TWINS,
    VSCS,
    claims,
    twins,
)
from tests.sim.states.run import RESYNC_S, Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import DRIVER, Json, a_new_content, a_new_snapshot, a_snapshot_class
from tests.support.scripted_driver import RPC, ScriptedDriver
from tests.support.snapshot_driver import SnapshotDriver


class SnapshotsRoom:
    """snap is of claim, or of its content. twin: another content of the same handle, perhaps with a living snapshot."""

    name = "snapshots"
    rounds = ("ListSnapshots",)
    space = Space(
        Axis("snap", tuple(SNAPS)),
        Axis("content", tuple(VSCS)),
        Axis("class", tuple(CLASSES)),
        Axis("claim", CLAIMS),
        Axis("twin", TWINS),
        Axis("backend", BACKENDS),
    )

    def bodies(self, state: State) -> list[Json]:
        made = [*claims(state["claim"])]
        if (fields := CLASSES[state["class"]]) is not None:
            made.append(a_snapshot_class(**fields))
        if (fields := SNAPS[state["snap"]]) is not None:
            status, more = fields.get("status"), {key: value for key, value in fields.items() if key != "status"}
            body = a_new_snapshot(
                "snap", **{key: list(value) if isinstance(value, tuple) else value for key, value in more.items()}
            )
            made.append({**body, **({"status": status} if status else {})})
        if (fields := VSCS[state["content"]]) is not None:
            more = dict(fields)
            blank = more.pop("uid_blank", False)
            body = a_new_content(CONTENT, **{"volumeSnapshotClassName": "snapclass", **more})
            if blank:
                body["spec"]["volumeSnapshotRef"]["uid"] = ""
            made.append(body)
        return made + twins(state["twin"])

    def driver(self, state: State) -> ScriptedDriver:
        driver = SnapshotDriver(controller=(RPC.LIST_SNAPSHOTS,))
        if state["backend"] != "none":
            driver.add(HANDLE, "vol" if state["backend"] == "made" else "vol-other")
        return driver

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        driver = world.driver = _Judged(world, world.driver)
        if state["claim"] == "former":
            world.laws.append(functools.partial(_is_of_a_stranger, world))
        service = frozenset({csi.PluginCapability.Service.CONTROLLER_SERVICE})
        info = DriverInfo(DRIVER, "1", service, frozenset(), frozenset(driver.controller))
        port = InProcessDriver(driver, clock=world.clock)
        controller = SnapshotController(world.runtime, SnapshotControllerOptions(worker_threads=1, resync_s=RESYNC_S))
        return [
            controller.run(),
            Snapshotter(world.runtime, port, info, SnapshotterOptions(worker_threads=1, resync_s=RESYNC_S)).run(),
        ]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        driver = world.driver
        assert isinstance(driver, SnapshotDriver)
        snapshots, contents = world.all(VOLUME_SNAPSHOTS), world.all(VOLUME_SNAPSHOT_CONTENTS)
        for snapshot in snapshots:
            yield from _snapshot(world, snapshot)
        for content in contents:
            yield from _content(world, content)
        named = {handle for content in contents for handle in _handles(content)}
        began_with = set() if state["backend"] == "none" else {HANDLE}
        for handle in sorted(set(driver.snapshots) - named - began_with):
            yield "leaked", f"{handle} is in the backend, no content names it"
        claim = world.find(PERSISTENT_VOLUME_CLAIMS, "claim")
        if claim is not None and names.CLAIM_FINALIZER in claim["metadata"].get("finalizers", ()):
            waiting = [one for one in snapshots if not (one.get("status") or {}).get("readyToUse")]
            making = [
                one
                for one in contents
                if one["spec"]["source"].get("volumeHandle") and not (one.get("status") or {}).get("readyToUse")
            ]
            if not waiting and not making:
                yield "claim-held", "the claim is held, no snapshot of it is in the making"


class _Judged(SnapshotDriver):
    """The driver of a state, which looks at the store with each call.

    marked: contents that were deleted, and marked so, when both programs began.
    """

    def __init__(self, world: StateWorld, first: ScriptedDriver) -> None:
        assert isinstance(first, SnapshotDriver)
        super().__init__(controller=(RPC.LIST_SNAPSHOTS,))
        self.snapshots, self._world = first.snapshots, world
        contents = world.all(VOLUME_SNAPSHOT_CONTENTS)
        marks = {
            one["metadata"]["name"]: one["metadata"].get("annotations", {})
            for one in contents
            if "deletionTimestamp" in one["metadata"]
        }
        self.marked = {name for name, found in marks.items() if names.BEING_DELETED in found}

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        content = self._world.find(VOLUME_SNAPSHOT_CONTENTS, CONTENT)
        if content is None or names.BEING_CREATED not in content["metadata"].get("annotations", {}):
            self._world.fail("create-unmarked", f"{request.name} is created, no content says so")
        return await super().create_snapshot(request)

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        handle = request.snapshot_id
        living = {
            one["metadata"]["uid"]
            for one in self._world.all(VOLUME_SNAPSHOTS)
            if "deletionTimestamp" not in one["metadata"]
        }
        for content in self._world.all(VOLUME_SNAPSHOT_CONTENTS):
            meta, spec = content["metadata"], content["spec"]
            if handle not in _handles(content) or spec["driver"] != DRIVER:
                continue
            # Marked and deleted before both programs began: snapshotters know contents alone, and nothing in this one
            # says otherwise.
            is_told = meta["name"] in self.marked
            if spec["volumeSnapshotRef"].get("uid") in living and not is_told:
                self._world.fail("deleted-wanted", f"{handle} is deleted, a living snapshot is bound to {meta['name']}")
            if spec["deletionPolicy"] == "Retain":
                self._world.fail("deleted-kept", f"{handle} is deleted, {meta['name']} is to keep it")
        return await super().delete_snapshot(request)


def _is_of_a_stranger(world: StateWorld, resource: Resource, change: StoredChange) -> None:
    """A content is made for a claim, of a volume that is bound to another one."""
    if resource.plural != VOLUME_SNAPSHOT_CONTENTS.plural or change.old is not None or change.new is None:
        return
    if change.new.whole()["spec"]["source"].get("volumeHandle"):
        world.fail("strange-source", f"{change.key.name} is of a volume that is bound to a former claim")


def _handles(content: Json) -> set[str]:
    status = content.get("status") or {}
    return {status.get("snapshotHandle"), content["spec"]["source"].get("snapshotHandle")} - {None, ""}


def _snapshot(world: StateWorld, snapshot: Json) -> Iterator[Complaint]:
    meta, status, name = snapshot["metadata"], snapshot.get("status") or {}, snapshot["metadata"]["name"]
    told = world.told(name)
    if "deletionTimestamp" in meta:
        ours = [one for one in meta.get("finalizers", ()) if one != FOREIGN]
        if ours and not told and not world.told(status.get("boundVolumeSnapshotContentName") or CONTENT):
            yield "silence", f"{name} is being deleted, held by {ours}: {told}"
    elif status.get("readyToUse"):
        content = world.find(VOLUME_SNAPSHOT_CONTENTS, status.get("boundVolumeSnapshotContentName") or "")
        is_bound = content is not None and content["spec"]["volumeSnapshotRef"].get("uid") == meta["uid"]
        if not is_bound and not told:
            yield "silence", f"{name} is ready, its content is not its own, nobody says so"
        if is_bound and status.get("error"):
            yield "error-left", f"{name} is ready and shows {status['error']}"
    elif _is_of_others(world, status):
        return  # its status names the content, and that the driver that it waits for
    elif not (status.get("error") or {}).get("message") and not any(
        "ailed" in text or "issing" in text for text in told
    ):
        yield "silence", f"{name} is not ready: {status}, told {told}"


def _is_of_others(world: StateWorld, status: Json) -> bool:
    content = world.find(VOLUME_SNAPSHOT_CONTENTS, status.get("boundVolumeSnapshotContentName") or "")
    return content is not None and content["spec"]["driver"] != DRIVER


def _content(world: StateWorld, content: Json) -> Iterator[Complaint]:
    meta, status, name = content["metadata"], content.get("status") or {}, content["metadata"]["name"]
    ref = content["spec"]["volumeSnapshotRef"]
    snapshot = world.find(VOLUME_SNAPSHOTS, ref["name"])
    is_of = snapshot is not None and ref.get("uid") == snapshot["metadata"]["uid"]
    told = world.told(name)
    if content["spec"]["driver"] != DRIVER:
        return
    if "deletionTimestamp" in meta:
        held = names.CONTENT_FINALIZER in meta.get("finalizers", ())
        wanted = is_of and snapshot is not None and "deletionTimestamp" not in snapshot["metadata"]
        if held and not wanted and not told:
            yield "silence", f"{name} is being deleted, held, nobody says why: {meta.get('annotations')}"
        return
    is_living = snapshot is not None and "deletionTimestamp" not in snapshot["metadata"]
    is_well = snapshot is not None and is_living and not (snapshot.get("status") or {}).get("error")
    if is_of and is_well and names.BEING_DELETED in meta.get("annotations", {}):
        yield "mark-left", f"{name} is marked as being deleted, its snapshot is not"
    if is_of and not status.get("readyToUse") and not status.get("error") and not told:
        yield "silence", f"{name} is not ready, nobody says why"
