"""Both snapshot programs on one embedded store, in virtual time, with a scripted driver.

`story` holds requests and driver calls in one order, as short texts: `["patch volumesnapshots", "CreateSnapshot",
...]`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_names import BEING_DELETED, YES
from mooring.apiserver.local import ServerFaults
from mooring.cluster.snapshots.controller import SnapshotController
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.control.runtime import Runtime
from mooring.csi.in_process import InProcessDriver
from mooring.csi.session import probe_and_identify
from mooring.sidecars.snapshotter.controller import Snapshotter
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from tests.support.builders import Json, a_bound_claim, a_new_snapshot, a_pv, a_snapshot_class
from tests.support.cluster_world import WAIT_S, ClusterWorld
from tests.support.snapshot_driver import SnapshotDriver

VS, VSC, PVC = VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CONTENTS, PERSISTENT_VOLUME_CLAIMS
PATCH_VS, PATCH_VS_STATUS = "patch volumesnapshots", "patch volumesnapshots/status"
CREATE_VSC, PATCH_VSC = "create volumesnapshotcontents", "patch volumesnapshotcontents"
PATCH_VSC_STATUS = "patch volumesnapshotcontents/status"
DELETE_VSC, PUT_PVC, GET_PVC = (
    "delete volumesnapshotcontents",
    "update persistentvolumeclaims",
    "get persistentvolumeclaims",
)
WRITES: Final = ("create", "patch", "update", "delete")


class SnapshotWorld(ClusterWorld):
    """A driver and the two programs, which come and go. Snapshot `snap` is of claim `claim`, whose volume `pv` has the
    handle `vol`.
    """

    def __init__(self, driver: SnapshotDriver | None = None, faults: ServerFaults | None = None) -> None:
        super().__init__(faults)
        self.look_s = 0.1
        self.driver = driver or SnapshotDriver()
        self.driver.story = self.story

    # -- programs

    @contextlib.asynccontextmanager
    async def controlling(self, *bodies: Json, **options: Any) -> AsyncIterator[SnapshotController]:
        """A running snapshot controller; cancelled at the end, as by kill -9. bodies: objects that come while it
        runs.
        """
        controller = SnapshotController(self.runtime, SnapshotControllerOptions(**options))
        async with self.running(controller.run()):
            await self.create(*bodies)
            yield controller

    @contextlib.asynccontextmanager
    async def snapshotting(self, *bodies: Json, **options: Any) -> AsyncIterator[Snapshotter]:
        """A running snapshotter of the driver."""
        port = InProcessDriver(self.driver, clock=self.clock)
        info = await probe_and_identify(port, clock=self.clock)
        runtime = Runtime(self.cluster, self.clock, self.randomness, self.metrics)
        snapshotter = Snapshotter(runtime, port, info, SnapshotterOptions(**options))
        async with self.running(snapshotter.run()):
            await self.create(*bodies)
            yield snapshotter

    @contextlib.asynccontextmanager
    async def both(self, *bodies: Json, **options: Any) -> AsyncIterator[None]:
        """options: of both, as far as they have them."""
        async with self.controlling(**options), self.snapshotting(**options):
            await self.create(*bodies)
            yield

    # -- objects

    async def kinds(self) -> SnapshotWorld:
        await self.make_snapshot_kinds()
        return self

    async def base(self, parameters: Json | None = None, *, policy: str = "Delete", **pv: Any) -> SnapshotWorld:
        """Kinds, class, bound claim and volume."""
        await self.kinds()
        given = {"parameters": parameters} if parameters else {}
        await self.create(a_snapshot_class(policy=policy, **given))
        await self.claim(**pv)
        return self

    async def claim(self, name: str = "claim", *, volume: str = "pv", handle: str = "vol", **pv: Any) -> Json:
        """A bound claim with its volume."""
        made = await self.create({**a_bound_claim(name, volume)})
        await self.create(a_pv(volume, handle, claim=made, **pv))
        return made

    async def snap(self, name: str = "snap", **more: Any) -> Json:
        return await self.create(a_new_snapshot(name, **more))

    async def cut(self, content: str, **status: Any) -> None:
        """The test as the driver's side: the snapshot is made."""
        made = {
            "snapshotHandle": "h",
            "readyToUse": True,
            "restoreSize": 1 << 30,
            "creationTime": 1_700_000_000 * 10**9,
            **status,
        }
        await self.patch(
            VSC, content, {"status": {k: v for k, v in made.items() if v is not ...}}, subresource="status"
        )

    async def annotate(self, kind: Kind[Any], name: str, **notes: str | None) -> None:
        await self.patch(kind, name, {"metadata": {"annotations": notes}})

    async def delete_by_controller(self, content: str) -> None:
        """The test as the cluster's side: the snapshot of this content is deleted."""
        await self.annotate(VSC, content, **{BEING_DELETED: YES})
        await self.delete(VSC, content)

    async def set_finalizers(self, kind: Kind[Any], name: str, *finalizers: str) -> None:
        await self.patch(kind, name, {"metadata": {"finalizers": list(finalizers) or None}})

    async def tear_away(self, kind: Kind[Any], name: str) -> None:
        """The object, finalizers and all."""
        await self.delete(kind, name)
        if await self.find(kind, name) is not None:
            await self.set_finalizers(kind, name)

    # -- waiting

    async def ready(self, name: str = "snap", wait_s: float = WAIT_S) -> Json:
        return await self.shown(VS, name, lambda body: _status(body).get("readyToUse") is True, "ready", wait_s)

    async def error(self, name: str = "snap", text: str = "", kind: Kind[Any] = VS) -> str:
        """The message in the status, once there is one with this text."""
        found = await self.shown(
            kind, name, lambda body: text in error_of(body) and error_of(body), f"with error {text!r}"
        )
        return error_of(found)

    async def content_ready(self, name: str) -> Json:
        return await self.shown(VSC, name, lambda body: _status(body).get("readyToUse") is True, "ready")

    async def content(self, check: Callable[[Json], Any] = bool) -> Json:
        """The one content there is, once it is as wanted."""

        async def found() -> Json | None:
            listed = await self.list(VSC)
            return listed[0] if listed and check(listed[0]) else None

        body: Json = await self.until(found, what="a content")
        return body

    # -- what happened

    def written(self) -> list[str]:
        """The writes of both programs, without Events."""
        return [step for step in self.story if step.split(" ", 1)[0] in WRITES and "events" not in step]

    async def reasons(self, name: str) -> list[str]:
        """Of the Events about the object of this name."""
        await self.settle(3.0)
        return [reason for _, reason, _, _ in await self.events(name)]

    async def told(self, name: str, reason: str) -> str:
        """The message of an Event."""

        async def found() -> str:
            return next((text for _, seen, text, _ in await self.events(name) if seen == reason), "")

        message: str = await self.until(found, what=f"Event {reason} of {name}")
        return message


def _status(body: Json) -> Json:
    return body.get("status") or {}


def error_of(body: Json) -> str:
    return str((_status(body).get("error") or {}).get("message") or "")


def finalizers(body: Json) -> list[str]:
    return list(body["metadata"].get("finalizers") or ())
