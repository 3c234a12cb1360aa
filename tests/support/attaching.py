"""The attacher on in-process ports, in virtual time: the base situation of the specification, and what became of it.

`story` holds requests and driver calls in one order, as short texts: `["patch volumeattachments",
"ControllerPublishVolume", ...]`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.local import ServerFaults
from mooring.csi.in_process import InProcessDriver
from mooring.csi.metrics import CallMetrics
from mooring.csi.session import probe_and_identify
from mooring.sidecars.attacher.controller import Attacher
from mooring.sidecars.attacher.options import AttacherOptions
from tests.support.builders import Json, a_csi_node, a_held_pv
from tests.support.cluster_world import WAIT_S, ClusterWorld
from tests.support.recording import Request
from tests.support.scripted_driver import ScriptedDriver

PATCH_PV = "patch persistentvolumes"
PATCH_VA = "patch volumeattachments"
PATCH_STATUS = "patch volumeattachments/status"
GET_SECRET = "get secrets"
GET_VA = "get volumeattachments"
GET_PV, GET_NODE = "get persistentvolumes", "get csinodes"
PUBLISH, UNPUBLISH = "ControllerPublishVolume", "ControllerUnpublishVolume"
STD_ATTACH = [PATCH_VA, PUBLISH, PATCH_STATUS]


class AttacherWorld(ClusterWorld):
    """A scripted driver, and attachers that come and go."""

    def __init__(
        self,
        driver: ScriptedDriver | None = None,
        faults: ServerFaults | None = None,
        call_metrics: CallMetrics | None = None,
        **options: Any,
    ) -> None:
        super().__init__(faults)
        self.driver = driver or ScriptedDriver()
        self.driver.story = self.story
        self.options = AttacherOptions(**{"default_fstype": "ext4", **options})
        self.attacher: Attacher | None = None
        self._call_metrics = call_metrics

    # -- attachers

    @contextlib.asynccontextmanager
    async def attaching(self, *bodies: Json) -> AsyncIterator[Attacher]:
        """A running attacher; cancelled at the end, as by kill -9. bodies: objects that come while it runs."""
        port = InProcessDriver(self.driver, clock=self.clock, metrics=self._call_metrics)
        info = await probe_and_identify(port, clock=self.clock)
        self.attacher = Attacher(self.runtime, port, info, self.options)
        async with self.running(self.attacher.run()):
            await self.create(*bodies)
            yield self.attacher

    # -- objects

    async def base(self, **pv: Any) -> AttacherWorld:
        """CSINode and PV."""
        await self.create(a_csi_node(), a_held_pv(**pv))
        await self.set_finalizers(PERSISTENT_VOLUMES, "pv1", pv.get("finalizers", ["external-attacher/csi-test"]))
        return self

    async def set_finalizers(self, kind: Kind[Any], name: str, finalizers: Any) -> None:
        await self.patch(kind, name, {"metadata": {"finalizers": list(finalizers) if finalizers else None}})

    async def tear_away(self, name: str) -> None:
        """The attachment, finalizers and all."""
        await self.set_finalizers(VOLUME_ATTACHMENTS, name, [])
        await self.delete(VOLUME_ATTACHMENTS, name)

    # -- waiting

    async def attached(self, name: str = "pv1-node1", wait_s: float = WAIT_S) -> dict[str, Any]:
        return await self.status(lambda status: status["attached"], name, wait_s)

    async def status(self, check: Callable[[Json], Any], name: str = "pv1-node1", wait_s: float = WAIT_S) -> Json:
        """The attachment, once its status is as wanted."""
        return await self.shown(VOLUME_ATTACHMENTS, name, lambda body: check(body["status"]), wait_s=wait_s)

    async def error(self, field: str = "attachError", name: str = "pv1-node1") -> dict[str, Any]:
        """The error in the status, once there is one."""
        found: dict[str, Any] = (await self.status(lambda status: status.get(field), name))["status"][field]
        return found

    # -- what happened

    def bodies(self, short: str) -> list[Any]:
        return [request.body for request in self.cluster.writes(short)]

    def changes(self, short: str) -> list[Any]:
        """The bodies without the uid, which each of them has."""
        return [_without_uid(body) for body in self.bodies(short)]

    def last(self, short: str) -> Request:
        return self.cluster.writes(short)[-1]


def _without_uid(body: Any) -> Any:
    if isinstance(body, list):
        assert body[0]["path"] == "/metadata/uid"
        return body[1:]
    metadata = {name: value for name, value in body["metadata"].items() if name != "uid"}
    assert metadata != body["metadata"]
    return (
        {**body, "metadata": metadata}
        if metadata
        else {name: value for name, value in body.items() if name != "metadata"}
    )
